"""The load engine that drives llmperf's own library on Ray.

One actor carries one request at a time, as in llmperf itself. Load shapes are those of the asyncio
engine, which drives actors here instead of sockets: what is sent, when, and what is recorded is the
same. Nothing in this module needs Ray; `pods/llmperf/ray_actors.py` does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from draftworth.measuring.client import ERROR_LOST_ACTOR, Client, Measured, unexpected
from draftworth.measuring.load import AsyncioEngine, Planned
from draftworth.records.load import Load
from draftworth.records.prompts import Prompt
from draftworth.records.results import RequestRecord
from draftworth.records.transcripts import Transcript

_NOTICEABLE_WAIT_SECONDS = 0.005

Progress = Callable[[str], None]


class Actor(Protocol):
    """Carries one request at a time, in a process of its own."""

    def measure(self, client: Client, request: Planned) -> Measured:
        """Block until the request is measured; whatever happens is a record."""


@dataclass(frozen=True, kw_only=True)
class _ThroughActors(Client):
    """Measures like `sender`, in whichever actor is idle. Notes how long requests had to wait."""

    sender: Client
    idle: asyncio.Queue[Actor]
    threads: ThreadPoolExecutor
    waits_seconds: list[float] = field(default_factory=list)

    async def measure(self, prompt: Prompt, *, request_id: str) -> Measured:
        """Send one request. A failure is a record with its reason, never an exception."""
        request = Planned(request_id=request_id, prompt=prompt)
        asked_seconds = time.monotonic()
        actor = await self.idle.get()
        self.waits_seconds.append(time.monotonic() - asked_seconds)
        started_at_unix_s = self.sender.wall_clock()
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self.threads, actor.measure, self.sender, request)
        except Exception as error:  # noqa: BLE001 (one bad answer is one failed record)
            return failed_request(request, started_at_unix_s, *unexpected(error))
        finally:
            self.idle.put_nowait(actor)


class RayEngine:
    """Requests from as many processes as there are requests in flight."""

    def __init__(self, actors: Sequence[Actor], progress: Progress) -> None:
        self._count = len(actors)
        self._progress = progress
        # llmperf's launcher blocks until its request has ended: a thread for each, as in llmperf.
        self._threads = ThreadPoolExecutor(max_workers=self._count, thread_name_prefix="actor")
        self._idle: asyncio.Queue[Actor] = asyncio.Queue()
        for actor in actors:
            self._idle.put_nowait(actor)

    async def send(
        self, client: Client, planned: Sequence[Planned], load: Load, *, seed: int
    ) -> list[Measured]:
        """Measure every planned request; `seed` draws the gaps of a Poisson load.

        Raises:
            ValueError: the load wants more requests in flight than there are actors.
        """
        in_flight = load.needed_in_flight(len(planned))
        if in_flight > self._count:
            raise ValueError(f"{in_flight} requests in flight need as many actors: {self._count}")
        through = _ThroughActors(
            base_url=client.base_url,
            shape=client.shape,
            sender=client,
            idle=self._idle,
            threads=self._threads,
        )
        measured = await AsyncioEngine().send(through, planned, load, seed=seed)
        self._report_waits(through.waits_seconds)
        return measured

    def close(self) -> None:
        """Wait for the threads; actors that still measure have been ended before."""
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
    """The record of a request whose actor ended before it answered."""
    message = f"the actor of this request was lost: {reason}"
    return failed_request(request, started_at_unix_s, ERROR_LOST_ACTOR, message)


def failed_request(request: Planned, started_at_unix_s: float, code: int, message: str) -> Measured:
    """The record of a request of which nothing is known but why."""
    record = RequestRecord(
        error_code=code,
        error_msg=message,
        request_id=request.request_id,
        prompt_id=request.prompt.id,
        started_at_unix_s=started_at_unix_s,
        chunks=0,
        usage_source="none",
    )
    return Measured(record=record, transcript=Transcript(request_id=request.request_id))
