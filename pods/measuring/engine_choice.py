"""The load engine that the experiment names: llmperf's library on Ray, or one asyncio process.

Ray is imported only when an engine on Ray is opened.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from draftworth.errors import UserInputError
from draftworth.measuring.clock import raise_scheduling_class
from draftworth.measuring.load_engines import AsyncioEngine, LoadEngine
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.server_lifecycle import Progress
from pods.measuring.actor_count import actors_needed
from pods.measuring.ray_engine import why_not_llmperf


@contextmanager
def open_engine(
    ray_address: str | None, spec: RunSpec, progress: Progress
) -> Iterator[tuple[LoadEngine, str]]:
    """Yield the engine that sends a run's requests, and the scheduling class of its threads.

    The class is Linux's, in words, such as `ordinary` with the reason why it is not real-time.
    It raises UserInputError if the engine that the experiment names cannot be used on this machine.
    ray_address: the address of a Ray cluster; None: Ray is started in this pod.
    """
    if spec.load_generator == "asyncio":
        if ray_address:
            raise UserInputError(
                f"--ray-address: given {ray_address} for an experiment with load_generator "
                "asyncio; allowed: with load_generator llmperf"
            )
        progress("load generator: asyncio")
        yield AsyncioEngine(), raise_scheduling_class()
        return
    if reason := why_not_llmperf(spec, ray_address):
        raise UserInputError(
            f"load_generator llmperf: {reason}; next: load_generator asyncio needs no Ray"
        )
    from pods.measuring.ray_actors import ray_engine

    count, before_seconds = actors_needed(spec, ray_address), time.monotonic()
    with ray_engine(count, ray_address, progress) as (engine, _, scheduling):
        progress(
            f"load generator: llmperf on Ray, {ray_address or 'in this pod'}, {count} actors "
            f"({scheduling}), ready in {time.monotonic() - before_seconds:.1f} s"
        )
        yield engine, scheduling
