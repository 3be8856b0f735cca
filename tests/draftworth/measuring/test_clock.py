"""A wall clock that jumps while a run is measured."""

import asyncio
import itertools
import pickle
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from draftworth.measuring import clock, server_lifecycle
from draftworth.measuring.clock import UnixClock, unix_clock
from draftworth.measuring.run_specification import Endpoint
from draftworth.records.run_folder import read_run
from tests.conftest import ROOT
from tests.support.stand_in_runs import case, run, server, spec
from tests.support.stream_server import Request, Step, plain, stream_server

HOURS_SECONDS = 5 * 3600.0
LOADING = plain("503 Service Unavailable", b"")


@pytest.fixture(params=[HOURS_SECONDS, -HOURS_SECONDS])
def jumping(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the wall clock forward, or back, by another five hours each time that it is read."""
    real, real_ns, calls = time.time, time.time_ns, [0.0]

    def jump() -> float:
        calls[0] += request.param
        return calls[0]

    monkeypatch.setattr(time, "time", lambda: real() + jump())
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + int(jump() * 1e9))


def test_it_shows_time_of_day_and_runs_monotonically() -> None:
    assert unix_clock() == pytest.approx(time.time(), abs=60)
    before_ns, before = time.perf_counter_ns(), unix_clock()
    after, after_ns = unix_clock(), time.perf_counter_ns()
    assert 0 <= after - before <= (after_ns - before_ns) / 1e9 + 1e-6


@pytest.mark.usefixtures("jumping")
def test_a_clock_jump_changes_no_duration_or_wait(tmp_path: Path) -> None:
    requests, healthy = itertools.count(), server(1, 1)

    def late(request: Request) -> Iterable[Step]:
        return LOADING if next(requests) < 3 else healthy(request)

    with stream_server(late) as running:
        result = run(spec(running.base_url, cases=[case("count")], deadline_s=600.0), tmp_path)

    (block,) = read_run(tmp_path / "test-1").blocks
    assert result.status == "complete"
    assert 0 < result.ended_at_unix_s - result.started_at_unix_s < HOURS_SECONDS
    assert 0 < result.time.measuring_s < HOURS_SECONDS
    assert 0 < block.ended_at_unix_s - block.started_at_unix_s < HOURS_SECONDS
    starts = [record.started_at_unix_s for record in block.requests]
    assert block.started_at_unix_s <= min(starts) <= max(starts) <= block.ended_at_unix_s
    assert all(0 < (record.ttft_s or 0) < HOURS_SECONDS for record in block.requests)
    # The block has 8 output tokens; if it had lasted five hours, the throughput would be about 0.
    assert (block.output_throughput_token_per_s or 0) > 0.01


@pytest.mark.usefixtures("jumping")
def test_a_clock_jump_prolongs_no_wait_for_servers(tmp_path: Path) -> None:
    with stream_server(lambda _: LOADING) as loading:
        result = run(spec(loading.base_url, cases=[case("count")], deadline_s=0.3), tmp_path)

    assert "was not ready within 0.3 s" in result.reason


def test_the_wall_clock_itself_would_end_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    hours = itertools.count()
    monkeypatch.setattr(time, "time", lambda: next(hours) * 3600.0)
    with stream_server(lambda _: LOADING) as late:
        endpoint = Endpoint(
            variant="v", base_url=late.base_url, max_tokens_per_step=1, is_baseline=True
        )
        here = server_lifecycle.Environment(
            progress=lambda line: None, wall_clock=time.time, ready_poll_seconds=0.0
        )
        with pytest.raises(server_lifecycle.ServersError):
            asyncio.run(server_lifecycle.wait_until_ready([endpoint], here, at_most_seconds=3600.0))
    assert len(late.requests) == 1


def test_another_process_of_this_machine_keeps_the_anchor() -> None:
    anchored = UnixClock(unix_clock.anchor_ns - 10**18, unix_clock.machine)
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).anchor_ns)"
    printed = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        input=pickle.dumps(anchored),
        capture_output=True,
        check=True,
    ).stdout
    assert int(printed) == anchored.anchor_ns


@pytest.mark.parametrize("machine", ["another", ""])
def test_on_another_machine_it_is_that_machines_own(machine: str) -> None:
    elsewhere = UnixClock(0, machine)
    assert pickle.loads(pickle.dumps(elsewhere)) == unix_clock  # noqa: S301


def test_a_system_without_boot_id_has_no_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(clock, "_BOOT_ID", tmp_path / "none")
    assert clock._machine() == ""
