"""`draftworth gate`: its words, exit codes and files, from runs in folders and from a server."""

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from draftworth.records.run_folder import Run, read_run
from draftworth.records.transcripts import read_transcripts
from tests.draftworth.conftest import Ran
from tests.draftworth.histories import STEADY, changed
from tests.draftworth.report.runs import write_run
from tests.support.stream_server import Request, Step, completion, plain, stream_server

HELD, DEARER, OPEN = 1.0, 1.1, 1.03


@pytest.fixture
def nights(tmp_path: Path) -> Sequence[str]:
    """The options that name four runs before a change."""
    before = STEADY.runs(seed=0)[:-1]
    folders = [write_run(run, tmp_path / run.result.run_id) for run in before]
    return [word for folder in folders for word in ("--baseline", str(folder))]


def candidate(tmp_path: Path, change: float) -> tuple[str, Path]:
    run = replace(STEADY, change=change).runs(seed=0)[-1]
    return "--candidate", write_run(run, tmp_path / f"candidate-{change}")


@pytest.mark.parametrize(
    ("change", "undecided", "code", "words"),
    [
        (HELD, "fail", 0, "Decision: held. A token is shown to cost at most 3% more"),
        (DEARER, "pass", 99, "Decision: not held. A token is shown to cost more than 3% more"),
        (OPEN, "fail", 99, "Decision: undecided."),
        (OPEN, "pass", 0, "Decision: undecided."),
    ],
)
def test_the_exit_code_is_the_decision(
    ran: Ran,
    nights: Sequence[str],
    tmp_path: Path,
    change: float,
    undecided: str,
    code: int,
    words: str,
) -> None:
    options = (*nights, *candidate(tmp_path, change), "--at-most", "3%", "--undecided", undecided)
    assert words in ran("gate", *options, code=code)


def test_files_say_what_the_terminal_says(ran: Ran, nights: Sequence[str], tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("junit", "markdown", "history")}
    options = [word for name, path in files.items() for word in (f"--{name}", path)]
    for change, code in ((HELD, 0), (DEARER, 99)):
        either = candidate(tmp_path, change)
        ran("gate", *nights, *either, "--at-most", "3%", *options, code=code)
    (case,) = ET.fromstring(files["junit"].read_bytes()).iter("testcase")  # noqa: S314
    assert case.find("failure") is not None
    assert "### draftworth gate: not held" in files["markdown"].read_text()
    first, second = csv.DictReader(files["history"].read_text().splitlines())
    assert (first["word"], second["word"]) == ("held", "not held")
    (metric,) = first.keys() - {"time", "run", "word"}
    assert float(second[metric]) / float(first[metric]) == pytest.approx(1.1, rel=0.01)


def test_an_undecided_case_is_skipped_if_it_passes(
    ran: Ran, nights: Sequence[str], tmp_path: Path
) -> None:
    options = (*nights, *candidate(tmp_path, OPEN), "--at-most", "3%", "--junit", tmp_path / "x")
    ran("gate", *options, "--undecided", "pass")
    (case,) = ET.fromstring((tmp_path / "x").read_bytes()).iter("testcase")  # noqa: S314
    assert [child.tag for child in case] == ["skipped"]


def test_a_history_of_another_gate_is_kept(ran: Ran, nights: Sequence[str], tmp_path: Path) -> None:
    history = tmp_path / "history.csv"
    history.write_text("time,run,word,ms_per_token other\n")
    options = (*nights, *candidate(tmp_path, HELD), "--at-most", "3%", "--history", history)
    assert "allowed: ['time', 'run', 'word'," in ran("gate", *options, code=2)
    assert history.read_text() == "time,run,word,ms_per_token other\n"


def test_a_busy_client_is_refused(ran: Ran, nights: Sequence[str], tmp_path: Path) -> None:
    run = changed(STEADY.runs(seed=0)[-1], lambda r: replace(r, excluded="run_queue"))
    folder = write_run(run, tmp_path / "busy")
    output = ran("gate", *nights, "--candidate", folder, "--at-most", "3%", code=1)
    assert "no decision" in output
    assert "the client waited for a core" in output


@pytest.mark.parametrize("percent", ["3", "0%", "-1%", "100%", "x%", "nan%"])
def test_a_margin_is_a_percentage(ran: Ran, percent: str) -> None:
    output = ran("gate", "--baseline", "a", "--candidate", "b", "--at-most", percent, code=2)
    assert "--at-most: given" in output
    assert "allowed: " in output


def healthy(request: Request) -> Sequence[Step]:
    """A server of the model `m`."""
    if request.path == "/v1/models":
        return plain("200 OK", json.dumps({"data": [{"id": "m"}]}).encode())
    return plain("200 OK", b"") if request.method == "GET" else completion(4, 4)


@pytest.mark.usefixtures("_every_request_counts")
def test_a_server_gets_the_baselines_requests(ran: Ran, tmp_path: Path) -> None:
    """The prompts, the load and the settings are those of the baseline's run."""
    (tmp_path / "mails").mkdir()
    prompts = [{"id": f"mail-{n}", "prompt": f"Answer mail {n}."} for n in range(8)]
    (tmp_path / "mails" / "inbox.jsonl").write_text(
        "".join(json.dumps(prompt) + "\n" for prompt in prompts)
    )
    with stream_server(healthy) as old, stream_server(healthy) as new:
        settings = ("--model", "m", "--prompts", tmp_path / "mails", "--output-tokens", 9)
        ran("measure", "--base-url", old.base_url, *settings, "--out", tmp_path / "old")
        (before,) = (tmp_path / "old").iterdir()
        options = ("--baseline", before, "--candidate", new.base_url, "--out", tmp_path / "new")
        output = ran("gate", *options, "--at-most", "3%", "--undecided", "pass")
    (after,) = (tmp_path / "new").iterdir()
    assert "3 more runs of the baseline" in output
    assert _work(before) == _work(after)
    assert len([r for r in new.requests if r.method == "POST"]) > 8


def _work(folder: Path) -> object:
    run: Run = read_run(folder)
    texts = read_transcripts(folder, run.blocks)
    return (
        run.result.temperature,
        [(b.variant, b.load, [r.prompt_id for r in b.requests]) for b in run.blocks],
        len(texts),
    )


def test_an_address_needs_a_run_of_one_server(ran: Ran, tmp_path: Path) -> None:
    options = ("--candidate", "http://127.0.0.1:1", "--at-most", "3%")
    remote = ran("gate", "--baseline", "s3://bucket/runs/x", *options, code=2)
    assert "next: copy the run" in remote
    assert "cannot be read" in ran("gate", "--baseline", tmp_path / "none", *options, code=2)
