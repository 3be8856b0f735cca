"""Starts and stops the servers of a rehearsal as the run asks for them.

A cluster scales Deployments for this; here they are processes. A slot is only a number: all servers
share this machine's cores.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from draftworth.measuring.run_specification import Endpoint
from rehearsal.engine import EngineServer

POLL_SECONDS = 0.1


@dataclass(kw_only=True)
class ProcessServers:
    """Starts and stops processes by the names in `Endpoint.server`."""

    by_name: Mapping[str, EngineServer]
    running: set[str] = field(default_factory=set)

    async def run_only(self, endpoints: Sequence[Endpoint], *, restart: bool) -> None:
        """Leave only the servers of these endpoints running, and wait for them.

        Raises:
            EngineUnavailableError: one did not come up.
        """
        wanted = {endpoint.server for endpoint in endpoints}
        leaving = set(self.running) if restart else self.running - wanted
        self.running -= leaving
        await asyncio.gather(*(asyncio.to_thread(self.by_name[name].stop) for name in leaving))
        await self.start(wanted - self.running)

    async def start(self, names: Set[str]) -> None:
        """Start servers together and return when all are healthy.

        Raises:
            EngineUnavailableError: one did not come up.
        """
        self.running |= names
        for name in sorted(names):
            self.by_name[name].start()
        for name in sorted(names):
            while not self.by_name[name].is_ready():  # noqa: ASYNC110 (another process gets ready)
                await asyncio.sleep(POLL_SECONDS)


@contextmanager
def process_servers(
    by_name: Mapping[str, EngineServer], first: Set[str]
) -> Iterator[ProcessServers]:
    """Yield the servers with the first of them healthy; end all of them on leaving.

    Raises:
        EngineUnavailableError: one did not come up; the others are ended first.
    """
    servers = ProcessServers(by_name=by_name)
    with ExitStack() as stack:
        for server in by_name.values():
            stack.callback(server.stop)
        asyncio.run(servers.start(first))
        yield servers
