"""The Ray engine with fake actors, which are threads and need no Ray; the choice of an engine."""

import asyncio
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from draftworth.errors import UserInputError
from draftworth.measuring.load_engines import AsyncioEngine, Batch, LoadEngine, Planned, SentBatch
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.streamed_request import (
    ERROR_LOST_ACTOR,
    ERROR_UNEXPECTED,
    Client,
    Measured,
)
from draftworth.records.load_shapes import (
    MAX_LLMPERF_IN_FLIGHT,
    ConcurrencyLoad,
    Load,
    LoadGenerator,
    PoissonLoad,
)
from draftworth.records.prompt_files import Prompt
from pods.measuring import engine_choice
from pods.measuring.engine_choice import open_engine
from pods.measuring.ray_engine import RayEngine, lost_request, why_not_llmperf
from tests.support.specifications import endpoint, sampling, shape, specification
from tests.support.waiting import HANGS_AFTER_SECONDS

SHAPE = shape(output_tokens=2)
CLIENT = Client(base_url="http://127.0.0.1:9", shape=SHAPE)
POISSON = PoissonLoad(requests_per_second=200.0)


def concurrency(count: int) -> Load:
    return ConcurrencyLoad(concurrency=count)


def planned(count: int) -> list[Planned]:
    prompt = Prompt(id="p", messages=({"role": "user", "content": "x"},))
    return [Planned(request_id=f"r{index}", prompt=prompt, seed=index) for index in range(count)]


FILLER = replace(planned(1)[0], request_id="filler")


def spec(
    *loads: Load,
    requests: int = 8,
    endpoints: int = 2,
    parallel: bool = False,
    load_generator: LoadGenerator = "llmperf",
) -> RunSpec:
    return specification(
        tuple(endpoint(f"v{n}", n, is_baseline=n == 0) for n in range(endpoints)),
        shape=SHAPE,
        loads=loads,
        load_generator=load_generator,
        sampling=sampling(
            requests_per_round=requests,
            min_requests=requests,
            max_requests=requests,
            warmup_requests=1,
        ),
        parallel=parallel,
    )


@dataclass
class Watch:
    """Counts how many fake actors work at once."""

    now: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class FakeActor:
    """An actor that takes `seconds` for a request, and loses those whose id is in `loses`.

    watch: counts how many actors work at once.
    """

    watch: Watch
    seconds: float = 0.01
    busy: bool = False
    loses: frozenset[str] = frozenset()
    started: threading.Event = field(default_factory=threading.Event)
    cancelled: threading.Event = field(default_factory=threading.Event)

    def measure(self, client: Client, request: Planned) -> Measured | None:
        assert not self.busy, "llmperf drops a request that finds no free actor"
        assert client == CLIENT
        self.busy = True
        self.started.set()
        with self.watch.lock:
            self.watch.now += 1
            self.watch.most = max(self.watch.most, self.watch.now)
        cancelled = self.cancelled.wait(self.seconds)
        self.cancelled.clear()
        with self.watch.lock:
            self.watch.now -= 1
        self.busy = False
        measured = lost_request(request, time.time(), "test")
        if request.request_id in self.loses:
            return measured
        if cancelled:
            return None
        return replace(measured, record=replace(measured.record, error_code=None))

    def cancel(self, request: Planned) -> None:
        self.cancelled.set()


def send_batch(
    actors: Sequence[FakeActor], batch: Batch, load: Load, progress: Callable[[str], None] = print
) -> SentBatch:
    engine = RayEngine(actors, progress)
    try:
        return asyncio.run(engine.send(CLIENT, batch, load, seed=1))
    finally:
        engine.close()


def send(
    actors: Sequence[FakeActor], requests: int, load: Load, progress: Callable[[str], None] = print
) -> Sequence[Measured]:
    return send_batch(actors, Batch(measured=planned(requests)), load, progress).measured


def test_each_actor_has_one_request_at_a_time() -> None:
    for load in (2, 4):
        watch = Watch()
        measured = send([FakeActor(watch) for _ in range(4)], 20, concurrency(load))

        assert watch.most == load
        assert [m.record.request_id for m in measured] == [f"r{index}" for index in range(20)]


def test_a_load_with_too_few_actors_is_refused() -> None:
    with pytest.raises(ValueError, match="3 requests in flight need as many actors: 2"):
        send([FakeActor(Watch()) for _ in range(2)], 10, concurrency(3))


@dataclass
class InTurn(FakeActor):
    """An actor that does not begin the measured request `r1` before the long filler has begun."""

    begun: threading.Event = field(default_factory=threading.Event)
    filler_seconds: float = HANGS_AFTER_SECONDS

    def measure(self, client: Client, request: Planned) -> Measured | None:
        if request == FILLER:
            self.begun.set()
            self.seconds = self.filler_seconds
        if request.request_id == "r1":
            self.begun.wait(HANGS_AFTER_SECONDS)
        return super().measure(client, request)


def test_cancelled_fillers_leave_no_actor_busy() -> None:
    watch, begun = Watch(), threading.Event()
    actors = [InTurn(watch, begun=begun) for _ in range(2)]
    began = time.monotonic()
    outcome = send_batch(actors, Batch(measured=planned(2), fillers=[FILLER] * 9), concurrency(2))

    assert time.monotonic() - began < HANGS_AFTER_SECONDS
    assert watch.now == 0
    assert [m.record.request_id for m in outcome.measured] == ["r0", "r1"]
    assert (outcome.fillers, list(outcome.unmeasured)) == (1, [])


def test_a_filler_that_ends_before_its_cancel_counts() -> None:
    class DeafActor(InTurn):
        def cancel(self, request: Planned) -> None:
            """Do nothing, as if the request had ended before it could be cancelled."""

    begun = threading.Event()
    actors = [DeafActor(Watch(), begun=begun, filler_seconds=0.5) for _ in range(2)]
    outcome = send_batch(actors, Batch(measured=planned(2), fillers=[FILLER]), concurrency(2))

    assert [m.record.request_id for m in outcome.unmeasured] == ["filler"]


def test_a_cancelled_run_waits_for_no_actor() -> None:
    actor = FakeActor(Watch(), seconds=HANGS_AFTER_SECONDS)
    engine = RayEngine([actor], print)
    began = time.monotonic()

    async def cancel_soon() -> None:
        batch = Batch(measured=planned(2))
        sending = asyncio.ensure_future(engine.send(CLIENT, batch, concurrency(1), seed=1))
        await asyncio.to_thread(actor.started.wait, HANGS_AFTER_SECONDS)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending

    asyncio.run(cancel_soon())
    engine.close()
    assert time.monotonic() - began < HANGS_AFTER_SECONDS


def test_a_lost_request_is_recorded_and_load_continues() -> None:
    watch = Watch()

    measured = send([FakeActor(watch, loses=frozenset({"r1"}))], 4, concurrency(1))

    assert [m.record.error_code for m in measured] == [None, ERROR_LOST_ACTOR, None, None]
    assert measured[1].record.error_msg == "the actor of this request was lost: test"


def test_an_actors_own_failure_is_a_record_too() -> None:
    class BrokenActor(FakeActor):
        def measure(self, client: Client, request: Planned) -> Measured | None:
            raise KeyError("no\nmetrics")

    measured = send([BrokenActor(Watch())], 2, concurrency(1))

    assert [m.record.error_code for m in measured] == [ERROR_UNEXPECTED] * 2
    assert measured[0].record.error_msg == r"unexpected KeyError: 'no\nmetrics'"


def test_poisson_requests_that_wait_are_reported() -> None:
    late, in_time = list[str](), list[str]()
    measured = send([FakeActor(Watch(), seconds=0.1)], 4, POISSON, late.append)
    send([FakeActor(Watch()) for _ in range(4)], 4, POISSON, in_time.append)

    assert len(measured) == 4
    (line,) = late
    assert "requests were sent late" in line
    assert in_time == []


def installed(*names: str) -> Callable[[str], object]:
    return lambda name: name if name in names else None


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("ray", "llmperf"), ""),
        (("ray",), "not installed: llmperf"),
        ((), "not installed: ray, llmperf"),
    ],
)
def test_ray_is_used_where_both_are_installed(names: tuple[str, ...], reason: str) -> None:
    assert why_not_llmperf(spec(concurrency(4)), None, find=installed(*names)) == reason


def test_one_machine_gets_a_limited_number_of_processes() -> None:
    run, find = spec(concurrency(MAX_LLMPERF_IN_FLIGHT + 1)), installed("ray", "llmperf")

    assert "--ray-address names a cluster" in why_not_llmperf(run, None, find=find)
    assert why_not_llmperf(run, "ray://head:10001", find=find) == ""


def test_asyncio_is_one_process_and_is_logged() -> None:
    lines: list[str] = []
    run = spec(concurrency(1), load_generator="asyncio")

    with open_engine(None, run, lines.append) as (engine, scheduling):
        assert isinstance(engine, AsyncioEngine)

    assert scheduling.startswith(("real-time", "ordinary"))
    assert lines == ["load generator: asyncio"]


@pytest.mark.parametrize(
    ("load_generator", "address", "message"),
    [
        ("llmperf", None, "llmperf: not installed: ray; next: load_generator asyncio needs no Ray"),
        ("llmperf", "ray://head:10001", "load_generator llmperf: not installed: ray"),
        ("asyncio", "ray://head:10001", "--ray-address: given ray://head:10001 for an experiment"),
    ],
)
def test_an_unusable_load_generator_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    load_generator: LoadGenerator,
    address: str | None,
    message: str,
) -> None:
    monkeypatch.setattr(engine_choice, "why_not_llmperf", lambda run, address: "not installed: ray")
    run = spec(concurrency(1), load_generator=load_generator)
    with pytest.raises(UserInputError, match=re.escape(message)), open_engine(address, run, print):
        pass


def test_llmperf_starts_and_ends_the_needed_actors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[str] = []

    @contextmanager
    def fake_ray(count: int, address: str, _: object) -> Iterator[tuple[LoadEngine, object, str]]:
        lines.append(f"{count} at {address}")
        yield AsyncioEngine(), (), "real-time (SCHED_FIFO 1)"
        lines.append("ended")

    monkeypatch.setattr(engine_choice, "why_not_llmperf", lambda run, address: "")
    ray_actors = SimpleNamespace(ray_engine=fake_ray)
    monkeypatch.setitem(sys.modules, "pods.measuring.ray_actors", ray_actors)

    opened = open_engine("ray://head:10001", spec(concurrency(4)), lines.append)
    with opened as (_, scheduling):
        lines.append(scheduling)

    started, ready, *rest = lines
    assert started == "4 at ray://head:10001"
    assert ready.startswith("load generator: llmperf on Ray, ray://head:10001, 4 actors (real-time")
    assert rest == ["real-time (SCHED_FIFO 1)", "ended"]
