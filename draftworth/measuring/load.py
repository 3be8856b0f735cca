"""The load engine that sends from one process, and what every load engine does.

A load engine sends planned requests with one client in a given shape and gives back what was
measured, in the order of the plan. `AsyncioEngine` is the one that needs nothing; the Job's pod may
use llmperf's on Ray (`pods/llmperf/ray_engine.py`). Both call the same client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from draftworth.measuring.client import Client, Measured
from draftworth.records.load import Load
from draftworth.records.prompts import Prompt


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
        """Measure every planned request when the load says so; `seed` draws what is random."""
        loop = asyncio.get_running_loop()
        began_seconds = loop.time()
        measured: dict[int, Measured] = {}
        queue = enumerate(zip(planned, load.due_seconds(seed), strict=False))

        async def worker() -> None:
            for index, (request, due_seconds) in queue:
                early_seconds = began_seconds + due_seconds - loop.time()
                if early_seconds > 0:
                    await asyncio.sleep(early_seconds)
                measured[index] = await client.measure(
                    request.prompt, request_id=request.request_id
                )

        async with asyncio.TaskGroup() as group:
            for _ in range(load.most_in_flight(len(planned))):
                group.create_task(worker())
        return [measured[index] for index in sorted(measured)]
