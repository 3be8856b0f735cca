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
    LIKELIHOODS_FILE,
    Likelihood,
    Likelihoods,
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
