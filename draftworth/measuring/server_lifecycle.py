"""Starts and stops the servers of a run, and waits until they are ready.

In a cluster, the measuring Job starts and stops servers by scaling Deployments (`pods/measuring`);
a rehearsal starts processes (`rehearsal`). A user's own servers are neither started nor stopped.
"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from draftworth.errors import DraftworthError
from draftworth.measuring.clock import WallClock, unix_clock
from draftworth.measuring.http_client import API_KEY_VARIABLE, HttpError, ask, refusal
from draftworth.measuring.journal import Journal, elapsed_seconds
from draftworth.measuring.load_engines import AsyncioEngine, LoadEngine
from draftworth.measuring.run_specification import Endpoint, RunSpec
from draftworth.measuring.schedule import PlannedBlocks
from draftworth.measuring.streamed_request import Client
from draftworth.records.readings import Reading
from draftworth.records.results import BlockResult
from draftworth.records.servers import SelfTest, ServerState
from draftworth.untrusted import one_line

READY = "ready"
# Seconds between two reads of a server's state; each read is a request to S3.
STATE_SECONDS = 15.0
# How many of the last lines of a server's log are quoted in the error that it was given up.
_QUOTED_LINES = 3
_WORDS_CHARACTERS = 2000
_TIMEOUT_SECONDS = 5.0
_LIMIT_BYTES = 64 * 1024


class ServersError(DraftworthError):
    """A server cannot be started or stopped, was not ready in time, or will never be ready."""


class Servers(Protocol):
    """Starts and stops the servers of endpoints, by the names in `Endpoint.server`."""

    async def run_only(self, endpoints: Sequence[Endpoint], *, restart: bool) -> None:
        """Stop all servers but those of `endpoints`; then start those of `endpoints`.

        Without `restart`, servers of `endpoints` that run are left alone. The method returns when
        all starts are requested, before the servers are ready.

        restart: whether the servers of `endpoints` are stopped first, so that all start anew.
        ServersError: a server cannot be started or stopped.
        """


class FixedServers:
    """Servers that already run, and that are never started or stopped by this program."""

    async def run_only(self, endpoints: Sequence[Endpoint], *, restart: bool) -> None:
        """Do nothing: `RunSpec` refuses a run that would have to start or stop fixed servers."""


Progress = Callable[[str], None]
# A function that is called whenever blocks were measured, with the number of blocks measured so far
# and the number that is planned.
Advanced = Callable[[int, PlannedBlocks], None]
# A function that gets a server's name, and returns the last state that the server reported; None if
# it reported none.
ReadServerState = Callable[[str], ServerState | None]
# A function that gets a run's id and measured blocks, and returns how well each draft model of a
# search predicts the baseline's outputs in these blocks, by `Candidate.draft`.
ReadRunsOutputs = Callable[[str, Sequence[BlockResult]], Mapping[str, Sequence[Reading]]]


def reads_nothing(_run_id: str, _blocks: Sequence[BlockResult]) -> Mapping[str, Sequence[Reading]]:
    """Return an empty mapping, without running any draft over the baseline's outputs.

    A search then predicts tokens per step from its measured blocks alone.
    """
    return {}


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The functions and settings that the measuring process provides to a run.

    scheduling: the operating system's scheduling class of the threads that send requests, in words.
    servers: starts and stops servers, if the run has repetitions, a control or a search.
    server_state: reads the last state that a server reported; a call may last long.
    read_outputs: returns how well the drafts of a search predict the baseline's outputs.
    deadline_seconds: returns how long the whole run may last, from the start of its first pod;
        None: no limit. It is called repeatedly, because the deadline may change during the run.
    """

    progress: Progress
    scheduling: str = ""
    api_key: str | None = None
    wall_clock: WallClock = unix_clock
    make_client: Callable[..., Client] = Client
    engine: LoadEngine = field(default_factory=AsyncioEngine)
    servers: Servers = field(default_factory=FixedServers)
    server_state: ReadServerState = lambda _: None
    ready_poll_seconds: float = 1.0
    read_outputs: ReadRunsOutputs = reads_nothing
    deadline_seconds: Callable[[], float | None] = lambda: None
    deadline_poll_seconds: float = 30.0
    advanced: Advanced = lambda _done, _planned: None


async def wait_until_ready(
    endpoints: Sequence[Endpoint],
    environment: Environment,
    *,
    at_most_seconds: float | None,
    since_unix_s: float = 0.0,
) -> None:
    """Wait until `/health` of every server answers that the server is ready.

    at_most_seconds: the longest time to wait; None: no limit.
    since_unix_s: states that servers reported before this time are ignored, because they are of an
        earlier run.
    ServersError: a server was not ready in time, or reported that it was given up.
    """
    waiting = asyncio.ensure_future(_all_ready(endpoints, environment, at_most_seconds))
    watching = asyncio.ensure_future(_watch(endpoints, environment, since_unix_s))
    try:
        await asyncio.wait((waiting, watching), return_when=asyncio.FIRST_COMPLETED)
        # `waiting` ends when all servers are ready, or too late; `watching` ends when one was given
        # up. If both have ended, `waiting` counts: a server that is ready was not given up.
        (waiting if waiting.done() else watching).result()
    finally:
        waiting.cancel()
        watching.cancel()
        await asyncio.gather(waiting, watching, return_exceptions=True)


async def _watch(
    endpoints: Sequence[Endpoint], environment: Environment, since_unix_s: float
) -> None:
    while True:
        for endpoint in endpoints:
            state = await asyncio.to_thread(environment.server_state, endpoint.server)
            if state and state.phase == "given_up" and state.since_unix_s >= since_unix_s:
                lines = " | ".join(state.last_lines[-_QUOTED_LINES:])
                log = f"; its log ends: {lines}" if lines else ""
                why = (
                    f"{state.variant} was given up at its start {state.start}: {state.reason}{log}"
                )
                raise ServersError(one_line(why, characters=_WORDS_CHARACTERS))
        await asyncio.sleep(STATE_SECONDS)


async def _all_ready(
    endpoints: Sequence[Endpoint], environment: Environment, at_most_seconds: float | None
) -> None:
    wait_seconds = math.inf if at_most_seconds is None else at_most_seconds
    give_up_at_seconds = environment.wall_clock() + wait_seconds
    for endpoint in endpoints:
        environment.progress(f"waiting for {endpoint.variant} at {endpoint.base_url}")
        while (answer := await health(endpoint, environment.api_key)) != READY:
            if environment.wall_clock() >= give_up_at_seconds:
                raise ServersError(
                    f"{endpoint.variant} at {endpoint.base_url} was not ready within "
                    f"{wait_seconds:g} s; last answer: {answer}"
                )
            await asyncio.sleep(environment.ready_poll_seconds)


async def health(endpoint: Endpoint, api_key: str | None) -> str:
    """Return `READY`, or why the server is not ready; ServersError: it refuses the API key."""
    try:
        head, _ = await ask(
            f"{endpoint.base_url}/health",
            timeout_seconds=_TIMEOUT_SECONDS,
            limit_bytes=_LIMIT_BYTES,
            api_key=api_key,
        )
    except HttpError as error:
        return str(error)
    except TimeoutError:
        return f"no answer within {_TIMEOUT_SECONDS:g} s"
    if head.status in (401, 403):
        raise ServersError(
            f"{endpoint.variant} at {endpoint.base_url} answers HTTP {head.status}: set the "
            f"environment variable {API_KEY_VARIABLE} to its key"
        )
    # A server that has no `/health` answers 404, which shows that it runs.
    return READY if head.status in (200, 404) else refusal(head)


@dataclass(frozen=True, kw_only=True)
class StageServers:
    """Starts servers, waits for them, and writes the waiting time into the journal.

    If the specification has `ready_deadline_seconds`, it replaces the limit that each method names.
    """

    spec: RunSpec
    environment: Environment
    journal: Journal

    async def find(self, endpoints: Sequence[Endpoint]) -> None:
        """At the start of a pod, run only these servers, and wait until they are ready.

        If no block was measured yet, the wait ends `start_allowance_seconds` after the run's start:
        a server that needs longer has failed, and is not just slow.
        """
        were_ready = any(e.kind in ("measured", "lost") for e in self.journal.entries)
        allowance_seconds = None if were_ready else self.spec.start_allowance_seconds
        if allowance_seconds is not None:
            allowance_seconds = self.seconds_left(allowance_seconds)
        await self.environment.servers.run_only(endpoints, restart=False)
        await self._wait(endpoints, allowance_seconds)

    async def change(self, endpoints: Sequence[Endpoint], *, restart: bool) -> None:
        """Run only these servers in a new stage, and wait at most `start_allowance_seconds`."""
        await self.environment.servers.run_only(endpoints, restart=restart)
        await self._wait(endpoints, self.spec.start_allowance_seconds)

    async def again(self, endpoints: Sequence[Endpoint]) -> None:
        """Run these servers again after one was lost; wait at most until the run's deadline."""
        await self.environment.servers.run_only(endpoints, restart=False)
        await self._wait(endpoints, None)

    def seconds_left(self, total: float) -> float:
        return max(0.0, total - self.elapsed_seconds())

    def elapsed_seconds(self) -> float:
        return elapsed_seconds(self.journal.entries, until_unix_s=self.environment.wall_clock())

    async def _wait(self, endpoints: Sequence[Endpoint], allowance_seconds: float | None) -> None:
        deadline_seconds = self.spec.ready_deadline_seconds
        started_at_unix_s = self.environment.wall_clock()
        tests: dict[str, SelfTest] = {}
        try:
            await wait_until_ready(
                endpoints,
                self.environment,
                at_most_seconds=allowance_seconds if deadline_seconds is None else deadline_seconds,
                since_unix_s=self.journal.started_at_unix_s,
            )
            tests = await self._self_tests(endpoints, since_unix_s=0.0)
        except ServersError:
            tests = await self._self_tests(endpoints, since_unix_s=self.journal.started_at_unix_s)
            raise
        finally:
            self.journal.note("waited", started_at_unix_s, self_tests=tests)

    async def _self_tests(
        self, endpoints: Sequence[Endpoint], *, since_unix_s: float
    ) -> dict[str, SelfTest]:
        tests = {}
        for endpoint in endpoints:
            state = await asyncio.to_thread(self.environment.server_state, endpoint.server)
            if state and state.self_test and state.since_unix_s >= since_unix_s:
                tests[endpoint.server] = state.self_test
        return tests
