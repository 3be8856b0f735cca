"""Servers of a run: how they are started and stopped, and whether they are ready.

In a cluster the load generator scales Deployments (`pods/measuring`), a rehearsal has a process
manager (`rehearsal`); what is there already, and stays, needs nothing.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from draftworth.errors import DraftworthError
from draftworth.measuring.clock import WallClock
from draftworth.measuring.http import API_KEY_VARIABLE, HttpError, get_text, refusal
from draftworth.measuring.journal import Journal, elapsed_seconds
from draftworth.measuring.run_specification import Endpoint, RunSpec
from draftworth.records.servers import ServerState
from draftworth.untrusted import one_line

READY = "ready"
# Between two looks at what servers say of themselves: each is a request of S3.
STATE_SECONDS = 15.0
# Of the log of a server that was given up, in a run's reason.
_QUOTED_LINES = 3
_WORDS_CHARACTERS = 2000
_TIMEOUT_SECONDS = 5.0
_LIMIT_BYTES = 64 * 1024


class NotReadyError(DraftworthError):
    """A server was not ready by the deadline."""


class GivenUpError(DraftworthError):
    """A server will not be ready: it was given up where it runs."""


# What a server of this name said of itself last; None where nothing is known.
ReadServerState = Callable[[str], ServerState | None]


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """Asks servers for their health.

    server_state: may take its time; asked in a thread.
    """

    api_key: str | None
    progress: Callable[[str], None]
    clock: WallClock
    poll_seconds: float
    server_state: ReadServerState

    async def wait(
        self,
        endpoints: Sequence[Endpoint],
        *,
        at_most_seconds: float | None,
        since_unix_s: float = 0.0,
    ) -> None:
        """Wait for `/health` of every server.

        Args:
            endpoints: the servers.
            at_most_seconds: None: without an end.
            since_unix_s: what a server said of itself before was of another life of it.

        Raises:
            NotReadyError: one was not ready in time.
            GivenUpError: one will never be.
        """
        waiting = asyncio.ensure_future(self._wait(endpoints, at_most_seconds))
        watching = asyncio.ensure_future(self._watch(endpoints, since_unix_s))
        try:
            await asyncio.wait((waiting, watching), return_when=asyncio.FIRST_COMPLETED)
            # Of servers that are all ready, none was given up.
            (waiting if waiting.done() else watching).result()
        finally:
            await _cancelled(waiting, watching)

    async def _watch(self, endpoints: Sequence[Endpoint], since_unix_s: float) -> None:
        """Look whether a server was given up, until it was; raises GivenUpError."""
        while True:
            for endpoint in endpoints:
                state = await asyncio.to_thread(self.server_state, endpoint.server)
                if state and state.phase == "given_up" and state.since_unix_s >= since_unix_s:
                    raise GivenUpError(_words_of(state))
            await asyncio.sleep(STATE_SECONDS)

    async def _wait(self, endpoints: Sequence[Endpoint], at_most_seconds: float | None) -> None:
        wait_seconds = math.inf if at_most_seconds is None else at_most_seconds
        give_up_at_seconds = self.clock() + wait_seconds
        for endpoint in endpoints:
            self.progress(f"waiting for {endpoint.variant} at {endpoint.base_url}")
            while (answer := await self.health(endpoint)) != READY:
                if self.clock() >= give_up_at_seconds:
                    raise NotReadyError(
                        f"{endpoint.variant} at {endpoint.base_url} was not ready within "
                        f"{wait_seconds:g} s; last answer: {answer}"
                    )
                await asyncio.sleep(self.poll_seconds)

    async def health(self, endpoint: Endpoint) -> str:
        """`READY`, or the answer of a server that is not; raises NotReadyError without a key."""
        try:
            answer = await get_text(
                f"{endpoint.base_url}/health",
                timeout_seconds=_TIMEOUT_SECONDS,
                limit_bytes=_LIMIT_BYTES,
                api_key=self.api_key,
            )
        except HttpError as error:
            return str(error)
        except TimeoutError:
            return f"no answer within {_TIMEOUT_SECONDS:g} s"
        status = answer.head.status
        if status in (401, 403):
            raise NotReadyError(
                f"{endpoint.variant} at {endpoint.base_url} answers HTTP {status}: set the "
                f"environment variable {API_KEY_VARIABLE} to its key"
            )
        # Servers without a health endpoint answer 404: they answer.
        return READY if status in (200, 404) else refusal(answer.head)


def _words_of(state: ServerState) -> str:
    """Why it was given up, and how its log ends."""
    lines = " | ".join(state.last_lines[-_QUOTED_LINES:])
    log = f"; its log ends: {lines}" if lines else ""
    return one_line(
        f"{state.variant} was given up at its start {state.start}: {state.reason}{log}",
        characters=_WORDS_CHARACTERS,
    )


async def _cancelled(*tasks: asyncio.Future[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class ServersError(DraftworthError):
    """A server cannot be started or stopped."""


class Servers(Protocol):
    """Starts and stops the servers of endpoints, by the names in `Endpoint.server`."""

    async def run_only(self, endpoints: Sequence[Endpoint], *, restart: bool) -> None:
        """Stop every server that is not one of these, then start those of them that do not run.

        To call it again changes nothing. It returns when all starts are asked for: whether a
        server is ready, its health says.

        Args:
            endpoints: whose servers are to run.
            restart: every server that runs is stopped first, these too.

        Raises:
            ServersError: a server cannot be started or stopped.
        """


class FixedServers:
    """Servers that are there already, and stay."""

    async def run_only(self, endpoints: Sequence[Endpoint], *, restart: bool) -> None:
        """Nothing: `RunSpec` refuses to change servers that nobody can start."""


@dataclass(frozen=True, kw_only=True)
class StageServers:
    """Has servers run, and waits for them; the journal has the time that it takes."""

    spec: RunSpec
    servers: Servers
    readiness: Readiness
    journal: Journal
    clock: WallClock

    async def find(self, endpoints: Sequence[Endpoint]) -> None:
        """Have these servers run, and no others, when the run or its next pod begins.

        Servers that have never answered are waited for no longer than a start may take, from the
        run's own start on: whatever keeps them, it is not that they are slow.

        Raises:
            ServersError: one cannot be started or stopped.
            NotReadyError, GivenUpError: one is not ready in time, or will never be.
        """
        were_ready = any(e.kind in ("measured", "lost") for e in self.journal.entries)
        allowance_seconds = None if were_ready else self.spec.start_allowance_seconds
        if allowance_seconds is not None:
            allowance_seconds = self.seconds_left(allowance_seconds)
        await self.servers.run_only(endpoints, restart=False)
        await self._wait(endpoints, allowance_seconds)

    async def change(self, endpoints: Sequence[Endpoint], *, restart: bool) -> None:
        """The same in the middle of a run: a start may take as long from now on."""
        await self.servers.run_only(endpoints, restart=restart)
        await self._wait(endpoints, self.spec.start_allowance_seconds)

    async def again(self, endpoints: Sequence[Endpoint]) -> None:
        """The same after one of them was lost, as long as the run's deadline allows."""
        await self.servers.run_only(endpoints, restart=False)
        await self._wait(endpoints, None)

    def seconds_left(self, total: float) -> float:
        """Of so many from the run's start."""
        return max(0.0, total - self.elapsed_seconds)

    @property
    def elapsed_seconds(self) -> float:
        """Since the run's start."""
        return elapsed_seconds(self.journal.entries, until_unix_s=self.clock())

    async def _wait(self, endpoints: Sequence[Endpoint], allowance_seconds: float | None) -> None:
        deadline_seconds = self.spec.ready_deadline_seconds
        started_at_unix_s = self.clock()
        try:
            await self.readiness.wait(
                endpoints,
                at_most_seconds=allowance_seconds if deadline_seconds is None else deadline_seconds,
                since_unix_s=self.journal.started_at_unix_s,
            )
        finally:
            self.journal.note("waited", started_at_unix_s)
