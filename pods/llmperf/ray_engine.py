"""The load engine that drives llmperf's own library on Ray, and the choice between engines.

One actor carries one request at a time, as in llmperf itself. Load shapes are those of the asyncio
engine, which drives actors here instead of sockets: what is sent, when, and what is recorded is the
same. Nothing in this module needs Ray; `pods/llmperf/ray_actors.py` does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Literal, Protocol

from draftworth.errors import UserInputError
from draftworth.measuring.client import ERROR_LOST_ACTOR, Client, Measured
from draftworth.measuring.load import AsyncioEngine, LoadEngine, Planned
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.scheduling import raise_scheduling_class
from draftworth.records.load import Load
from draftworth.records.prompts import Prompt
from draftworth.records.results import RequestRecord

EngineChoice = Literal["auto", "ray", "asyncio"]
ENGINES: tuple[EngineChoice, ...] = ("auto", "ray", "asyncio")

# An actor is a process of about 50 MiB beside 400 MiB for Ray itself, and takes half a second of
# two cores to start: so many fit into half of the pod's memory.
MAX_LOCAL_ACTORS = 32

_NEEDED_MODULES = ("ray", "llmperf.requests_launcher")
_NOTICEABLE_WAIT_SECONDS = 0.005

Progress = Callable[[str], None]


class Actor(Protocol):
    """Carries one request at a time, in a process of its own."""

    def measure(self, client: Client, request: Planned) -> Measured:
        """Block until the request is measured; whatever happens is a record."""


class Actors(Protocol):
    """Actors that are ready, until they are closed."""

    @property
    def actors(self) -> Sequence[Actor]:
        """Every one of them."""

    @property
    def scheduling(self) -> str:
        """The scheduling class that requests are measured in."""

    def end_actors(self) -> None:
        """End every actor at once, whatever it measures."""

    def close(self) -> None:
        """Leave Ray, or end it where it was started here. No thread may still call an actor."""


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
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self.threads, actor.measure, self.sender, request)
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
        self._tell_waits(through.waits_seconds)
        return measured

    def close(self) -> None:
        """Wait for the threads; actors that still measure have been ended before."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _tell_waits(self, waits_seconds: Sequence[float]) -> None:
        late = [wait for wait in waits_seconds if wait > _NOTICEABLE_WAIT_SECONDS]
        if late:
            self._progress(
                f"{len(late)} of {len(waits_seconds)} requests were sent late, by up to "
                f"{max(late):.2f} s, because all {self._count} actors were busy; the asyncio "
                "engine or a Ray cluster has no such limit"
            )


@contextmanager
def open_engine(
    choice: EngineChoice, ray_address: str | None, spec: RunSpec, progress: Progress
) -> Iterator[tuple[LoadEngine, str]]:
    """The engine to use, with the scheduling class that its requests are measured in.

    Raises:
        UserInputError: the engine asked for cannot be had here.
        DraftworthError: Ray did not start, or its cluster has no room.
    """
    if choice == "asyncio" and ray_address:
        raise UserInputError(
            f"--ray-address: given {ray_address} with --engine asyncio; allowed: with ray or auto"
        )
    reason = why_not_ray(spec, ray_address) if choice != "asyncio" else "asked for"
    if reason and (choice == "ray" or ray_address):
        raise UserInputError(f"--engine ray: {reason}; next: --engine asyncio needs no Ray")
    if reason:
        progress(f"engine: asyncio ({reason})")
        yield AsyncioEngine(), raise_scheduling_class()
        return
    with _ray_engine(actors_needed(spec, ray_address), ray_address, progress) as opened:
        yield opened


def start_actors(count: int, ray_address: str | None) -> Actors:
    """Start Ray, or join it, and `count` actors."""
    from pods.llmperf.ray_actors import RayActors

    return RayActors(count, ray_address)


@contextmanager
def _ray_engine(
    count: int, ray_address: str | None, progress: Progress
) -> Iterator[tuple[LoadEngine, str]]:
    before_seconds = time.monotonic()
    actors = start_actors(count, ray_address)
    engine = RayEngine(actors.actors, progress)
    progress(
        f"engine: llmperf on Ray, {ray_address or 'in this pod'}, {count} actors "
        f"({actors.scheduling}), ready in {time.monotonic() - before_seconds:.1f} s"
    )
    try:
        yield engine, actors.scheduling
    finally:
        actors.end_actors()
        engine.close()
        actors.close()


def why_not_ray(
    spec: RunSpec, ray_address: str | None, *, find: Callable[[str], object] = find_spec
) -> str:
    """Why the Ray engine cannot be used for a run, empty if it can."""
    missing = [name for name in _NEEDED_MODULES if not _is_found(name, find)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    count = actors_needed(spec, ray_address)
    if ray_address is None and count > MAX_LOCAL_ACTORS:
        return (
            f"{count} requests in flight are {count} processes, and one machine gets at most "
            f"{MAX_LOCAL_ACTORS}; --ray-address names a cluster that carries more"
        )
    return ""


def _is_found(name: str, find: Callable[[str], object]) -> bool:
    try:
        return find(name) is not None
    except ModuleNotFoundError:  # of the parent package
        return False


def actors_needed(spec: RunSpec, ray_address: str | None) -> int:
    """Most requests that the run can have in flight at once, over all its loads.

    A load that could have a whole block in flight, and need not, gets on one machine what fits in
    `MAX_LOCAL_ACTORS`; how many requests had to wait for an actor is reported.
    """
    at_once = len(spec.endpoints) if spec.parallel else 1
    block = max(spec.sampling.requests_per_round, spec.sampling.warmup_requests)
    room = block if ray_address else MAX_LOCAL_ACTORS // at_once
    in_flight = (
        max(load.needed_in_flight(block), min(load.most_in_flight(block), room))
        for load in spec.loads
    )
    return max(1, at_once * max(in_flight))


def lost_request(request: Planned, started_at_unix_s: float, reason: str) -> Measured:
    """The record of a request whose actor ended before it could tell."""
    record = RequestRecord(
        error_code=ERROR_LOST_ACTOR,
        error_msg=f"the actor of this request was lost: {reason}",
        inter_token_latency_s=None,
        ttft_s=None,
        end_to_end_latency_s=None,
        request_output_throughput_token_per_s=None,
        number_total_tokens=None,
        number_output_tokens=None,
        number_input_tokens=None,
        request_id=request.request_id,
        prompt_id=request.prompt.id,
        started_at_unix_s=started_at_unix_s,
        tokens_per_step=None,
        first_chunk_tokens=None,
        chunks=0,
        usage_source="none",
        finish_reason=None,
        output_sha256=None,
        run_queue_wait_s=None,
        excluded=None,
        llmperf_inter_token_latency_s=None,
    )
    return Measured(record=record, text="", chunk_offsets_us=(), chunk_tokens=None)
