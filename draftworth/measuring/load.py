"""Load shapes, and the engine that drives them on one machine.

A load engine sends planned requests with one client in a given shape and gives back what was
measured, in the order of the plan. `AsyncioEngine` is the one that needs nothing; the Job's pod may
use llmperf's on Ray (`pods/llmperf/ray_engine.py`). Both call the same client.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from draftworth.measuring.client import Client, Measured
from draftworth.records.prompts import Prompt
from draftworth.records.results import Load


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One request to be sent."""

    request_id: str
    prompt: Prompt


class LoadEngine(Protocol):
    """Sends requests in a load shape."""

    async def send(
        self, client: Client, planned: Sequence[Planned], load: Load, *, seed: int
    ) -> list[Measured]:
        """Measure every planned request; a failed one is a record too."""


class AsyncioEngine:
    """All requests from one event loop."""

    async def send(
        self, client: Client, planned: Sequence[Planned], load: Load, *, seed: int
    ) -> list[Measured]:
        """Measure every planned request; `seed` draws the gaps of a Poisson load."""
        if load.kind == "poisson":
            return await _poisson(client, planned, load, seed=seed)
        return await _concurrent(client, planned, load.concurrency)


async def _concurrent(
    client: Client, planned: Sequence[Planned], concurrency: int
) -> list[Measured]:
    """Keep `concurrency` requests in flight until all are sent."""
    measured: dict[int, Measured] = {}
    queue = iter(enumerate(planned))

    async def worker(queue: Iterator[tuple[int, Planned]]) -> None:
        for index, request in queue:
            measured[index] = await client.measure(request.prompt, request_id=request.request_id)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, len(planned))):
            group.create_task(worker(queue))
    return [measured[index] for index in sorted(measured)]


async def _poisson(
    client: Client, planned: Sequence[Planned], load: Load, *, seed: int
) -> list[Measured]:
    """Send at exponential gaps whatever is still in flight; the same gaps for every variant."""
    loop = asyncio.get_running_loop()
    due_seconds = loop.time()
    tasks: list[asyncio.Task[Measured]] = []
    async with asyncio.TaskGroup() as group:
        for request, gap_seconds in zip(planned, poisson_gaps(load, seed), strict=False):
            due_seconds += gap_seconds
            await asyncio.sleep(due_seconds - loop.time())
            measuring = client.measure(request.prompt, request_id=request.request_id)
            tasks.append(group.create_task(measuring))
    return [task.result() for task in tasks]


def poisson_gaps(load: Load, seed: int) -> Iterator[float]:
    """Seconds between arrivals of a Poisson process, without end."""
    if load.requests_per_second is None:
        raise ValueError("a Poisson load has requests_per_second")
    generator = random.Random(seed)  # noqa: S311 (reproducible arrivals, not a secret)
    while True:
        yield generator.expovariate(load.requests_per_second)
