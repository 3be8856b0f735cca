"""The end of a run whose winner stays: which servers, what is written, and what when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from draftworth.analysis.winner import winner_of
from draftworth.errors import DraftworthError
from draftworth.measuring.keeping import Keeper, break_even, kept_winner
from draftworth.measuring.run_specification import Endpoint, WinnerStays
from draftworth.measuring.runfiles import RunFiles
from draftworth.measuring.servers import ServersError
from draftworth.measuring.sink import FolderSink
from draftworth.records.codec import RecordError
from draftworth.records.live import KEPT_FILE, KeptWinner
from draftworth.records.reading import Run
from draftworth.records.results import CONTROL
from tests.draftworth.analysis.test_ladder import facts_at
from tests.draftworth.measuring.specifications import endpoint, specification
from tests.draftworth.report.runs import (
    BASELINE,
    VARIANT,
    make_drafted_block,
    make_facts,
    make_plain_block,
    make_run,
)

RUN_ID = "built-run"
ENDPOINTS = (
    endpoint(BASELINE, 0),
    endpoint(BASELINE, 1),
    endpoint(VARIANT, 1),
    endpoint(VARIANT, 0),
)
NOW = 1_700_000_000.0


class Recorded:
    """Servers that only note what is asked of them."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[tuple[str, ...]] = []
        self._error = error

    async def run_only(self, endpoints: Sequence[Endpoint], *, restart: bool) -> None:
        assert not restart
        self.asked.append(tuple(e.server for e in endpoints))
        if self._error:
            raise self._error


class Kept:
    """What became of a run."""

    def __init__(
        self,
        folder: Path,
        run: Run,
        *,
        running: Sequence[Endpoint] = ENDPOINTS[::2],
        error: Exception | None = None,
        **after: Any,
    ) -> None:
        self.lines: list[str] = []
        self.servers = Recorded(error)
        stays = WinnerStays(**{"replicas": "one", **after})
        results = FolderSink(folder)
        keeper = Keeper(
            spec=specification(ENDPOINTS, after=stays),
            after=stays,
            servers=self.servers,
            files=RunFiles(sink=results, run_id=RUN_ID, progress=self.lines.append),
            progress=self.lines.append,
            clock=lambda: NOW,
        )
        asyncio.run(keeper.keep(lambda: run, running=running))
        self.record = kept_winner(results, RUN_ID)


def won() -> Run:
    return make_run(class_weights={"structured": 0.9, "open_ended": 0.1})


def lost() -> Run:
    return make_run(class_weights={"structured": 0.0, "open_ended": 1.0})


def undecided() -> Run:
    blocks = (make_plain_block(1, "structured"), make_drafted_block(2, "structured"))
    return make_run(blocks=blocks, class_weights={"structured": 1.0})


def test_the_winner_keeps_the_server_that_runs_and_the_others_go(tmp_path: Path) -> None:
    kept = Kept(tmp_path, won())
    assert kept.servers.asked == [("k7-1",)]
    assert kept.record == KeptWinner(
        run_id=RUN_ID,
        variant=VARIANT,
        servers=("k7-1",),
        since_unix_s=NOW,
        break_even_tokens_per_step=break_even(winner_of(make_facts(won()))),
    )
    assert kept.record.break_even_tokens_per_step == pytest.approx(3.0, rel=0.3)
    assert "k7 goes on serving: Speculation pays" in kept.lines[0]


def test_in_its_other_slot_it_stays_there(tmp_path: Path) -> None:
    kept = Kept(tmp_path, won(), running=(ENDPOINTS[1], ENDPOINTS[3]))
    assert kept.servers.asked == [("k7-0",)]


def test_where_nothing_of_it_runs_it_is_at_home(tmp_path: Path) -> None:
    """A later pod has measured nothing, or the last candidate of a search was another one."""
    assert Kept(tmp_path, won(), running=ENDPOINTS[:1]).servers.asked == [("k7-1",)]
    assert Kept(tmp_path / "none", won(), running=()).servers.asked == [("k7-1",)]


def test_the_control_beside_a_baseline_is_no_server_to_keep(tmp_path: Path) -> None:
    control = replace(ENDPOINTS[1], variant=CONTROL)
    kept = Kept(tmp_path, lost(), running=(control, ENDPOINTS[0]))
    assert kept.servers.asked == [("baseline-0",)]


def test_in_every_slot_all_its_servers_stay(tmp_path: Path) -> None:
    kept = Kept(tmp_path, won(), replicas="every_slot")
    assert kept.servers.asked == [("k7-1", "k7-0")]
    assert kept.record
    assert kept.record.servers == ("k7-1", "k7-0")


def test_a_baseline_that_has_won_serves_without_a_break_even(tmp_path: Path) -> None:
    kept = Kept(tmp_path, lost())
    assert kept.record
    assert (kept.record.variant, kept.record.servers) == (BASELINE, ("baseline-0",))
    assert kept.record.break_even_tokens_per_step is None


def test_without_a_winner_nothing_stays_and_the_reason_is_said(tmp_path: Path) -> None:
    kept = Kept(tmp_path, undecided())
    assert (kept.record, kept.servers.asked) == (None, [])
    (line,) = kept.lines
    assert line.startswith("nothing goes on serving: run built-run has no winner: No answer yet")


def test_losers_that_cannot_be_stopped_end_the_run_as_any_other(tmp_path: Path) -> None:
    kept = Kept(tmp_path, won(), error=ServersError("no answer of Kubernetes"))
    assert kept.record is None
    assert kept.lines[-1] == "nothing goes on serving: ServersError: no answer of Kubernetes"


def test_a_defect_ends_it_as_any_other(tmp_path: Path) -> None:
    kept = Kept(tmp_path, won(), error=ZeroDivisionError("x"))
    assert kept.record is None
    assert "ZeroDivisionError" in kept.lines[-1]


def test_a_file_of_another_version_is_no_winner(tmp_path: Path) -> None:
    FolderSink(tmp_path).write(f"{RUN_ID}/{KEPT_FILE}", b'{"schema": "draftworth.kept-winner/0"}')
    with pytest.raises(RecordError, match="schema"):
        kept_winner(FolderSink(tmp_path), RUN_ID)
    assert issubclass(RecordError, DraftworthError)


def test_the_break_even_is_that_of_the_load_nearest_to_one_in_flight() -> None:
    winner = winner_of(facts_at(1, 4))
    by_load = {f.load.label: f.break_even_tokens_per_step for f in winner.decisive}
    assert set(by_load) == {"c1", "c4"}
    figures = {
        "c1": replace(winner.decisive[0], break_even_tokens_per_step=1.5),
        "c4": replace(winner.decisive[1], break_even_tokens_per_step=2.5),
    }
    turned = replace(winner, figures=(figures["c4"], figures["c1"]))
    assert break_even(turned) == 1.5
    unknown = replace(figures["c1"], break_even_tokens_per_step=None)
    assert break_even(replace(winner, figures=(unknown, figures["c4"]))) == 2.5
    assert break_even(replace(winner, figures=(unknown,))) is None
