"""The report that the Job's pod writes after a run, once, without a risk for the run."""

from pathlib import Path
from typing import Any

import pytest

from draftworth.cli import main
from draftworth.measuring.result_files import FolderSink
from draftworth.records.codec import dump_record
from draftworth.records.findings import REPORT_FOLDER, REPORT_PAGE
from draftworth.records.results import RUN_FILE
from pods.measuring.s3_sink import S3Sink
from pods.measuring.write_report import add_report
from tests.draftworth.report.runs import make_run, make_run_result, write_run
from tests.draftworth.report.searches import write_search
from tests.support.sinks import RefusingSink

pytestmark = pytest.mark.usefixtures("undrawn")
RUN_ID = "built-run"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write_run(make_run(), tmp_path / "runs" / RUN_ID)
    return tmp_path / "runs"


def added(store: FolderSink) -> list[str]:
    """Write the report of a run beside its files, and return the log lines."""
    lines = list[str]()
    add_report(store, RUN_ID, lines.append)
    return lines


def test_it_is_what_the_command_writes(results: Path, tmp_path: Path) -> None:
    store = RefusingSink(results)
    assert added(store) == [f"report: {RUN_ID}/{REPORT_FOLDER}/{REPORT_PAGE}"]
    assert store.written[-1] == f"{RUN_ID}/{REPORT_FOLDER}/{REPORT_PAGE}"

    run = str(results / RUN_ID)
    assert main(["report", run, "--out", str(tmp_path / "out")]) == 0
    made = {file.name: file.read_bytes() for file in (results / RUN_ID / REPORT_FOLDER).iterdir()}
    assert made == {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    assert {"report.html", "report.md", "figures.csv", "cost.png"} <= made.keys()


def test_a_searchs_report_has_its_result(tmp_path: Path) -> None:
    write_search(tmp_path / RUN_ID)
    added(RefusingSink(tmp_path))

    page = (tmp_path / RUN_ID / REPORT_FOLDER / "report.md").read_text()
    assert "- answer: Window 6 of hub/a: " in page


def test_it_is_written_once_and_completed(results: Path) -> None:
    half = RefusingSink(results, "report.md")
    (line,) = added(half)
    assert line.startswith("no report is written: SinkError: ")
    assert half.written

    whole = RefusingSink(results)
    added(whole)
    assert not set(half.written) & set(whole.written)
    assert (results / RUN_ID / REPORT_FOLDER / REPORT_PAGE).exists()

    again = RefusingSink(results)
    assert added(again) == []
    assert again.written == []


def test_transcripts_that_do_not_fit_are_left_out(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pods.measuring.write_report.MAX_TRANSCRIPT_BYTES", 10)
    left_out, written = added(RefusingSink(results))
    assert left_out.startswith("transcripts of ")
    assert written.startswith("report: ")
    page = (results / RUN_ID / REPORT_FOLDER / "report.md").read_text()
    assert "Step latencies are not shown" in page


def test_a_run_that_measured_nothing_has_none(tmp_path: Path) -> None:
    folder = tmp_path / RUN_ID
    folder.mkdir()
    (folder / RUN_FILE).write_bytes(dump_record(make_run_result(status="failed", reason="x")))
    store = RefusingSink(tmp_path)
    assert added(store) == []
    assert store.written == []


@pytest.mark.parametrize(
    "damaged", [RUN_FILE, "blocks/*-r1.result.json", "blocks/*-r1.transcript*"]
)
def test_an_unreadable_run_gets_no_report(results: Path, damaged: str) -> None:
    next((results / RUN_ID).glob(damaged)).write_bytes(b"nonsense")
    store = RefusingSink(results)
    (line,) = added(store)
    assert line.startswith("no report is written: UserInputError: ")
    assert store.written == []


@pytest.mark.emulator
def test_a_browser_can_show_the_page_from_s3(results: Path, s3: Any) -> None:
    for file in (path for path in results.rglob("*") if path.is_file()):
        key = f"runs/{file.relative_to(results).as_posix()}"
        s3.put_object(Bucket="results", Key=key, Body=file.read_bytes())
    lines = list[str]()
    add_report(S3Sink(s3, bucket="results", prefix="runs"), RUN_ID, lines.append)
    page = s3.get_object(Bucket="results", Key=f"runs/{RUN_ID}/{REPORT_FOLDER}/{REPORT_PAGE}")
    assert lines == [f"report: {RUN_ID}/{REPORT_FOLDER}/{REPORT_PAGE}"]
    assert page["ContentType"] == "text/html"
