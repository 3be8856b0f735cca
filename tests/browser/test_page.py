"""A report's page in Chromium: `make test-browser`."""

import json
import os
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from draftworth.decision.facts import RunFacts, facts_of
from draftworth.records.run_folder import Run
from draftworth.records.transcripts import Transcript
from draftworth.report.contents import document_of
from draftworth.report.writing import write_page
from tests.draftworth.report.runs import BASELINE, VARIANT, make_run
from tests.draftworth.report.states import STATES

HERE = Path(__file__).parent
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MOST_BYTES = 1_000_000
pytestmark = pytest.mark.browser


def in_chromium(program: str, page: Path) -> dict[str, Any]:
    """Run a program beside this file on a page, and return what it prints, parsed."""
    assert CHROMIUM, "no Chromium: apt-get install chromium"
    done = subprocess.run(
        ["node", str(HERE / program), str(page)],
        env={**os.environ, "DRAFTWORTH_CHROMIUM": CHROMIUM},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    positions: dict[str, Any] = json.loads(done.stdout)
    return positions


def with_outputs(run: Run) -> RunFacts:
    """Return the facts of a run whose outputs are known, as those of most runs are."""
    ids = [record.request_id for block in run.blocks for record in block.requests]
    text = "def answer() -> int:\n    return 42\n"
    return facts_of(run, {name: Transcript(request_id=name, text=text) for name in ids})


@cache
def seen(state: str) -> dict[str, Any]:
    return look_at(STATES[state])


def look_at(run: Run) -> dict[str, Any]:
    """Return the positions and figures that Chromium shows of the report of a run."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        write_page(document_of(with_outputs(run)), file)
        return {**in_chromium("look.mjs", file), "bytes": file.stat().st_size}


@pytest.fixture(params=["more expensive", "search", "ladder", "repetitions", "failed run"])
def page(request: pytest.FixtureRequest) -> dict[str, Any]:
    return seen(request.param)


def test_the_page_fetches_nothing_and_logs_no_error(page: dict[str, Any]) -> None:
    assert (page["complaints"], page["requests"]) == ([], [])
    assert page["bytes"] <= MOST_BYTES


def test_a_narrow_page_never_scrolls_sideways(page: dict[str, Any]) -> None:
    assert page["narrow"]["overflow"] <= 0
    assert page["opened"]["overflow"] <= 0


def test_axe_finds_nothing_serious_in_light_and_dark(page: dict[str, Any]) -> None:
    assert (page["light"], page["dark"]) == ([], [])


def test_the_keyboard_reaches_every_link_fold_and_table(page: dict[str, Any]) -> None:
    assert page["keyboard"]["wanted"] > 0
    assert page["keyboard"]["missed"] == 0


def test_figures_that_say_nothing_are_not_shown(page: dict[str, Any]) -> None:
    assert "Decision" in page["text"] or "No decision" in page["text"]
    assert "0 of 0" not in page["text"]
    assert "-0.0%" not in page["text"]


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_the_first_screen_has_decision_cards_and_plot(width: str) -> None:
    positions = seen("more expensive")[width]
    assert 0 <= positions["heading"] < positions["cards"] < positions["plot"] < positions["height"]
    assert positions["about"] == 0 or positions["about"] > positions["height"], (
        "metadata is folded or below"
    )


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_the_first_screen_says_what_was_measured(width: str) -> None:
    first = seen("more expensive")[width]["first"]
    for words in ("Qwen/Qwen3-32B", "k7 against baseline", "2026-11-20", "4 requests at a time"):
        assert words in first
    assert "ms per token\n10.3 → 5.03" in first
    assert "tokens per second\n314 → 411" in first
    assert "costs 12% less per token" in first


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_a_failed_run_has_no_speeds(width: str) -> None:
    first = seen("failed run")[width]["first"]
    assert "No decision" in first
    assert "tokens per second" not in first


def test_a_narrow_page_cuts_no_caption(page: dict[str, Any]) -> None:
    assert page["opened"]["cutCaptions"] == 0


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_a_card_breaks_no_interval(width: str) -> None:
    positions = seen("ladder")[width]
    assert positions["intervals"] > 1
    assert positions["brokenIntervals"] == 0


def test_outputs_stand_beside_the_prompts_plot() -> None:
    """On a wide page; on a narrow one they come below it."""
    wide, narrow = seen("more expensive")["wide"], seen("more expensive")["narrow"]
    assert wide["example"] == wide["byPrompt"]
    assert narrow["example"] > narrow["byPrompt"] + 200


def test_the_main_table_fits_the_page() -> None:
    assert (
        0 < seen("more expensive")["table"] <= 1138
    )  # the page's width of 1180 without its margins


def test_a_longer_name_cuts_no_column() -> None:
    name = "tiny-draft-of-ours-k7"
    blocks = [
        replace(block, variant=name) if block.variant == VARIANT else block
        for block in make_run().blocks
    ]
    steps = {BASELINE: 1, name: 8}
    run = make_run(blocks=tuple(blocks), variants=(BASELINE, name), max_tokens_per_step=steps)
    assert 0 < look_at(run)["table"] <= 1138
