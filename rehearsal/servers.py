"""The servers of a rehearsal, started and stopped as the run asks for them.

What the load generator does in a cluster by scaling Deployments is done here with processes. A slot
is a number only: all servers share this machine's cores.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from draftworth.measuring.run_specification import Endpoint
from rehearsal.engine import EngineServer


@dataclass(kw_only=True)
class ProcessServers:
    """Starts and stops processes by the names in `Endpoint.server`. running: those that do."""

    by_name: Mapping[str, EngineServer]
    running: set[str]

    async def run_only(self, endpoints: Sequence[Endpoint], *, restart: bool) -> None:
        """As `draftworth.measuring.servers.Servers` says; returns when those started are healthy.

        Raises:
            EngineUnavailableError: one did not come up.
        """
        wanted = {endpoint.server for endpoint in endpoints}
        leaving = set(self.running) if restart else self.running - wanted
        self.running -= leaving
        await asyncio.gather(*(asyncio.to_thread(self.by_name[name].stop) for name in leaving))
        starting = [self.by_name[name] for name in sorted(wanted - self.running)]
        self.running |= wanted
        for server in starting:
            server.start()
        for server in starting:
            await _until_ready(server)


async def _until_ready(server: EngineServer) -> None:
    """As `EngineServer.wait_until_healthy`, and a signal ends it."""
    while not server.is_ready():  # noqa: ASYNC110 (another process becomes ready, nothing here)
        await asyncio.sleep(server.POLL_SECONDS)
