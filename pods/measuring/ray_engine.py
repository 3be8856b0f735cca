"""The load engine that drives llmperf's own library on Ray.

One actor measures one request at a time, as in llmperf itself. The engine decides with the asyncio
engine's code when to send which request, and returns the same records; it only sends from actors
instead of from its own process. This module does not need Ray; `pods/measuring/ray_actors.py` does.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Protocol

from draftworth.measuring.load_engines import Batch, Planned, SentBatch, keep_load
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.server_lifecycle import Progress
from draftworth.measuring.streamed_request import ERROR_LOST_ACTOR, Client, Measured, unexpected
from draftworth.records.load_shapes import Load
from draftworth.records.results import RequestRecord
from draftworth.records.transcripts import Transcript
from pods.measuring.actor_count import actors_needed, too_many_for_one_machine

_NOTICEABLE_WAIT_SECONDS = 0.005
_NEEDED_MODULES = ("ray", "llmperf")


class Actor(Protocol):
    """Measures one request at a time, in a process of its own."""

    def measure(self, client: Client, request: Planned) -> Measured | None:
        """Wait until the request has ended; return its record, or None if it was cancelled.

        A request that failed has a record too.
        """

    def cancel(self, request: Planned) -> None:
        """Make `measure` return soon if it still measures this request; `cancel` does not block."""


@dataclass(frozen=True, kw_only=True)
class _ThroughActors:
    """Measures requests in idle actors, and records how long each request waited for an actor.

    cancelled: the calls of `Actor.measure` for cancelled requests; they may still run.
    """

    client: Client
    idle: asyncio.Queue[Actor]
    threads: ThreadPoolExecutor
    waits_seconds: list[float] = field(default_factory=list)
    cancelled: list[asyncio.Future[Measured | None]] = field(default_factory=list)

    async def measure(self, request: Planned) -> Measured:
        waiting_since_seconds = time.monotonic()
        actor = await self.idle.get()
        self.waits_seconds.append(time.monotonic() - waiting_since_seconds)
        started_at_unix_s = self.client.wall_clock()
        carried = asyncio.get_running_loop().run_in_executor(
            self.threads, actor.measure, self.client, request
        )
        carried.add_done_callback(lambda _: self.idle.put_nowait(actor))
        try:
            measured = await asyncio.shield(carried)
        except asyncio.CancelledError:
            actor.cancel(request)
            self.cancelled.append(carried)
            raise
        except Exception as error:  # noqa: BLE001 (one bad answer is one failed record)
            return failed_request(request, started_at_unix_s, *unexpected(error))
        assert measured  # noqa: S101 (for the type checker: it was not cancelled)
        return measured

    async def last_answers(self) -> list[Measured]:
        """Wait until the calls for cancelled requests have returned.

        Return the records of those requests that ended before the actor could cancel them.
        """
        answers = await asyncio.gather(*self.cancelled, return_exceptions=True)
        return [answer for answer in answers if isinstance(answer, Measured)]


class RayEngine:
    """Sends requests from actors: one process for each request in flight."""

    def __init__(self, actors: Sequence[Actor], progress: Progress) -> None:
        self._count = len(actors)
        self._progress = progress
        # llmperf's launcher blocks until its request has ended, so each actor has a thread.
        self._threads = ThreadPoolExecutor(max_workers=self._count, thread_name_prefix="actor")
        self._idle: asyncio.Queue[Actor] = asyncio.Queue()
        for actor in actors:
            self._idle.put_nowait(actor)

    async def send(self, client: Client, batch: Batch, load: Load, *, seed: int) -> SentBatch:
        """Send a batch of requests under a load, and return when every actor is idle again.

        It raises ValueError if the load has more requests in flight than there are actors.
        seed: the seed of random arrival times.
        """
        in_flight = load.in_flight or 1
        if in_flight > self._count:
            raise ValueError(f"{in_flight} requests in flight need as many actors: {self._count}")
        through = _ThroughActors(client=client, idle=self._idle, threads=self._threads)
        try:
            outcome = await keep_load(through.measure, batch, load, seed=seed)
            late = await through.last_answers()
        except asyncio.CancelledError:
            # The run was cancelled and its event loop is about to end, so do not wait for threads
            # that still measure cancelled requests.
            for carried in through.cancelled:
                carried.cancel()
            raise
        self._report_waits(through.waits_seconds)
        return replace(outcome, unmeasured=[*outcome.unmeasured, *late])

    def close(self) -> None:
        """Wait until all threads have ended. The caller must have killed the busy actors before."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _report_waits(self, waits_seconds: Sequence[float]) -> None:
        late = [wait for wait in waits_seconds if wait > _NOTICEABLE_WAIT_SECONDS]
        if late:
            self._progress(
                f"{len(late)} of {len(waits_seconds)} requests were sent late, by up to "
                f"{max(late):.2f} s, because all {self._count} actors were busy; load_generator "
                "asyncio or a Ray cluster has no such limit"
            )


def lost_request(request: Planned, started_at_unix_s: float, reason: str) -> Measured:
    """Return the record of a request whose actor ended before it answered."""
    message = f"the actor of this request was lost: {reason}"
    return failed_request(request, started_at_unix_s, ERROR_LOST_ACTOR, message)


def failed_request(request: Planned, started_at_unix_s: float, code: int, message: str) -> Measured:
    """Return the record of a failed request of which only the reason of its failure is known."""
    record = RequestRecord(
        error_code=code,
        error_msg=message,
        request_id=request.request_id,
        prompt_id=request.prompt.id,
        seed=request.seed,
        started_at_unix_s=started_at_unix_s,
        chunks=0,
        usage_source="none",
    )
    return Measured(record=record, transcript=Transcript(request_id=request.request_id))


def why_not_llmperf(
    spec: RunSpec, ray_address: str | None, *, find: Callable[[str], object] = find_spec
) -> str:
    """Return why this machine cannot run llmperf for the run; an empty text if it can.

    ray_address: the address of a Ray cluster; None: all actors are on this machine, which limits
        their number. find: returns None for the name of a module that is not installed.
    """
    missing = [name for name in _NEEDED_MODULES if find(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    if ray_address is not None:
        return ""
    return too_many_for_one_machine(actors_needed(spec, ray_address))
