"""The checks of a trained pair's run, and each way in which they fail."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from draftworth.estimate.run_teacher_forcing import Reader
from draftworth.planning.resolved import ResolvedExperiment, load
from draftworth.records.run_folder import Run
from draftworth.records.transcripts import Transcript
from rehearsal.prediction_checks import checks_of
from tests.rehearsal.engines import PAIR
from tests.support.blocks import make_block, make_failed_record, make_record, make_run
from tests.support.experiments import put, write_experiment
from tests.support.readings import make_reading

# No token is in a prompt, so nothing is drafted until the output repeats itself.
IDS = (10**6, 10**6 + 1, 10**6 + 2, 10**6 + 3) * 4
# When `a b` is repeated, c d a b are drafted, and one more token follows.
STEPS = (1, 1, 1, 1, 1, 5, 5)
FIRST = (1,)  # the prefill's token
NGRAM = {"method": "ngram", "window": 5}
DRAFT = {"method": "draft_model", "window": 7, "draft": {"path": str(PAIR / "draft")}}
BOTH = ["the baseline's token ids", "steps as predicted"]


@cache
def experiment_with(method: str) -> ResolvedExperiment:
    """Return the rehearsal with a variant `k` of this method, a JSON object; tests share it."""
    variant = {"name": "k", **json.loads(method)}
    with tempfile.TemporaryDirectory() as folder:
        edit = put("variants", 1, value=variant)
        return load(write_experiment(Path(folder), edit, base="rehearsal"))


def broken(folder: Path, method: dict[str, Any], *chunks: int, **answer: Any) -> list[str]:
    """Return the checks that fail for a variant whose answer came in these chunks.

    answer: overrides of the answer's `record`, its token ids `ids`, and the baseline's, `plain`.
    """
    experiment = experiment_with(json.dumps(method))
    case = experiment.cases[0]
    by_variant = {"baseline": make_record(0), "k": answer.get("record", make_record(1))}
    records = {name: replace(r, prompt_id=case.prompts[0].id) for name, r in by_variant.items()}
    blocks = [make_block(variant=n, case=case.name, requests=(r,)) for n, r in records.items()]
    plain, ids = answer.get("plain", IDS), answer.get("ids", IDS)
    transcripts = {
        "request-0": Transcript(request_id="request-0", token_ids=plain),
        "request-1": Transcript(request_id="request-1", token_ids=ids, chunk_tokens=chunks),
    }
    run = Run(result=make_run(*blocks), blocks=tuple(blocks))
    reader = Reader(python=folder, target=PAIR / "target", folder=folder, enable_thinking=False)
    checks = list(checks_of(experiment, run, transcripts, reader))  # type: ignore[arg-type]
    assert [check.what for check in checks] == BOTH
    assert all(str(check).startswith("check holds: ") == check.holds for check in checks)
    return [check.what for check in checks if not check.holds]


# Records with a server's counts: right ones, and with a step too many.
COUNTED, MISCOUNTED = (
    make_record(1, verification_steps=steps, drafted_tokens=10, accepted_tokens=8)
    for steps in (7, 8)
)


@pytest.mark.parametrize(
    ("chunks", "answer", "expected"),
    [
        ((*FIRST, *STEPS), {}, []),
        ((*FIRST, *STEPS), {"ids": (*IDS[:-1], 7)}, BOTH[:1]),
        ((*FIRST, *STEPS), {"ids": None, "plain": None}, BOTH),
        ((*FIRST, *STEPS[:-2], 4, 6), {}, BOTH[1:]),
        ((*FIRST, *STEPS[:-1], 4, 1), {}, BOTH[1:]),
        # The first two steps came with the prefill, and the last two together.
        ((3, 1, 1, 1, 10), {"record": COUNTED}, []),
        ((3, 1, 1, 1, 10), {"record": MISCOUNTED}, BOTH[1:]),
        ((), {"record": make_failed_record(1), "ids": None}, BOTH),
    ],
)
def test_the_checks_of_n_gram_drafting(
    tmp_path: Path, chunks: Sequence[int], answer: dict[str, Any], expected: list[str]
) -> None:
    assert broken(tmp_path, NGRAM, *chunks, **answer) == expected


def test_a_draft_models_checks_use_its_readings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hits = "1" * 9 + "0" + "1" * 5
    monkeypatch.setattr(Reader, "readings", lambda *a: [make_reading(hits, of=o) for o in a[-1]])
    assert broken(tmp_path, DRAFT, *FIRST, 8, 2, 5) == []
    assert broken(tmp_path, DRAFT, *FIRST, 8, 7) == BOTH[1:]
