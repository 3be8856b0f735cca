"""The load is complete from the first measured request to the last, with fakes and over HTTP."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from draftworth.measuring.load_engines import AsyncioEngine, Batch, Planned, SentBatch, keep_load
from draftworth.measuring.streamed_request import Client, Measured
from draftworth.records.load_shapes import ConcurrencyLoad, Load, PoissonLoad
from draftworth.records.prompt_files import Prompt
from draftworth.records.transcripts import Transcript
from tests.support.blocks import make_failed_record, make_record
from tests.support.specifications import shape
from tests.support.stream_server import Request, Step, completion, stream_server

SHAPE = shape()
TURNS_TO_SETTLE = 20
PATIENCE_SECONDS = 30.0


def planned(kind: str, count: int) -> list[Planned]:
    prompt = Prompt(id=kind, messages=({"role": "user", "content": kind},))
    return [Planned(request_id=f"{kind} {n}", prompt=prompt, seed=n) for n in range(count)]


def of_tokens(request: Planned, tokens: int) -> Planned:
    return replace(request, prompt=replace(request.prompt, max_tokens=tokens))


def batch(*, warmup: int, measured: int, fillers: int = 99) -> Batch:
    return Batch(
        warmup=planned("warm-up", warmup),
        measured=planned("measured", measured),
        fillers=planned("filler", fillers),
    )


def measured_as(request: Planned, *, failed: bool = False) -> Measured:
    make = make_failed_record if failed else make_record
    return Measured(
        record=make(request_id=request.request_id),
        transcript=Transcript(request_id=request.request_id),
    )


@dataclass
class ByHand:
    """A measuring function whose requests end when the test ends them."""

    in_flight: dict[str, asyncio.Future[None]] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    another: asyncio.Event = field(default_factory=asyncio.Event)

    async def measure(self, request: Planned) -> Measured:
        self.sent.append(request.request_id)
        self.another.set()
        ended = asyncio.get_running_loop().create_future()
        self.in_flight[request.request_id] = ended
        try:
            await ended
        finally:
            del self.in_flight[request.request_id]
        return measured_as(request)

    async def see(self, request_id: str) -> None:
        """Wait until the request with this id has been sent."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while request_id not in self.sent:
                self.another.clear()
                await self.another.wait()

    def end(self, request_id: str) -> None:
        self.in_flight[request_id].set_result(None)


async def settle() -> None:
    for _ in range(TURNS_TO_SETTLE):
        await asyncio.sleep(0)


def ended_one_by_one(
    load: Load, sent: Batch, choose: Callable[[Sequence[str]], str]
) -> tuple[ByHand, SentBatch, list[list[str]]]:
    """Send a batch, and end its requests one after another, each time the one of `choose`.

    The last value returned has the requests in flight each time before one was ended.
    """

    async def play() -> tuple[ByHand, SentBatch, list[list[str]]]:
        hand, seen = ByHand(), []
        sending = asyncio.ensure_future(keep_load(hand.measure, sent, load, seed=1))
        await settle()
        while not sending.done():
            seen.append([*hand.in_flight])
            hand.end(choose(seen[-1]))
            await settle()
        return hand, await sending, seen

    return asyncio.run(play())


def oldest(names: Sequence[str]) -> str:
    return names[0]


def newest(names: Sequence[str]) -> str:
    return names[-1]


def test_in_flight_requests_match_the_load_throughout() -> None:
    load = ConcurrencyLoad(concurrency=3)
    hand, outcome, seen = ended_one_by_one(load, batch(warmup=3, measured=5), oldest)

    assert [len(names) for names in seen] == [3] * len(seen)
    first = next(names for names in seen if "measured 0" in names)
    assert first == ["warm-up 1", "warm-up 2", "measured 0"]
    assert seen[-1] == ["measured 4", "filler 0", "filler 1"]
    assert hand.in_flight == {}, "what was in flight at the end is cancelled"
    assert [m.record.request_id for m in outcome.measured] == [f"measured {n}" for n in range(5)]
    assert [m.record.request_id for m in outcome.unmeasured] == [
        "warm-up 0",
        "warm-up 1",
        "warm-up 2",
    ]
    assert outcome.fillers == 2

    # Without fillers, fewer requests are in flight at the end. A load of one request at a time
    # needs no fillers.
    _, _, seen = ended_one_by_one(load, batch(warmup=3, measured=5, fillers=0), oldest)
    assert [len(names) for names in seen][-3:] == [3, 2, 1]
    alone = ConcurrencyLoad(concurrency=1)
    hand, _, _ = ended_one_by_one(alone, batch(warmup=1, measured=2), oldest)
    assert hand.sent == ["warm-up 0", "measured 0", "measured 1"]


def test_fillers_accompany_a_slow_measured_request_in_turn() -> None:
    load = ConcurrencyLoad(concurrency=2)

    def another(names: Sequence[str]) -> str:
        candidates = [name for name in names if name != "measured 0"]
        return "measured 0" if "filler 3" in candidates else candidates[0]

    _, outcome, seen = ended_one_by_one(load, batch(warmup=2, measured=2), another)

    assert [len(names) for names in seen] == [2] * len(seen)
    assert outcome.fillers == 4
    ended = [m.record.request_id for m in outcome.unmeasured]
    assert ended == ["warm-up 0", "warm-up 1", "filler 0", "filler 1", "filler 2"]


def test_a_warm_up_that_outlasts_measuring_is_cancelled() -> None:
    load = ConcurrencyLoad(concurrency=2)
    hand, outcome, _ = ended_one_by_one(load, batch(warmup=2, measured=2), newest)

    assert hand.in_flight == {}
    assert [m.record.request_id for m in outcome.unmeasured] == ["warm-up 1"]
    assert len(outcome.measured) == 2


def test_random_arrivals_continue_until_measured_requests_end() -> None:
    async def play() -> tuple[list[str], SentBatch]:
        hand = ByHand()
        load = PoissonLoad(requests_per_second=500.0)
        sent = batch(warmup=1, measured=2)
        sending = asyncio.ensure_future(keep_load(hand.measure, sent, load, seed=1))
        await hand.see("measured 1")
        hand.end("warm-up 0")
        hand.end("measured 0")
        await hand.see("filler 1")
        hand.end("measured 1")
        return hand.sent, await sending

    sent, outcome = asyncio.run(play())
    assert sent[:5] == ["warm-up 0", "measured 0", "measured 1", "filler 0", "filler 1"]
    assert outcome.fillers == len(sent) - 3
    assert [m.record.request_id for m in outcome.unmeasured] == ["warm-up 0"]


def test_arrivals_pause_while_the_server_ends_nothing() -> None:
    """While no request ends, all warm-up and measured requests are in flight, but no fillers."""

    async def play() -> int:
        hand = ByHand()
        load = PoissonLoad(requests_per_second=5_000.0)
        sending = asyncio.ensure_future(
            keep_load(hand.measure, batch(warmup=1, measured=2), load, seed=1)
        )
        await hand.see("measured 1")
        await asyncio.sleep(0.05)
        in_flight = len(hand.in_flight)
        sending.cancel()
        await asyncio.wait([sending])
        return in_flight

    assert asyncio.run(play()) == 3


def test_refused_fillers_are_not_repeated_without_end() -> None:
    async def play() -> SentBatch:
        both_slots = asyncio.Event()
        refused = 0

        async def measure(request: Planned) -> Measured:
            nonlocal refused
            if request.request_id == "measured 3":
                await both_slots.wait()
                await settle()
            is_filler = request.request_id.startswith("filler")
            refused += is_filler
            if refused == 2:
                both_slots.set()
            return measured_as(request, failed=is_filler)

        load = ConcurrencyLoad(concurrency=3)
        return await keep_load(measure, batch(warmup=3, measured=4), load, seed=1)

    assert asyncio.run(play()).fillers == 2


def test_a_cancelled_run_leaves_nothing_in_flight() -> None:
    async def play() -> ByHand:
        hand, load = ByHand(), ConcurrencyLoad(concurrency=2)
        sending = asyncio.ensure_future(
            keep_load(hand.measure, batch(warmup=2, measured=2), load, seed=1)
        )
        await settle()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        return hand

    assert asyncio.run(play()).in_flight == {}


class WatchingServer:
    """A server that ends a measured request only when `wanted` requests are in flight.

    It waits at most `patience_seconds` for that.
    most: for each measured request, how many requests were in flight when its wait ended.
    """

    def __init__(self, wanted: int, patience_seconds: float) -> None:
        self.most: list[int] = []
        self._wanted, self._patience_seconds = wanted, patience_seconds
        self._now = 0
        self._changed = threading.Condition()

    def __call__(self, request: Request) -> Iterator[Step]:
        with self._changed:
            self._now += 1
            self._changed.notify_all()
        try:
            *steps, end = completion(*[1] * request.json["max_tokens"], gap_seconds=0.01)
            yield from steps
            if request.json["messages"][0]["content"] == "measured":
                self._wait()
        finally:
            with self._changed:
                self._now -= 1
        yield end

    def _wait(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._now >= self._wanted, self._patience_seconds)
            self.most.append(self._now)


def send(server: WatchingServer, load: Load, sent: Batch) -> SentBatch:
    with stream_server(server) as running:
        client = Client(base_url=running.base_url, shape=SHAPE, read_wait=lambda: None)
        return asyncio.run(AsyncioEngine().send(client, sent, load, seed=1))


def staggered(sent: Batch) -> Batch:
    """Return the batch with warm-up requests that ask for only a part of an output, as in a run."""
    count = len(sent.warmup)
    shares = (of_tokens(r, 1 + n * 4 // count) for n, r in enumerate(sent.warmup))
    return replace(sent, warmup=tuple(shares))


@pytest.mark.parametrize("make", [staggered, lambda sent: sent])
def test_a_server_sees_the_whole_load_while_measured(
    make: Callable[[Batch], Batch],
) -> None:
    server = WatchingServer(3, PATIENCE_SECONDS)
    outcome = send(server, ConcurrencyLoad(concurrency=3), make(batch(warmup=3, measured=4)))

    assert server.most == [3] * 4
    assert not any(m.record.failed for m in outcome.measured)
    assert outcome.fillers >= 2


def test_a_server_sees_less_load_without_fillers() -> None:
    server = WatchingServer(3, 0.3)
    send(server, ConcurrencyLoad(concurrency=3), batch(warmup=3, measured=4, fillers=0))

    assert min(server.most) < 3


def test_a_cancelled_filler_closes_its_connection() -> None:
    begun, gone = threading.Event(), threading.Event()

    def script(request: Request) -> Iterable[Step]:
        tokens = request.json["max_tokens"]
        if tokens > SHAPE.output_tokens:  # only fillers ask for that many
            begun.set()
            try:
                yield from completion(*[1] * tokens, gap_seconds=0.01)
            except GeneratorExit:
                gone.set()  # a write failed, because the client has closed the connection
                raise
            return
        *steps, end = completion(1, 1)
        yield from steps
        if tokens == SHAPE.output_tokens:  # the slow one of the two measured requests
            begun.wait(PATIENCE_SECONDS)
        yield end

    quick, slow = planned("measured", 2)
    long = [of_tokens(filler, 9_000) for filler in planned("filler", 9)]
    sent = Batch(measured=[of_tokens(quick, 2), slow], fillers=long)
    with stream_server(script) as running:
        client = Client(base_url=running.base_url, shape=SHAPE, read_wait=lambda: None)
        outcome = asyncio.run(
            AsyncioEngine().send(client, sent, ConcurrencyLoad(concurrency=2), seed=1)
        )
        assert gone.wait(PATIENCE_SECONDS)

    assert outcome.fillers == 1
    assert outcome.unmeasured == []
