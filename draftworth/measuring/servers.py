"""Starting and stopping servers: what a run asks of whoever runs them.

In a cluster the load generator scales Deployments (`pods/llmperf`), a rehearsal has a process
manager (`rehearsal`); what is there already, and stays, needs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from draftworth.errors import DraftworthError
from draftworth.measuring.clock import WallClock
from draftworth.measuring.journal import Journal, elapsed_seconds
from draftworth.measuring.readiness import Readiness
from draftworth.measuring.run_specification import Endpoint, RunSpec


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
