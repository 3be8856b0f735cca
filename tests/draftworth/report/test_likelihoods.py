"""Whose outputs they are: shown, said first, and no verdict on what is not the target's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from draftworth.analysis.answer import headline
from draftworth.analysis.attention import attention_of
from draftworth.analysis.facts import RunFacts, facts_of
from draftworth.cli import main
from draftworth.errors import UserInputError
from draftworth.records.codec import dump_record
from draftworth.records.likelihoods import (
    DRAFT_MARGIN_NATS,
    LIKELIHOODS_FILE,
    DraftLikelihood,
    GreedyLikelihood,
    Likelihood,
    Likelihoods,
    ModelsCheck,
    read_likelihoods,
)
from draftworth.records.reading import read_run
from tests.draftworth.report.runs import BASELINE, make_run, write_run


def likelihood(variant: str, **overrides: Any) -> Likelihood:
    fields: dict[str, Any] = {"outputs": 64, "tokens": 9600, "deviation": 0.7, "per_token": 0.002}
    return Likelihood(variant=variant, **{**fields, **overrides})


NOISE = {"deviation": -856.1, "per_token": -10.93}


def sampled(folder: Path, **of_variant: Any) -> Path:
    """A run at temperature 0.8 and what the target says of both sides."""
    run = make_run(temperature=0.8)
    path = write_run(run, folder / "run")
    found = tuple(
        likelihood(name, **(of_variant if name != BASELINE else {})) for name in run.result.variants
    )
    record = Likelihoods(run_id=run.result.run_id, likelihoods=found)
    (path / LIKELIHOODS_FILE).write_bytes(dump_record(record))
    return path


def by_draft(low: float | None, high: float | None) -> DraftLikelihood:
    middle = 0.0 if low is None or high is None else (low + high) / 2
    return DraftLikelihood(
        variant="k7",
        prompt_class="structured",
        draft="draft",
        prompts=16,
        outputs=32,
        difference=middle,
        low=low,
        high=high,
    )


def greedy(chance: float) -> GreedyLikelihood:
    return GreedyLikelihood(
        variant="k7", outputs=16, tokens=2400, beyond=9, farthest=4.0, chance=chance
    )


def read_run_with(folder: Path, found: ModelsCheck, *, temperature: float) -> Path:
    """A run beside which lies what one model said."""
    run = make_run(temperature=temperature)
    path = write_run(run, folder / "run")
    record = Likelihoods(run_id=run.result.run_id, likelihoods=(found,))
    (path / LIKELIHOODS_FILE).write_bytes(dump_record(record))
    return path


MARGIN = DRAFT_MARGIN_NATS


@pytest.mark.parametrize(
    ("found", "right"),
    [
        (by_draft(-0.1, 0.1), True),
        # Not equal, and yet within what is called so.
        (by_draft(0.01, MARGIN), True),
        (by_draft(0.01, MARGIN + 0.01), False),
        (by_draft(-3.0, -2.0), False),
        (by_draft(-0.1, MARGIN + 0.01), None),
        (by_draft(None, None), None),
        (greedy(0.5), True),
        (greedy(1e-6), False),
    ],
)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_only_what_is_shown_not_to_be_the_targets_has_no_verdict(
    tmp_path: Path, found: ModelsCheck, right: bool | None, temperature: float
) -> None:
    shown = facts(read_run_with(tmp_path, found, temperature=temperature))
    unread = facts_of(make_run(temperature=temperature), {})
    judgements = [v.comparison and v.comparison.judgement for v in shown.speculative]

    assert found.is_the_targets is right
    if right is False:
        assert set(judgements) == {"inconclusive"}
        assert "its answers are not the target's" in headline(shown)
    else:
        assert judgements == [v.comparison and v.comparison.judgement for v in unread.speculative]
    told = any("too few" in line for line in attention_of(shown))
    assert told is (right is None)


@pytest.mark.parametrize(
    ("found", "words", "temperature"),
    [
        (by_draft(-3.0, -2.0), "-3.000 to -2.000", 0.8),
        (by_draft(None, None), "not known", 0.0),
        (greedy(1e-6), "outputs with a token beyond a near tie", 0.0),
    ],
)
def test_the_report_says_who_read_them(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    found: ModelsCheck,
    words: str,
    temperature: float,
) -> None:
    assert main(["report", str(read_run_with(tmp_path, found, temperature=temperature))]) == 0

    assert words in capsys.readouterr().out


def facts(folder: Path) -> RunFacts:
    return facts_of(read_run(folder), {})


def test_a_side_whose_outputs_are_noise_gets_no_verdict_and_that_is_said_first(
    tmp_path: Path,
) -> None:
    found = facts(sampled(tmp_path, **NOISE))

    comparisons = [v.comparison for v in found.speculative if v.comparison]
    assert comparisons
    assert {c.judgement for c in comparisons} == {"inconclusive"}
    assert "its answers are not the target's" in headline(found)
    first, *_ = attention_of(found)
    assert "10.93 nats less likely than what the target draws" in first


def test_outputs_that_are_the_targets_change_no_verdict(tmp_path: Path) -> None:
    checked, unchecked = facts(sampled(tmp_path)), facts_of(make_run(temperature=0.8), {})

    for one, other in zip(checked.speculative, unchecked.speculative, strict=True):
        assert one.comparison
        assert other.comparison
        assert one.comparison.judgement == other.comparison.judgement
    assert not any("not checked" in line for line in attention_of(checked))


def test_the_report_has_a_table_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(sampled(tmp_path, **NOISE))]) == 0

    output = capsys.readouterr().out
    assert "drawn from the target" in output
    assert "-856.1" in output


def test_likelihoods_of_another_run_are_refused(tmp_path: Path) -> None:
    record = Likelihoods(run_id="another", likelihoods=())
    (tmp_path / LIKELIHOODS_FILE).write_bytes(dump_record(record))

    with pytest.raises(UserInputError, match="of run 'another', not of this"):
        read_likelihoods(tmp_path, "this")


def test_a_file_that_holds_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / LIKELIHOODS_FILE).write_text("[]")

    with pytest.raises(UserInputError, match="no likelihoods of this version"):
        read_likelihoods(tmp_path, "this")


def test_a_deviation_is_a_number() -> None:
    with pytest.raises(ValueError, match="finite"):
        likelihood("k7", deviation=float("nan"))
