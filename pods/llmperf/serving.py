"""After the run: the winner serves and is looked at, until its time or its money is over.

The run is over by then, with its `run.json`, verdict and report. A look, a Service or a server that
cannot be changed is a line in the log; where the results cannot be read or written, another pod
tries. The capacity controller ends the winner's nodes by limits of its own, whatever happens here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from draftworth.errors import UserInputError
from draftworth.measuring.clock import unix_clock
from draftworth.measuring.http import API_KEY_VARIABLE
from draftworth.measuring.job import SERVING_POD_SECONDS
from draftworth.measuring.keeping import kept_winner
from draftworth.measuring.live import LiveProbes
from draftworth.measuring.readiness import Readiness, ReadServerState
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.servers import Servers, ServersError
from draftworth.measuring.sink import Store
from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.records.live import KeptWinner, ServingOver, over_key
from draftworth.records.serving_limits import ServingLimits
from draftworth.untrusted import TooLargeError, read_file
from pods.llmperf.kubernetes_servers import WinnerService, go_home
from pods.llmperf.s3_sink import S3Sink

POLL_SECONDS = 1.0
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Serving:
    """Lets the winner of a run serve.

    results: where the runs are. started_s: when this pod was, by the monotonic clock; measuring its
    run is part of its life. pod_seconds: it may live.
    """

    spec: RunSpec
    results: Store
    limits: Callable[[], ServingLimits]
    servers: Servers
    service: WinnerService
    server_state: ReadServerState
    log: Callable[[str], None]
    started_s: float = field(default_factory=time.monotonic)
    pod_seconds: float = SERVING_POD_SECONDS

    def go_on(self, run_id: str) -> None:
        """Until it is over, which `over.json` says; nothing where no winner was kept.

        Raises:
            asyncio.CancelledError: a signal, or this pod has lived long enough: another goes on.
            DraftworthError: what is there cannot be read, or not written.
        """
        kept = kept_winner(self.results, run_id)
        if kept is None:
            return
        if over_key(run_id) not in self.results.names(run_id):
            reason = self._serve(kept)
            self.log(f"{kept.variant} goes: {reason}")
            # Before its Service leads nowhere: the capacity controller ends by a clock of its own,
            # and would pay for nodes that nobody finds.
            over = ServingOver(run_id=run_id, reason=reason, ended_at_unix_s=unix_clock())
            self.results.write(over_key(run_id), dump_record(over, indent=2))
        self._lead_clients_to(None)
        asyncio.run(go_home(self.servers, self.spec, self.log))

    def _serve(self, kept: KeptWinner) -> str:
        """Until it is over; why it is."""
        self._lead_clients_to(kept)
        probes = LiveProbes(
            spec=self.spec,
            kept=kept,
            store=top_level(self.results),
            limits=self.limits,
            progress=self.log,
            readiness=Readiness(
                api_key=os.environ.get(API_KEY_VARIABLE),
                progress=self.log,
                clock=unix_clock,
                poll_seconds=POLL_SECONDS,
                server_state=self.server_state,
            ),
            api_key=os.environ.get(API_KEY_VARIABLE),
        )
        return asyncio.run(until_signal(self._as_long_as_this_pod(probes)))

    async def _as_long_as_this_pod(self, probes: LiveProbes) -> str:
        try:
            left_seconds = self.started_s + self.pod_seconds - time.monotonic()
            async with asyncio.timeout(left_seconds):
                return await probes.serve()
        except TimeoutError as error:
            raise asyncio.CancelledError from error

    def _lead_clients_to(self, kept: KeptWinner | None) -> None:
        try:
            self.service.select(kept)
        except ServersError as error:
            self.log(f"clients do not find the winner by its Service: {error}")


def top_level(results: Store) -> Store:
    """Probes lie beside the runs' folder of a bucket: below it, their names would be runs'."""
    if isinstance(results, S3Sink):
        return results.at("")
    return results


async def until_signal(work: Coroutine[Any, Any, T]) -> T:
    """Cancelled by SIGTERM and SIGINT."""
    running = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, running.cancel)
    return await running


def read_limits(path: Path) -> ServingLimits:
    """The limits of serving in a file; raises UserInputError."""
    try:
        return load_record(ServingLimits, read_file(path))
    except (OSError, RecordError, TooLargeError) as error:
        raise UserInputError(f"{path}: no limits of serving: {error}") from error
