"""Load engines: what sends a block's requests, and keeps the load whole while they are measured.

`AsyncioEngine` sends from one process; the Job's pod may use llmperf's on Ray
(`pods/measuring/ray_engine.py`). Both send what `keep_load` says, by the same client.

A load is what it says from before the first measured request is sent until the last one has ended:
measured requests start as those of the warm-up end, and when all are sent, fillers follow. What is
still in flight at the end is cancelled: its connection is closed, at which vLLM ends the request
within a step and counts it in no histogram of finished requests. To let it end would keep devices
busy that nothing is measured on, and on a machine that two servers share, disturb the other one
(`docs/decisions/0014-whole-loads.md`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from draftworth.measuring.client import Client, Measured
from draftworth.records.load import Load
from draftworth.records.prompts import Prompt


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One request to be sent. seed: its own, of what the server draws."""

    request_id: str
    prompt: Prompt
    seed: int


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What one block sends, in this order.

    fillers: as many as it takes until the last measured request has ended; may have no end.
    """

    warmup: Sequence[Planned] = ()
    measured: Sequence[Planned]
    fillers: Iterable[Planned] = ()


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a batch. `measured` has the order of the plan.

    others: of warm-up and fillers, those that ended before they were cancelled.
    fillers: how many were sent.
    """

    measured: Sequence[Measured]
    others: Sequence[Measured]
    fillers: int


class LoadEngine(Protocol):
    """Sends requests in a load shape."""

    async def send(self, client: Client, batch: Batch, load: Load, *, seed: int) -> Outcome:
        """Measure every request that is to be measured; a failed one is a record too."""


Measure = Callable[[Planned], Awaitable[Measured]]


class AsyncioEngine:
    """All requests from one event loop."""

    async def send(self, client: Client, batch: Batch, load: Load, *, seed: int) -> Outcome:
        """Send a batch when the load says so; `seed` draws what is random."""

        async def measure(request: Planned) -> Measured:
            return await client.measure(
                request.prompt, request_id=request.request_id, seed=request.seed
            )

        return await keep_load(measure, batch, load, seed=seed)


async def keep_load(measure: Measure, batch: Batch, load: Load, *, seed: int) -> Outcome:
    """Send a batch through `measure`, which makes a record of whatever happens."""
    return await _Sending(measure, batch, load).run(seed)


_Part = Literal["warm-up", "measured", "filler"]


class _Sending:
    """One batch on its way."""

    def __init__(self, measure: Measure, batch: Batch, load: Load) -> None:
        self._measure, self._batch, self._load = measure, batch, load
        most = load.most_in_flight(len(batch.warmup) + len(batch.measured))
        self._free = asyncio.Semaphore(most)
        self._tasks: list[asyncio.Task[None]] = []
        self._measured: dict[str, Measured] = {}
        self._others: list[Measured] = []
        self._fillers = 0
        self._over = asyncio.Event()
        if not batch.measured:
            self._over.set()

    async def run(self, seed: int) -> Outcome:
        async with asyncio.TaskGroup() as group:
            self._tasks.append(group.create_task(self._send(group, seed)))
            await self._over.wait()
            for task in self._tasks:
                task.cancel()
        return Outcome(
            measured=[self._measured[request.request_id] for request in self._batch.measured],
            others=self._others,
            fillers=self._fillers,
        )

    def _in_order(self) -> Iterator[tuple[_Part, Planned]]:
        batch = self._batch
        yield from (("warm-up", request) for request in batch.warmup)
        yield from (("measured", request) for request in batch.measured)
        yield from (("filler", request) for request in batch.fillers)

    async def _send(self, group: asyncio.TaskGroup, seed: int) -> None:
        loop = asyncio.get_running_loop()
        began_seconds = loop.time()
        due = self._load.due_seconds(seed)
        for (part, request), due_seconds in zip(self._in_order(), due, strict=False):
            early_seconds = began_seconds + due_seconds - loop.time()
            if early_seconds > 0:
                await asyncio.sleep(early_seconds)
            await self._free.acquire()
            if self._over.is_set():
                return
            self._fillers += part == "filler"
            self._tasks.append(group.create_task(self._one(part, request)))

    async def _one(self, part: _Part, request: Planned) -> None:
        measured = await self._measure(request)
        if part == "measured":
            self._measured[request.request_id] = measured
        else:
            self._others.append(measured)
        if len(self._measured) == len(self._batch.measured):
            self._over.set()
        # A server that refuses everything is not asked without end: no other filler follows a
        # failed one.
        if part != "filler" or not measured.record.failed:
            self._free.release()
