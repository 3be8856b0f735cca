"""Load engines send a block's requests, and keep the load constant while it is measured.

`AsyncioEngine` sends from one process; the measuring Job's pod may use llmperf on Ray instead
(`pods/measuring/ray_engine.py`). Both send with `keep_load` and the same client.

The load is complete from the first measured request until the last measured request has ended:
measured requests start when warm-up requests end, and fillers, which are not measured, are sent
after them until that moment. Then the fillers in flight are cancelled
(`docs/decisions/0014-whole-loads.md`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from draftworth.measuring.streamed_request import Client, Measured
from draftworth.records.load_shapes import Load
from draftworth.records.prompt_files import Prompt


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One request to be sent. seed: the seed with which the server samples the output."""

    request_id: str
    prompt: Prompt
    seed: int


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The requests of one block, in the order in which they are sent.

    fillers: requests that are not measured, and that keep the load complete until the last measured
        request has ended; there may be infinitely many.
    """

    warmup: Sequence[Planned] = ()
    measured: Sequence[Planned]
    fillers: Iterable[Planned] = ()


@dataclass(frozen=True, kw_only=True)
class SentBatch:
    """The results of a batch; `measured` has the order of `Batch.measured`.

    unmeasured: the results of warm-up requests and fillers that ended before they were cancelled.
    fillers: the number of fillers that were sent.
    """

    measured: Sequence[Measured]
    unmeasured: Sequence[Measured]
    fillers: int


class LoadEngine(Protocol):
    """Sends the requests of a block at a given load."""

    async def send(self, client: Client, batch: Batch, load: Load, *, seed: int) -> SentBatch:
        """Send a batch; a failed request gets a record too. seed: for random arrival times."""


Measure = Callable[[Planned], Awaitable[Measured]]


class AsyncioEngine:
    """Sends all requests from one event loop."""

    async def send(self, client: Client, batch: Batch, load: Load, *, seed: int) -> SentBatch:
        async def measure(request: Planned) -> Measured:
            return await client.measure(
                request.prompt, request_id=request.request_id, seed=request.seed
            )

        return await keep_load(measure, batch, load, seed=seed)


async def keep_load(measure: Measure, batch: Batch, load: Load, *, seed: int) -> SentBatch:
    """Call `measure` for each request of a batch, at the times and the concurrency of a load.

    measure: sends one request, measures it, and returns a failure as a record.
    seed: the seed of random arrival times.
    """
    return await _Sending(measure, batch, load).run(seed)


_RequestKind = Literal["warm-up", "measured", "filler"]


class _Sending:
    def __init__(self, measure: Measure, batch: Batch, load: Load) -> None:
        self._measure, self._batch, self._load = measure, batch, load
        most = load.in_flight or len(batch.warmup) + len(batch.measured)
        self._free = asyncio.Semaphore(most)
        self._tasks: list[asyncio.Task[None]] = []
        self._measured: dict[str, Measured] = {}
        self._unmeasured: list[Measured] = []
        self._fillers = 0
        self._over = asyncio.Event()
        if not batch.measured:
            self._over.set()

    async def run(self, seed: int) -> SentBatch:
        async with asyncio.TaskGroup() as group:
            self._tasks.append(group.create_task(self._send(group, seed)))
            await self._over.wait()
            for task in self._tasks:
                task.cancel()
        return SentBatch(
            measured=[self._measured[request.request_id] for request in self._batch.measured],
            unmeasured=self._unmeasured,
            fillers=self._fillers,
        )

    def _in_order(self) -> Iterator[tuple[_RequestKind, Planned]]:
        batch = self._batch
        yield from (("warm-up", request) for request in batch.warmup)
        yield from (("measured", request) for request in batch.measured)
        yield from (("filler", request) for request in batch.fillers)

    async def _send(self, group: asyncio.TaskGroup, seed: int) -> None:
        loop = asyncio.get_running_loop()
        began_seconds = loop.time()
        due = self._load.due_seconds(seed)
        for (kind, request), due_seconds in zip(self._in_order(), due, strict=False):
            early_seconds = began_seconds + due_seconds - loop.time()
            if early_seconds > 0:
                await asyncio.sleep(early_seconds)
            await self._free.acquire()
            if self._over.is_set():
                return
            self._fillers += kind == "filler"
            self._tasks.append(group.create_task(self._one(kind, request)))

    async def _one(self, kind: _RequestKind, request: Planned) -> None:
        measured = await self._measure(request)
        if kind == "measured":
            self._measured[request.request_id] = measured
        else:
            self._unmeasured.append(measured)
        if len(self._measured) == len(self._batch.measured):
            self._over.set()
        # A failed filler is not followed by another one: otherwise a server that refuses every
        # request would get requests without end.
        if kind != "filler" or not measured.record.failed:
            self._free.release()
