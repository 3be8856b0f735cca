"""Predictions beside a run: read from its folder, shown, and refused if they are another run's."""

from collections.abc import Callable
from pathlib import Path

import pytest

from draftworth.cli import main
from draftworth.errors import UserInputError
from draftworth.records import likelihoods
from draftworth.records.codec import dump_record
from tests.draftworth.report.runs import make_run, write_run
from tests.support.predictions import prediction


def test_the_report_includes_predictions_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_run(make_run(), tmp_path / "run")
    predictions = likelihoods.Predictions(
        run_id=make_run().result.run_id, predictions=(prediction(),)
    )
    (folder / likelihoods.PREDICTIONS_FILE).write_bytes(dump_record(predictions))

    assert main(["report", str(folder), "--verbose"]) == 0

    output = capsys.readouterr().out
    assert "Predicted without a server" in output
    assert "+1.28%" in output
    assert "28 of 30" in output


@pytest.mark.parametrize(
    ("name", "record", "read"),
    [
        (
            likelihoods.PREDICTIONS_FILE,
            likelihoods.Predictions(run_id="another", predictions=()),
            likelihoods.read_predictions,
        ),
        (
            likelihoods.LIKELIHOODS_FILE,
            likelihoods.Likelihoods(run_id="another", likelihoods=()),
            likelihoods.read_likelihoods,
        ),
    ],
)
def test_files_of_other_runs_or_versions_are_refused(
    tmp_path: Path, name: str, record: object, read: Callable[[Path, str], object]
) -> None:
    for content, message in (
        (dump_record(record), "of run 'another', not of this"),
        (b"{}", "no .* of"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserInputError, match=message):
            read(tmp_path, "this")
