"""Runs this project's HTTP client in Ray actors, behind llmperf's interface.

llmperf's pool of actors returns results only when all its requests have ended (commit f1d6bed), and
drops a request for which no actor is free. So every actor has a launcher of its own, as in
llmperf's own benchmark, and gets its next request when its previous one has ended. To import this
module, Ray and llmperf must be installed.
"""

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import ray
from llmperf.models import RequestConfig
from llmperf.ray_llm_client import LLMClient
from llmperf.requests_launcher import RequestsLauncher
from ray.exceptions import RayError

from draftworth.errors import DraftworthError
from draftworth.measuring.clock import raise_scheduling_class
from draftworth.measuring.load_engines import Planned
from draftworth.measuring.server_lifecycle import Progress
from draftworth.measuring.streamed_request import Client, Measured, max_tokens_of
from pods.measuring.ray_engine import RayEngine, lost_request

# The smallest object store that Ray accepts. It is enough: a result has a few kilobytes, and Ray
# returns so small a result in the reply to the call and not through the store.
OBJECT_STORE_BYTES: Final = 80 * 1024 * 1024
# Ray keeps an idle process for each of its CPUs, so it gets only one. More are not needed, because
# actors on this machine reserve no CPU.
LOCAL_CPUS: Final = 1
# The CPUs that an actor reserves on a Ray cluster: more than 0, so that the cluster's autoscaler
# sees a demand, but few, because an actor nearly always waits for its server.
CLUSTER_ACTOR_CPUS: Final = 0.1
START_DEADLINE_SECONDS: Final = 300.0
RESTART_DEADLINE_SECONDS: Final = 60.0

# The folder from which the actors import this project.
_ROOT = Path(__file__).resolve().parents[2]

_CLIENT = "draftworth_client"
_REQUEST = "draftworth_request"
_MEASURED = "draftworth_measured"
# The name of a Ray concurrency group. Ray runs its calls in another thread of the actor than all
# other calls, which are in the default group.
_CONTROL = "control"


class MeasuringClient(LLMClient):  # type: ignore[misc]  # llmperf has no types
    """A Ray actor that measures each request with the HTTP client that is sent with the request.

    One thread measures, and another thread runs `cancel` for the request that is being measured.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._measuring: dict[str, asyncio.Task[Measured]] = {}

    def scheduling(self) -> str:
        """Ask Linux for real-time scheduling of the thread that measures; return what it got.

        An answer to this call also shows that the actor is ready.
        """
        return raise_scheduling_class()

    def llm_request(self, request_config: Any) -> tuple[dict[str, Any], str, Any]:
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
        """Cancel this request if it is being measured; no other request is cancelled."""
        self._loop.call_soon_threadsafe(self._cancel, request_id)

    def _cancel(self, request_id: str) -> None:
        if measuring := self._measuring.get(request_id):
            measuring.cancel()


class LaunchedActor:
    """Sends requests to one actor, through a launcher of llmperf."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self._launcher = RequestsLauncher([handle])

    def measure(self, client: Client, request: Planned) -> Measured | None:
        """Send the request, wait for its end and return its record, or None if it was cancelled.

        If the actor was lost, the record says so.
        """
        started_at_unix_s = client.wall_clock()
        # llmperf's launcher needs the first three fields; our client reads only `metadata`.
        config = RequestConfig(
            model=client.shape.model,
            prompt=(request.prompt.id, 0),
            sampling_params={"max_tokens": max_tokens_of(client.shape, request.prompt)},
            metadata={_CLIENT: client, _REQUEST: request},
        )
        try:
            self._launcher.launch_requests(config)
            ((metrics, _, _),) = self._launcher.get_next_ready()
        except RayError as error:
            with suppress(RayError):
                ray.get(self.handle.scheduling.remote(), timeout=RESTART_DEADLINE_SECONDS)
            return lost_request(request, started_at_unix_s, type(error).__name__)
        measured: Measured | None = metrics[_MEASURED]
        return measured

    def cancel(self, request: Planned) -> None:
        self.handle.cancel.remote(request.request_id)


@contextmanager
def ray_engine(
    count: int, address: str | None, progress: Progress
) -> Iterator[tuple[RayEngine, Sequence[LaunchedActor], str]]:
    """Start Ray here, or connect to the cluster at `address`, and create `count` actors.

    When all actors are ready, yield the engine, the actors, and the scheduling class of the threads
    that send requests. It raises DraftworthError if Ray or the actors cannot be used.
    """
    where = address or "this machine"
    with ExitStack() as ends:
        ends.callback(ray.shutdown)
        try:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            if address:
                ray.init(address=address, log_to_driver=False)
            else:
                folder = TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True)
                _start_local(ends.enter_context(folder))
        except (RayError, OSError, RuntimeError, ValueError) as error:
            raise DraftworthError(
                f"Ray at {where} cannot be used: {error}; next: check the address, or "
                "load_generator asyncio"
            ) from error
        actors = _create(count, CLUSTER_ACTOR_CPUS if address else 0)
        engine = RayEngine(actors, progress)
        # These run in reverse order, so that no thread calls an actor after `ray.shutdown`: that
        # call would start Ray again.
        ends.callback(engine.close)
        ends.callback(_end, actors)
        yield engine, actors, _ready_scheduling(actors, where)


def _ready_scheduling(actors: Sequence[LaunchedActor], where: str) -> str:
    pending = [actor.handle.scheduling.remote() for actor in actors]
    try:
        answers = ray.get(pending, timeout=START_DEADLINE_SECONDS)
    except RayError as error:
        raise DraftworthError(
            f"Ray at {where} did not start {len(pending)} actors within "
            f"{START_DEADLINE_SECONDS:g} s: {error}\n"
            f"A cluster must have {CLUSTER_ACTOR_CPUS} CPU for each, and the measuring Job's "
            "own image on every node."
        ) from error
    return " or ".join(sorted(set(answers)))


def _end(actors: Sequence[LaunchedActor]) -> None:
    for actor in actors:
        with suppress(RayError):
            ray.kill(actor.handle)


def _start_local(folder: str) -> None:
    """Start Ray, which writes below `folder` only, and not to /dev/shm or to HOME."""
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
        max_restarts=-1,  # a lost process fails one request and is started again
        max_task_retries=0,  # a request is sent once
        scheduling_strategy="SPREAD",
    )
    return [LaunchedActor(remote.remote()) for _ in range(count)]


@contextmanager
def _environment(**values: str) -> Iterator[None]:
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
