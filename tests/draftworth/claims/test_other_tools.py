"""Result files of other load generators beside a run: `results/` has a small file of each form."""

import json
from pathlib import Path

import pytest

from draftworth.report.brief import MOST_LINES
from tests.conftest import ROOT
from tests.draftworth.conftest import Ran
from tests.draftworth.report.runs import make_run, write_run
from tests.support.snapshot import assert_snapshot

RESULTS = Path(__file__).parent / "results"
CLAIMS = ROOT / "experiments" / "claims" / "published.yaml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_run(make_run(), tmp_path / "run")


def section(report: str) -> str:
    """Return the section that a printed report has before the answer."""
    return report[: report.index("\n\nDecision")].replace(f"{RESULTS}/", "")


def test_what_is_said_of_each_file(folder: Path, ran: Ran) -> None:
    """One request failed in each file; aiperf's has a warm-up, guidellm's has a second load."""
    files = ("aiperf.jsonl", "guidellm.json", "vllm.json", "vllm-medians.json")
    sections = [section(ran("report", folder, "--against", RESULTS / name)) for name in files]
    assert_snapshot("\n\n\n".join([*sections, ""]), RESULTS / "said.txt")


def test_of_the_same_work_only_definitions_differ(folder: Path, ran: Ran) -> None:
    compared = section(ran("report", folder, "--against", RESULTS / "guidellm-alike.json"))
    assert compared.count("Not alike: ") == compared.count("Not alike: guidellm") == 4


def test_files_and_runs_stand_beside_a_run_together(folder: Path, tmp_path: Path, ran: Ran) -> None:
    other = write_run(make_run(run_id="other"), tmp_path / "other")
    places = (RESULTS / "vllm.json", other, RESULTS / "aiperf.jsonl")
    output = ran("report", folder, *(word for place in places for word in ("--against", place)))
    titles = [line for line in output.splitlines() if line.startswith("Against ")]
    assert titles == ["Against another run", *["Against another load generator"] * 2]


@pytest.mark.parametrize("options", [("--against", RESULTS / "vllm.json"), ("--claims", CLAIMS)])
def test_ten_lines_end_what_is_printed(options: tuple[object, ...], folder: Path, ran: Ran) -> None:
    answer = ran("report", folder)
    assert answer.startswith("Decision")
    assert answer.count("\n") <= MOST_LINES
    output = ran("report", folder, *options)
    assert output.endswith(f"\n\n{answer}")
    assert len(output) > 2 * len(answer)


def changed(**values: object) -> str:
    return json.dumps({**json.loads((RESULTS / "vllm.json").read_text()), **values})


@pytest.mark.parametrize(
    "text",
    [
        *("", "no JSON", '{"a": 1}', "[" * 10_000, '{"metrics": {}, "error": null}\n' * 2),
        changed(ttfts=None, median_ttft_ms=None, median_tpot_ms="twelve"),
        changed(output_lens=[0, 0, 0, 0], completed=0),
        f"{changed()}\n{changed()}",
    ],
    ids=range(8),
)
def test_a_file_without_figures_is_refused(text: str, folder: Path, ran: Ran) -> None:
    (folder / "result.json").write_text(text)
    output = ran("report", folder, "--against", folder / "result.json", "--out", code=2)
    assert "given no figures of requests, allowed: a run, or a file" in output
    assert not (folder / "report").exists()
