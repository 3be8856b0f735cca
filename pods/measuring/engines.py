"""The load engine that the experiment names: llmperf's library on Ray, or one asyncio process.

Ray is imported only when an engine on Ray is opened.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from draftworth.errors import UserInputError
from draftworth.measuring.clock import raise_scheduling_class
from draftworth.measuring.load_engines import AsyncioEngine, LoadEngine
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.server_lifecycle import Progress
from draftworth.records.load_shapes import MAX_LLMPERF_IN_FLIGHT

_NEEDED_MODULES = ("ray", "llmperf")


@contextmanager
def open_engine(
    ray_address: str | None, spec: RunSpec, progress: Progress
) -> Iterator[tuple[LoadEngine, str]]:
    """Yield the engine of a run, and the scheduling class of the threads that send requests.

    It raises UserInputError if that engine cannot be used on this machine.
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


def why_not_llmperf(
    spec: RunSpec, ray_address: str | None, *, find: Callable[[str], object] = find_spec
) -> str:
    """Return why this machine cannot run llmperf for the run; an empty text if it can."""
    missing = [name for name in _NEEDED_MODULES if find(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    count = actors_needed(spec, ray_address)
    if ray_address is None and count > MAX_LLMPERF_IN_FLIGHT:
        return (
            f"{count} requests in flight are {count} processes, and one machine gets at most "
            f"{MAX_LLMPERF_IN_FLIGHT}; --ray-address names a cluster that carries more"
        )
    return ""


def actors_needed(spec: RunSpec, ray_address: str | None) -> int:
    """Return the number of actors: the most requests that a run may have in flight, at any load.

    A Poisson load can, but rarely does, have a whole block in flight, so on one machine it gets at
    most `MAX_LLMPERF_IN_FLIGHT` actors. The engine reports how many requests waited for an actor.
    """
    at_once = len(spec.endpoints) if spec.parallel else 1
    block = spec.sampling.requests_per_round + spec.sampling.warmup_requests
    room = block if ray_address else MAX_LLMPERF_IN_FLIGHT // at_once
    in_flight = (load.in_flight or max(1, min(block, room)) for load in spec.loads)
    return max(1, at_once * max(in_flight))
