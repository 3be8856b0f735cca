"""Load shapes: how many requests are in flight, when each may be sent, and how long prompts are.

A load is what a server gets: so many requests at once, of so long prompts. Its shape is a type that
has its limits, label, schedule and duration; what sends requests or forecasts a run asks it.
Another shape is a class here, in `Load`, and its form in the experiment file (`shapes` in
`experiment/workload.py`). Standard library only.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, repeat
from typing import Literal

# What sends the requests: one asyncio process, or llmperf's library on Ray.
LoadGenerator = Literal["asyncio", "llmperf"]
# llmperf has a process for each request in flight, of about 50 MiB beside 400 MiB for Ray itself,
# that takes half a second of two cores to start: so many fit into half of the pod's memory.
MAX_LLMPERF_IN_FLIGHT = 32


def _check_input_tokens(input_tokens: int | None) -> None:
    if input_tokens is not None and input_tokens < 1:
        raise ValueError(f"input_tokens: given {input_tokens}, allowed: 1 or more, or none")


def _length_label(input_tokens: int | None) -> str:
    return "" if input_tokens is None else f"-i{input_tokens}"


@dataclass(frozen=True, kw_only=True)
class ConcurrencyLoad:
    """So many requests in flight: the next one is sent when another has ended.

    input_tokens: of every prompt, chat template included; None: prompts are as long as they are.
    """

    kind: Literal["concurrency"] = "concurrency"
    concurrency: int
    input_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ValueError(f"concurrency: given {self.concurrency}, allowed: 1 or more")
        _check_input_tokens(self.input_tokens)

    @property
    def label(self) -> str:
        """For file names and tables: `c4`, with prompts of 2,000 tokens `c4-i2000`."""
        return f"c{self.concurrency}{_length_label(self.input_tokens)}"

    @property
    def needed_in_flight(self) -> int:
        """Requests that must be in flight at once for the load to be this one."""
        return self.concurrency

    def most_in_flight(self, requests: int) -> int:  # noqa: ARG002 (never more, however many)
        """Of so many requests, those that may be in flight at once."""
        return self.concurrency

    def warmup_shares(self, wanted: int) -> tuple[float, ...]:
        """The warm-up requests of a block, each as the part of an output that it asks for.

        At least as many as are in flight, so that the load is whole before the first measured
        request. The first ones, which start together, ask for 1/c, 2/c ... of an output: they end
        one after the other, and the load does not go on in waves whose prefills meet.
        """
        if self.concurrency == 1:
            return (1.0,) * wanted
        first = tuple(n / self.concurrency for n in range(1, self.concurrency + 1))
        return first + (1.0,) * (wanted - self.concurrency)

    def due_seconds(self, seed: int) -> Iterator[float]:  # noqa: ARG002 (nothing is drawn)
        """When each request may be sent at the earliest, from the start; without end."""
        return repeat(0.0)

    def sending_seconds(
        self, requests: int, *, warmup: int, request_seconds: float, seats: int
    ) -> float:
        """About how long a block lasts on a server that decodes `seats` at once.

        A request that starts when another has ended is one of `c` equal streams, of which each
        carries its part of all requests.
        """
        sent = len(self.warmup_shares(warmup)) + requests
        return sent / min(self.concurrency, seats) * request_seconds


@dataclass(frozen=True, kw_only=True)
class PoissonLoad:
    """Requests at random times at a mean rate, whatever is still in flight.

    input_tokens: of every prompt, chat template included; None: prompts are as long as they are.
    """

    kind: Literal["poisson"] = "poisson"
    requests_per_second: float
    input_tokens: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.requests_per_second < math.inf:
            raise ValueError(
                f"requests_per_second: given {self.requests_per_second:g}, allowed: above 0"
            )
        _check_input_tokens(self.input_tokens)

    @property
    def label(self) -> str:
        """For file names and tables: `p2.5` for 2.5 requests a second."""
        return f"p{self.requests_per_second:g}{_length_label(self.input_tokens)}"

    @property
    def needed_in_flight(self) -> int:
        """One: how many more there will be depends on the server."""
        return 1

    def most_in_flight(self, requests: int) -> int:
        """All of them, on a server that is slow enough."""
        return requests

    def warmup_shares(self, wanted: int) -> tuple[float, ...]:
        """Whole outputs of the first requests to arrive."""
        return (1.0,) * wanted

    def due_seconds(self, seed: int) -> Iterator[float]:
        """Arrivals of a Poisson process: exponential gaps, the same ones for a seed."""
        generator = random.Random(seed)  # noqa: S311 (reproducible arrivals, not a secret)
        return accumulate(generator.expovariate(self.requests_per_second) for _ in repeat(None))

    def sending_seconds(
        self, requests: int, *, warmup: int, request_seconds: float, seats: int
    ) -> float:
        """As long as they take to arrive, or to be decoded if that is longer."""
        sent = warmup + requests
        arriving_seconds = sent / self.requests_per_second + request_seconds
        return max(arriving_seconds, math.ceil(sent / seats) * request_seconds)


Load = ConcurrencyLoad | PoissonLoad
