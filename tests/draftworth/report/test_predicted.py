"""Predictions beside a run: read from its folder, shown, refused where they are another run's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from draftworth.cli import main
from draftworth.errors import UserInputError
from draftworth.records.codec import dump_record
from draftworth.records.likelihoods import (
    PREDICTIONS_FILE,
    Prediction,
    Predictions,
    read_predictions,
)
from draftworth.report.likelihoods import predicted_sections
from tests.draftworth.report.runs import make_run, write_run


def prediction(**overrides: Any) -> Prediction:
    fields: dict[str, Any] = {
        "variant": "k7",
        "prompt_class": "structured",
        "requests": 32,
        "predicted": 7.9,
        "measured": 7.8,
        "shown": 30,
        "same_sequence": 28,
    }
    return Prediction(**{**fields, **overrides})


def written(folder: Path, run_id: str) -> None:
    found = Predictions(run_id=run_id, predictions=(prediction(),))
    (folder / PREDICTIONS_FILE).write_bytes(dump_record(found))


def test_the_report_of_a_run_shows_what_was_predicted_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_run(make_run(), tmp_path / "run")
    written(folder, make_run().result.run_id)

    assert main(["report", str(folder)]) == 0

    output = capsys.readouterr().out
    assert "Predicted without a server" in output
    assert "+1.28%" in output
    assert "28 of 30" in output


def test_nothing_is_shown_where_nothing_was_predicted() -> None:
    assert predicted_sections(()) == ()


def test_predictions_of_another_run_are_refused(tmp_path: Path) -> None:
    written(tmp_path, "another")

    with pytest.raises(UserInputError, match="of run 'another', not of this"):
        read_predictions(tmp_path, "this")


def test_a_file_that_holds_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / PREDICTIONS_FILE).write_text("{}")

    with pytest.raises(UserInputError, match="no predictions of this version"):
        read_predictions(tmp_path, "this")


@pytest.mark.parametrize("wrong", [{"predicted": 0.5}, {"measured": float("nan")}])
def test_a_step_yields_one_token_at_least(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="1 or more tokens a step"):
        prediction(**wrong)
