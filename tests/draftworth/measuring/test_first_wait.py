"""The first wait for servers: how long a run waits before any block, and what ends it sooner."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from draftworth.measuring import server_lifecycle
from draftworth.measuring.journal import Entry, History
from draftworth.measuring.result_files import FolderSink
from draftworth.records.results import RunResult
from draftworth.records.run_folder import read_run
from draftworth.records.servers import SelfTest, ServerState
from tests.lambdas.capacity_controller.plans import make_server, make_server_given_up
from tests.support.runners import make_runner
from tests.support.stand_in_runs import case, server, spec
from tests.support.stream_server import plain, stream_server

LOADING = plain("503 Service Unavailable", b"")
STARTED_AT = 1_000_000.0
STEP_SECONDS = 300
# The tolerance of durations: other code of the runner reads this clock too, and each reading moves
# it on by `STEP_SECONDS`.
ABOUT_SECONDS = 10 * STEP_SECONDS
TEST = SelfTest(devices=(8,), seconds=9.0, failed="nrt_init returned 4")
GIVEN_UP = make_server_given_up(
    self_test=TEST,
    since_unix_s=STARTED_AT + STEP_SECONDS,
    last_lines=("a", "Traceback", "RuntimeError: no\x1b[0m", "the end"),
    reason="its server ended 3 times",
)


class Clock:
    """A clock that goes on by five minutes each time that it is read."""

    def __init__(self) -> None:
        self.now = STARTED_AT

    def __call__(self) -> float:
        self.now += STEP_SECONDS
        return self.now


def run(
    folder: Path,
    url: str,
    *,
    state: Callable[[str], ServerState | None] = lambda _: None,
    allowance_seconds: float | None = None,
    history: History | None = None,
) -> RunResult:
    run_spec = spec(url, cases=[case("count")])
    made = make_runner(
        replace(
            run_spec,
            endpoints=tuple(replace(e, server=f"vllm-{e.variant}") for e in run_spec.endpoints),
            ready_deadline_seconds=None,
            start_allowance_seconds=allowance_seconds,
        ),
        FolderSink(folder),
        history=history or History(),
        deadline_seconds=lambda: 10 * 24 * 3600.0,
        wall_clock=Clock(),
        server_state=state,
    )
    return asyncio.run(made.run())


@pytest.mark.parametrize(("earlier_seconds", "left_seconds"), [(None, 7800), (7000, 800)])
def test_it_lasts_one_start_from_the_first_pod(
    tmp_path: Path, earlier_seconds: float | None, left_seconds: float
) -> None:
    """The wait ends after the time that one start may take, before the run's deadline."""
    history = History()
    if earlier_seconds:
        at_unix_s = STARTED_AT - earlier_seconds
        started = Entry(
            attempt=1,
            number=0,
            kind="started",
            started_at_unix_s=at_unix_s,
            ended_at_unix_s=at_unix_s,
        )
        history = History(entries=(started,))
    with stream_server(lambda _: LOADING) as late:
        result = run(tmp_path, late.base_url, allowance_seconds=7800.0, history=history)
    assert result.status == "failed"
    assert "was not ready within" in result.reason
    assert result.reason.endswith("last answer: HTTP 503")
    waited_seconds = result.ended_at_unix_s - STARTED_AT
    assert waited_seconds == pytest.approx(left_seconds, abs=ABOUT_SECONDS)


def test_an_abandoned_server_ends_the_run_with_reason(tmp_path: Path) -> None:
    with stream_server(lambda _: LOADING) as late:
        result = run(tmp_path, late.base_url, state=lambda _: GIVEN_UP)
    assert result.status == "failed"
    assert "baseline was given up at its start 3: its server ended 3 times" in result.reason
    assert "Traceback | RuntimeError: no" in result.reason
    assert result.reason.isprintable()
    assert result.self_tests == {"vllm-baseline": TEST}
    assert result.ended_at_unix_s - result.started_at_unix_s < ABOUT_SECONDS
    assert read_run(tmp_path / "test-1").result == result


@pytest.mark.parametrize(
    "state",
    [
        replace(GIVEN_UP, since_unix_s=STARTED_AT - 1),
        replace(GIVEN_UP, phase="ended", reason=""),
        None,
    ],
    ids=["of an earlier life", "only ended", "nothing known"],
)
def test_states_of_other_runs_do_not_end_it(
    tmp_path: Path, state: ServerState | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_lifecycle, "STATE_SECONDS", 0.01)
    with stream_server(lambda _: LOADING) as late:
        result = run(tmp_path, late.base_url, state=lambda _: state, allowance_seconds=7800.0)
    assert "was not ready within" in result.reason
    is_of_earlier = state is None or state.since_unix_s < STARTED_AT
    assert bool(result.self_tests) != is_of_earlier


def test_self_tests_of_the_nodes_are_recorded(tmp_path: Path) -> None:
    """Also the self-test of a server that was ready before the run began."""
    state = make_server(self_test=TEST, since_unix_s=STARTED_AT - 600)
    with stream_server(server(1, 1)) as ready:
        result = run(tmp_path, ready.base_url, state=lambda _: state)
    assert (result.status, result.self_tests) == ("complete", {"vllm-baseline": TEST})


def test_a_server_that_is_abandoned_later_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_lifecycle, "STATE_SECONDS", 0.01)
    servers: list[str] = []

    def state(server: str) -> ServerState | None:
        servers.append(server)
        return GIVEN_UP if len(servers) > 3 else None

    with stream_server(lambda _: LOADING) as late:
        result = run(tmp_path, late.base_url, state=state)
    assert "was given up" in result.reason
    assert set(servers) == {"vllm-baseline"}
