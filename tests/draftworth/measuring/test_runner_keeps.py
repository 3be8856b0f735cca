"""A run whose winner stays: `kept.json` before `run.json`, by whichever pod ends the run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from draftworth.measuring.keeping import kept_winner
from draftworth.measuring.run_specification import Endpoint, WinnerStays
from draftworth.measuring.runner import Runner
from draftworth.measuring.sink import FolderSink
from draftworth.records.live import KEPT_FILE
from draftworth.records.reading import read_run
from draftworth.records.results import RUN_FILE
from draftworth.records.step_costs import STEP_COSTS_FILE
from draftworth.records.verdict import VERDICT_FILE
from tests.draftworth.measuring.test_resume import RUN_ID, FakeEngine, healthy, history, spec
from tests.support.sinks import RefusingSink
from tests.support.stream_server import StreamServer

__all__ = ["healthy"]


class Servers:
    """Notes which servers are to run; the first time something may happen."""

    def __init__(self, *, cancelled: bool = False) -> None:
        self.asked: list[tuple[str, ...]] = []
        self._cancelled = cancelled

    async def run_only(self, endpoints: Sequence[Endpoint], *, restart: bool) -> None:
        assert not restart
        self.asked.append(tuple(e.server for e in endpoints))
        if self._cancelled and len(endpoints) == 1:
            raise asyncio.CancelledError


def runner(
    url: str,
    folder: Path,
    servers: Servers,
    *,
    sink: FolderSink | None = None,
    stays: bool = True,
) -> Runner:
    made = spec(url)
    after = WinnerStays(replicas="one") if stays else None
    named = tuple(replace(e, server=f"vllm-{e.variant}") for e in made.endpoints)
    return Runner(
        spec=replace(made, endpoints=named, after=after),
        sink=sink or FolderSink(folder),
        run_id=RUN_ID,
        progress=lambda _: None,
        history=history(folder),
        engine=FakeEngine(),
        ready_poll_seconds=0.01,
        servers=servers,
    )


def test_the_winner_is_written_before_the_end_of_the_run(
    healthy: StreamServer, tmp_path: Path
) -> None:
    servers, sink = Servers(), RefusingSink(tmp_path)
    asyncio.run(runner(healthy.base_url, tmp_path, servers, sink=sink).run())
    assert sink.written_in_run[-4:] == [KEPT_FILE, VERDICT_FILE, STEP_COSTS_FILE, RUN_FILE]
    kept, result = kept_winner(sink, RUN_ID), read_run(tmp_path / RUN_ID).result
    assert kept
    assert (kept.variant, kept.servers) == ("k7", ("vllm-k7",))
    assert result.started_at_unix_s < kept.since_unix_s <= result.ended_at_unix_s
    assert servers.asked == [("vllm-baseline", "vllm-k7"), ("vllm-k7",)]


def test_without_being_asked_nothing_stays(healthy: StreamServer, tmp_path: Path) -> None:
    servers = Servers()
    asyncio.run(runner(healthy.base_url, tmp_path, servers, stays=False).run())
    assert kept_winner(FolderSink(tmp_path), RUN_ID) is None
    assert servers.asked == [("vllm-baseline", "vllm-k7")]


def test_a_pod_that_is_terminated_while_losers_stop_leaves_it_to_the_next(
    healthy: StreamServer, tmp_path: Path
) -> None:
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(runner(healthy.base_url, tmp_path, Servers(cancelled=True)).run())
    assert not (tmp_path / RUN_ID / RUN_FILE).exists()
    assert kept_winner(FolderSink(tmp_path), RUN_ID) is None
    servers = Servers()
    assert asyncio.run(runner(healthy.base_url, tmp_path, servers).run()).status == "complete"
    assert kept_winner(FolderSink(tmp_path), RUN_ID)
    assert servers.asked == [("vllm-k7",)], "nothing was measured again"


def test_a_winner_that_an_earlier_pod_has_written_stays_as_it_is(
    healthy: StreamServer, tmp_path: Path
) -> None:
    asyncio.run(runner(healthy.base_url, tmp_path, Servers()).run())
    before = kept_winner(FolderSink(tmp_path), RUN_ID)
    (tmp_path / RUN_ID / RUN_FILE).unlink()
    servers = Servers()
    assert asyncio.run(runner(healthy.base_url, tmp_path, servers).run()).status == "complete"
    assert kept_winner(FolderSink(tmp_path), RUN_ID) == before
    assert servers.asked == []


def test_a_run_that_failed_keeps_nothing(healthy: StreamServer, tmp_path: Path) -> None:
    sink = RefusingSink(tmp_path, ".result.json")
    result = asyncio.run(runner(healthy.base_url, tmp_path, Servers(), sink=sink).run())
    assert result.status == "failed"
    assert kept_winner(FolderSink(tmp_path), RUN_ID) is None


def test_servers_that_nobody_can_stop_are_refused() -> None:
    with pytest.raises(ValueError, match="no winner that stays, where an endpoint has no `server`"):
        replace(spec("http://x"), after=WinnerStays(replicas="one"))
