"""llmperf on Ray as a load engine: its actors, and what they measured.

One actor carries one request at a time, as in llmperf itself. Load shapes are those of the asyncio
engine, which drives actors here instead of sockets: what is sent, when, and what is recorded is the
same. Nothing in this module needs Ray; `pods/measuring/ray_engine.py` does.

llmperf's pool hands out results only when every request of a pool has ended (its commit f1d6bed),
and drops a request for which no actor is free. So every actor has a launcher of its own, as in
llmperf's own benchmark, and gets the next request when the last one has ended.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

import ray
from llmperf.models import RequestConfig
from llmperf.ray_llm_client import LLMClient
from llmperf.requests_launcher import RequestsLauncher
from ray.exceptions import RayError

from draftworth.errors import DraftworthError
from draftworth.measuring.client import (
    ERROR_LOST_ACTOR,
    Client,
    Measured,
    max_tokens_of,
    unexpected,
)
from draftworth.measuring.clock import raise_scheduling_class
from draftworth.measuring.load import Batch, Outcome, Planned, keep_load
from draftworth.records.load import Load
from draftworth.records.results import RequestRecord
from draftworth.records.transcripts import Transcript

_NOTICEABLE_WAIT_SECONDS = 0.005

Progress = Callable[[str], None]


class Actor(Protocol):
    """Carries one request at a time, in a process of its own."""

    def measure(self, client: Client, request: Planned) -> Measured | None:
        """Block until the request has ended; whatever happens is a record, but None for one that
        was cancelled."""

    def cancel(self, request: Planned) -> None:
        """Have `measure` return soon, if it still carries this request; does not block."""


@dataclass(frozen=True, kw_only=True)
class _ThroughActors:
    """Measures in whichever actor is idle. Notes how long requests had to wait.

    cancelled: requests that an actor has been asked to end, and may still carry.
    """

    client: Client
    idle: asyncio.Queue[Actor]
    threads: ThreadPoolExecutor
    waits_seconds: list[float] = field(default_factory=list)
    cancelled: list[asyncio.Future[Measured | None]] = field(default_factory=list)

    async def measure(self, request: Planned) -> Measured:
        """Send one request. A failure is a record with its reason, never an exception."""
        asked_seconds = time.monotonic()
        actor = await self.idle.get()
        self.waits_seconds.append(time.monotonic() - asked_seconds)
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
        assert measured  # noqa: S101 (for the type checker: nobody cancelled it)
        return measured

    async def last_answers(self) -> list[Measured]:
        """Wait for the actors that were asked to end a request; of those that ended before."""
        answers = await asyncio.gather(*self.cancelled, return_exceptions=True)
        return [answer for answer in answers if isinstance(answer, Measured)]


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

    async def send(self, client: Client, batch: Batch, load: Load, *, seed: int) -> Outcome:
        """Send a batch as the asyncio engine does, and return when every actor is idle again.

        Raises:
            ValueError: the load wants more requests in flight than there are actors.
        """
        in_flight = load.needed_in_flight
        if in_flight > self._count:
            raise ValueError(f"{in_flight} requests in flight need as many actors: {self._count}")
        through = _ThroughActors(client=client, idle=self._idle, threads=self._threads)
        try:
            outcome = await keep_load(through.measure, batch, load, seed=seed)
            late = await through.last_answers()
        except asyncio.CancelledError:
            # The run is over: nobody waits for the threads, and they have no loop to report to.
            for carried in through.cancelled:
                carried.cancel()
            raise
        self._report_waits(through.waits_seconds)
        return replace(outcome, others=[*outcome.others, *late])

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
        seed=request.seed,
        started_at_unix_s=started_at_unix_s,
        chunks=0,
        usage_source="none",
    )
    return Measured(record=record, transcript=Transcript(request_id=request.request_id))


# Ray's smallest; results are a few kilobytes and travel with the reply.
OBJECT_STORE_BYTES: Final = 80 * 1024 * 1024
# Ray keeps an idle process for each of its CPUs; the actors here ask for none.
LOCAL_CPUS: Final = 1
# A share of a core, so that a cluster's autoscaler sees a demand; a client sleeps nearly always.
CLUSTER_ACTOR_CPUS: Final = 0.1
START_DEADLINE_SECONDS: Final = 300.0
RESTART_DEADLINE_SECONDS: Final = 60.0

# What the actors import from.
_ROOT = Path(__file__).resolve().parents[2]

_CLIENT = "draftworth_client"
_REQUEST = "draftworth_request"
_MEASURED = "draftworth_measured"
# With a group beside the default one, Ray gives each a thread of its own.
_CONTROL = "control"


class MeasuringClient(LLMClient):  # type: ignore[misc]  # llmperf has no types
    """Measures with the client that comes with each request.

    One thread measures, another one takes what concerns the request that is being measured.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._measuring: dict[str, asyncio.Task[Measured]] = {}

    def scheduling(self) -> str:
        """The class that requests are measured in; an answer also means that the actor is ready.

        Asked for here, because it is that of the thread which measures.
        """
        return raise_scheduling_class()

    def llm_request(self, request_config: Any) -> tuple[dict[str, Any], str, Any]:
        """Measure one request, the way llmperf asks for it."""
        client: Client = request_config.metadata[_CLIENT]
        request: Planned = request_config.metadata[_REQUEST]
        measuring = self._loop.create_task(
            client.measure(request.prompt, request_id=request.request_id, seed=request.seed)
        )
        self._measuring = {request.request_id: measuring}
        try:
            measured = self._loop.run_until_complete(measuring)
        except asyncio.CancelledError:
            return {_MEASURED: None}, "", request_config
        return {_MEASURED: measured}, measured.transcript.text, request_config

    @ray.method(concurrency_group=_CONTROL)  # type: ignore[untyped-decorator]
    def cancel(self, request_id: str) -> None:
        """End this request; any other one is left alone."""
        self._loop.call_soon_threadsafe(self._cancel, request_id)

    def _cancel(self, request_id: str) -> None:
        if measuring := self._measuring.get(request_id):
            measuring.cancel()


class LaunchedActor:
    """One actor behind a launcher of llmperf."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self._launcher = RequestsLauncher([handle])

    def measure(self, client: Client, request: Planned) -> Measured | None:
        """Block until the request has ended; a lost actor is a record, and Ray restarts it."""
        started_at_unix_s = client.wall_clock()
        try:
            self._launcher.launch_requests(request_config(client, request))
            ((metrics, _, _),) = self._launcher.get_next_ready()
        except RayError as error:
            self._await_restart()
            return lost_request(request, started_at_unix_s, type(error).__name__)
        measured: Measured | None = metrics[_MEASURED]
        return measured

    def cancel(self, request: Planned) -> None:
        """Ask the actor to end this request."""
        self.handle.cancel.remote(request.request_id)

    def _await_restart(self) -> None:
        """So that the next request is not lost too."""
        with suppress(RayError):
            ray.get(self.handle.scheduling.remote(), timeout=RESTART_DEADLINE_SECONDS)


def request_config(client: Client, request: Planned) -> Any:
    """A request in llmperf's form, for its launcher alone: the client has the prompt.

    The prompt's length is 0: only the server counts it.
    """
    return RequestConfig(
        model=client.shape.model,
        prompt=(request.prompt.id, 0),
        sampling_params={"max_tokens": max_tokens_of(client.shape, request.prompt)},
        metadata={_CLIENT: client, _REQUEST: request},
    )


class RayActors:
    """Actors on a Ray that is started here, or on the cluster at an address."""

    def __init__(self, count: int, address: str | None) -> None:
        """Returns when all are ready.

        Raises:
            DraftworthError: Ray did not start, or did not start the actors in time.
        """
        self._folder = None if address else tempfile.mkdtemp(prefix="ray-")
        self.actors: Sequence[LaunchedActor] = ()
        try:
            self._init_ray(address)
            cpus = CLUSTER_ACTOR_CPUS if address else 0
            self.actors = _create(count, cpus)
            self.scheduling = self._ready_scheduling(address)
        except BaseException:
            self.end_actors()
            self.close()
            raise

    def _init_ray(self, address: str | None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            if self._folder is None:
                ray.init(address=address, log_to_driver=False)
            else:
                _start_local(self._folder)
        except (RayError, OSError, RuntimeError, ValueError) as error:
            raise DraftworthError(
                f"Ray at {address or 'this machine'} cannot be used: {error}; next: check the "
                "address, or load_generator asyncio"
            ) from error

    def _ready_scheduling(self, address: str | None) -> str:
        asked = [actor.handle.scheduling.remote() for actor in self.actors]
        try:
            answers = ray.get(asked, timeout=START_DEADLINE_SECONDS)
        except RayError as error:
            raise DraftworthError(
                f"Ray at {address or 'this machine'} did not start {len(asked)} actors within "
                f"{START_DEADLINE_SECONDS:g} s: {error}\n"
                f"A cluster must have {CLUSTER_ACTOR_CPUS} CPU for each, and the load generator's "
                "own image on every node."
            ) from error
        return " or ".join(sorted(set(answers)))

    def end_actors(self) -> None:
        """End every actor at once, whatever it measures."""
        for actor in self.actors:
            with suppress(RayError):
                ray.kill(actor.handle)

    def close(self) -> None:
        """Leave Ray, or end it where it was started here. No thread may still call an actor.

        A call after this would start another Ray.
        """
        ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _start_local(folder: str) -> None:
    """Ray with everything it writes below `folder`; it needs neither /dev/shm nor this HOME."""
    path = os.pathsep.join([str(_ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    with _environment(HOME=folder, PYTHONPATH=path.rstrip(os.pathsep)):
        ray.init(
            address="local",
            num_cpus=LOCAL_CPUS,
            num_gpus=0,
            object_store_memory=OBJECT_STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            _temp_dir=folder,
            _plasma_directory=folder,
        )


def _create(count: int, cpus: float) -> list[LaunchedActor]:
    remote = ray.remote(concurrency_groups={_CONTROL: 1})(MeasuringClient).options(
        num_cpus=cpus,
        max_restarts=-1,  # a lost process costs the request that it had, never the load
        max_task_retries=0,  # a request is sent once
        scheduling_strategy="SPREAD",
    )
    return [LaunchedActor(remote.remote()) for _ in range(count)]


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Processes that are started inside have these variables."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
