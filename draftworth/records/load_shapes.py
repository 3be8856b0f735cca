"""Load shapes: how many requests are in flight, when each may be sent, and how long prompts are.

Each kind of load is a Python class here. Other code calls its methods and never asks which class it
is, so a new kind needs few changes elsewhere (docs/architecture.md).
"""

import math
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, repeat
from typing import Annotated, Literal

from draftworth.records.codec import Between, Checked

# The sender of requests: one asyncio process, or llmperf's library on Ray.
LoadGenerator = Literal["asyncio", "llmperf"]
# llmperf starts a process for each request in flight, with about 50 MiB of memory and half a second
# of two cores; Ray itself needs 400 MiB. At most this many requests may be in flight, because so
# many processes fit into half of the measuring pod's memory.
MAX_LLMPERF_IN_FLIGHT = 32
# At a request rate, a block begins with at least this many warm-up requests. It begins on an idle
# server, where requests find free seats and shorter queues than on one that has been running for
# long. On a server with 4 seats of which half are in use, the 95th percentile of TTFT reads at a
# third of the true one after 1 warm-up request; after 32, at 0.9 and more up to 70%
# (docs/appendix/calibration.md, Rates). A busier server needs more.
LEAST_WARMUP_AT_A_RATE = 32


def _length_label(input_tokens: int | None) -> str:
    return "" if input_tokens is None else f"-i{input_tokens}"


def _length_words(input_tokens: int | None) -> str:
    return "" if input_tokens is None else f" with prompts of {input_tokens:,} tokens"


def _length_cell(input_tokens: int | None) -> str:
    return "" if input_tokens is None else f", {input_tokens:,} tokens in"


@dataclass(frozen=True, kw_only=True)
class ConcurrencyLoad(Checked):
    """A constant number of requests in flight: whenever a request ends, the next one is sent.

    input_tokens: length of every prompt with its chat template; None: prompts keep their lengths.
    """

    kind: Literal["concurrency"] = "concurrency"
    concurrency: Annotated[int, Between(1)]
    input_tokens: Annotated[int, Between(1)] | None = None

    @property
    def label(self) -> str:
        """The load's name in files and records: `c4`, with prompts of 2,000 tokens `c4-i2000`."""
        return f"c{self.concurrency}{_length_label(self.input_tokens)}"

    @property
    def words(self) -> str:
        """The load in a sentence: `one request at a time`, `4 requests at a time`."""
        count = "one request" if self.concurrency == 1 else f"{self.concurrency} requests"
        return f"{count} at a time{_length_words(self.input_tokens)}"

    @property
    def cell(self) -> str:
        """The load in a table or a plot, where its heading says the rest: `4 at a time`."""
        return f"{self.concurrency} at a time{_length_cell(self.input_tokens)}"

    @property
    def option(self) -> str:
        return f"--concurrency {self.concurrency}"

    @property
    def order(self) -> tuple[int, float]:
        """The key by which loads are sorted: the shortest prompts first, then the lightest load."""
        return self.input_tokens or 0, self.concurrency

    @property
    def in_flight(self) -> int:
        return self.concurrency

    @property
    def arrivals_per_second(self) -> None:
        """None, because a request is sent whenever another ends, at no fixed rate."""

    @property
    def has_cost_per_token(self) -> bool:
        """Whether a faster server makes a token cheaper: true, because the server never idles."""
        return True

    def server_seconds(
        self,
        request_seconds: Iterable[float],
        *,
        span_seconds: float,  # noqa: ARG002 (a server that is always full needs no clock)
    ) -> float:
        """Return how many seconds the server worked: sum of `request_seconds` / concurrency.

        span_seconds: from the first start to the last end of all requests; not used here.
        """
        return sum(request_seconds) / self.concurrency

    def warmup_shares(self, wanted: int) -> tuple[float, ...]:
        """Return, for each warm-up request of a block, the part of a full output to ask for.

        wanted: how many warm-up requests the workload asks for. With a concurrency above 1, at
        least `concurrency` are sent, so the load is complete before the first measured request.
        The first c = `concurrency` start together and ask for 1/c, 2/c, ... of an output. They end
        one after another, and the prefills of the next requests do not coincide.
        """
        if self.concurrency == 1:
            return (1.0,) * wanted
        first = tuple(n / self.concurrency for n in range(1, self.concurrency + 1))
        return first + (1.0,) * (wanted - self.concurrency)

    def due_seconds(self, seed: int) -> Iterator[float]:  # noqa: ARG002 (nothing is drawn)
        """Yield, without end, how many seconds after the start each request may be sent: always 0.

        A request waits only until another one ends. seed: not used here.
        """
        return repeat(0.0)

    def sending_seconds(
        self, requests: int, *, warmup: int, request_seconds: float, seats: int
    ) -> float:
        """Estimate the seconds of a block on a server that decodes `seats` requests at once.

        requests: number of measured requests. warmup: number of warm-up requests that the workload
        asks for. Each request takes `request_seconds`; the next starts when a request has ended.
        """
        sent = len(self.warmup_shares(warmup)) + requests
        return sent / min(self.concurrency, seats) * request_seconds


@dataclass(frozen=True, kw_only=True)
class PoissonLoad(Checked):
    """Requests at random times at a mean rate, however many are still in flight."""

    kind: Literal["poisson"] = "poisson"
    requests_per_second: float
    input_tokens: Annotated[int, Between(1)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.requests_per_second < math.inf:
            raise ValueError(
                f"requests_per_second: given {self.requests_per_second:g}, allowed: above 0"
            )

    @property
    def label(self) -> str:
        """The load's name in files and records, such as `p2.5` for 2.5 requests per second."""
        return f"p{self.requests_per_second:g}{_length_label(self.input_tokens)}"

    @property
    def words(self) -> str:
        """The load in a sentence: `one request per second`, `2.5 requests per second`."""
        rate = self.requests_per_second
        count = "one request" if rate == 1 else f"{rate:g} requests"
        return f"{count} per second{_length_words(self.input_tokens)}"

    @property
    def cell(self) -> str:
        """The load in a table or a plot, where its heading says the rest: `2.5 per second`."""
        return f"{self.requests_per_second:g} per second{_length_cell(self.input_tokens)}"

    @property
    def option(self) -> str:
        return f"--requests-per-second {self.requests_per_second:g}"

    @property
    def order(self) -> tuple[int, float]:
        return self.input_tokens or 0, self.requests_per_second

    @property
    def arrivals_per_second(self) -> float:
        return self.requests_per_second

    @property
    def in_flight(self) -> None:
        """None, because how many requests are in flight depends on the speed of the server."""

    @property
    def has_cost_per_token(self) -> bool:
        return False

    def server_seconds(
        self,
        request_seconds: Iterable[float],  # noqa: ARG002 (requests overlap at random)
        *,
        span_seconds: float,
    ) -> float:
        return span_seconds

    def warmup_shares(self, wanted: int) -> tuple[float, ...]:
        """Return, for each warm-up request of a block, the part of an output to ask for: all of it.

        wanted: how many warm-up requests the workload asks for; at least `LEAST_WARMUP_AT_A_RATE`
        are sent.
        """
        return (1.0,) * max(wanted, LEAST_WARMUP_AT_A_RATE)

    def due_seconds(self, seed: int) -> Iterator[float]:
        """Yield the arrival times in seconds of a Poisson process; equal seeds give equal times."""
        generator = random.Random(seed)  # noqa: S311 (reproducible arrivals, not a secret)
        return accumulate(generator.expovariate(self.requests_per_second) for _ in repeat(None))

    def sending_seconds(
        self, requests: int, *, warmup: int, request_seconds: float, seats: int
    ) -> float:
        """Estimate the seconds of a block on a server that decodes `seats` requests at once.

        The block ends when all requests, warm-up and measured ones, have arrived and are decoded;
        each takes `request_seconds`. warmup: number of warm-up requests that the workload asks for.
        """
        sent = len(self.warmup_shares(warmup)) + requests
        arriving_seconds = sent / self.requests_per_second + request_seconds
        return max(arriving_seconds, math.ceil(sent / seats) * request_seconds)


Load = ConcurrencyLoad | PoissonLoad

_LABEL = re.compile(r"(?P<kind>[cp])(?P<number>[0-9.]+(?:e[+-]?[0-9]+)?)(?:-i(?P<length>[0-9]+))?")


def words_of_label(label: str) -> str:
    """Return in words the load that has this label; a text that no load has is returned as it is.

    Some records hold a load's label alone, and people read words.
    """
    load = _of_label(label)
    return load.words if load else label


def cell_of_label(label: str) -> str:
    """Return the load that has this label as `Load.cell`; a text that no load has, as it is."""
    load = _of_label(label)
    return load.cell if load else label


def _of_label(label: str) -> Load | None:
    if (parts := _LABEL.fullmatch(label)) is None:
        return None
    length = int(parts["length"]) if parts["length"] else None
    try:
        if parts["kind"] == "c":
            return ConcurrencyLoad(concurrency=int(parts["number"]), input_tokens=length)
        return PoissonLoad(requests_per_second=float(parts["number"]), input_tokens=length)
    except ValueError:
        return None
