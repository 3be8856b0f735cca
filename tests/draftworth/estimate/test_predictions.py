"""Predicted and measured tokens per step are of the same requests; chunks can show each step."""

from pathlib import Path
from typing import Any

import pytest

from draftworth.estimate.predictions import could_have_taken, draft_folders, predictions_of
from draftworth.planning.resolved import ResolvedLocal, load
from draftworth.records.likelihoods import Prediction
from draftworth.records.readings import Reading
from draftworth.records.run_folder import Run
from draftworth.records.transcripts import Transcript
from tests.conftest import ROOT
from tests.support.blocks import make_block, make_record, make_run
from tests.support.experiments import put, write_experiment
from tests.support.readings import make_output, make_reading

VARIANT = "qwen3-1.7b-k7"


def reading(hits: str) -> Reading:
    output = make_output(prompt_class="structured", case="count", prompt_id="prompt-0")
    return make_reading(hits, of=output)


def predicted(
    hits: str, chunks: tuple[int, ...], *, checked: int = 2, **record: Any
) -> list[Prediction]:
    values = {"number_output_tokens": len(hits) + 1, "chunks": len(chunks), **record}
    request = make_record(**values)
    block = make_block(requests=(request,), warmup_requests=0, speculation=None)
    run = Run(result=make_run(block), blocks=(block,))
    transcript = Transcript(request_id=request.request_id, chunk_tokens=chunks)
    return list(
        predictions_of(run, {request.request_id: transcript}, [reading(hits)], {VARIANT: checked})
    )


@pytest.mark.parametrize(
    ("chunks", "measured", "steps_shown", "same"),
    [
        ((1, 3, 3), 3.0, 1, 1),
        # Two steps, as predicted, so the means agree; but the two steps have other tokens.
        ((1, 2, 4), 3.0, 1, 0),
        ((1, 2, 2, 2), 2.0, 1, 0),
    ],
)
def test_predicted_steps_stand_beside_the_measured_ones(
    chunks: tuple[int, ...], measured: float, steps_shown: int, same: int
) -> None:
    (prediction,) = predicted("110110", chunks)

    assert (prediction.predicted, prediction.measured) == (3.0, measured)
    assert prediction.difference == pytest.approx(3.0 / measured - 1)
    assert (prediction.requests, prediction.shown, prediction.same_sequence) == (
        1,
        steps_shown,
        same,
    )


def test_merged_chunks_defer_to_the_servers_count() -> None:
    (prediction,) = predicted("110110", (1, 6), verification_steps=2, drafted_tokens=14)

    assert prediction.measured == 3.0
    assert (prediction.shown, prediction.same_sequence) == (0, 0)


STEPS = (1, 1, 1, 1, 1, 5, 5)
# A busy server merged steps 5 and 6, or the first ones with the prefill, or all of them.
MERGED = [(1, 1, 1, 1, 1, 6, 5), (3, 1, 1, 1, 5, 5), (16,)]


def goes_by_steps(chunks: tuple[int, ...], steps: int | None = 7, accepted: int | None = 8) -> bool:
    """Return whether a request with these chunks can have taken the steps in `STEPS`.

    steps, accepted: the server's counts of steps and of accepted tokens. The defaults are right if
    no drafted token was accepted beyond the output's end.
    """
    record = make_record(verification_steps=steps, drafted_tokens=10, accepted_tokens=accepted)
    return could_have_taken(
        STEPS, record, Transcript(request_id="r", chunk_tokens=chunks), checked=5
    )


@pytest.mark.parametrize("chunks", MERGED)
@pytest.mark.parametrize(
    ("steps", "accepted", "agrees"),
    [
        (7, 8, True),
        # The last step accepted one drafted token beyond the output's end, so the number of steps
        # that is computed from the accepted tokens is too small by one.
        (6, 9, True),
        (8, 8, False),
        (7, 7, False),
        (6, 10, False),
        (None, None, False),
    ],
)
def test_merged_chunks_are_held_to_the_servers_counts(
    chunks: tuple[int, ...], steps: int | None, accepted: int | None, agrees: bool
) -> None:
    assert goes_by_steps(chunks, steps, accepted) == agrees


@pytest.mark.parametrize(
    "chunks", [(3, 1, 1, 1, 6, 4), (1, 1, 5, 4, 5), (1, 1, 1, 12), (16, 5), (1, *STEPS[:-1], 4, 1)]
)
def test_merged_chunks_end_where_steps_end(chunks: tuple[int, ...]) -> None:
    assert not goes_by_steps(chunks)


def test_unmerged_chunks_need_no_counts() -> None:
    assert goes_by_steps((1, *STEPS), None, None)


@pytest.mark.parametrize(
    ("hits", "chunks", "record"),
    [
        ("110110", (1, 3, 3), {"prompt_id": "another"}),
        ("110110", (1, 3, 3), {"excluded": "late"}),
        ("", (1, 1), {}),
    ],
    ids=["not read", "failed", "one token"],
)
def test_what_cannot_be_compared_is_left_out(
    hits: str, chunks: tuple[int, ...], record: dict[str, Any]
) -> None:
    assert predicted(hits, chunks, **record) == []


@pytest.mark.parametrize(("method", "folders"), [("draft_model", ["draft"]), ("eagle3", [])])
def test_only_models_are_read_for_predictions(
    tmp_path: Path, method: str, folders: list[str]
) -> None:
    (tmp_path / "rehearsal").symlink_to(ROOT / "rehearsal")
    folder = tmp_path / "experiments"
    folder.mkdir()
    edit = put("variants", 1, "method", value=method)
    experiment = load(write_experiment(folder, edit, base="rehearsal"))
    assert isinstance(experiment, ResolvedLocal)
    assert [folder.name for folder in draft_folders(experiment)] == folders
