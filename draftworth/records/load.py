"""Load shapes: how many requests are in flight, and when each may be sent.

A shape is a type that has its limits, label, schedule and duration; what sends requests or
forecasts a run asks the shape. Another shape is a class here, in `Load`, and its form in the
experiment file (`shapes` in `experiment/workload.py`). Standard library only.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from typing import Literal

# What sends the requests: one asyncio process, or llmperf's library on Ray.
LoadGenerator = Literal["asyncio", "llmperf"]
# llmperf has a process for each request in flight, of about 50 MiB beside 400 MiB for Ray itself,
# that takes half a second of two cores to start: so many fit into half of the pod's memory.
MAX_LLMPERF_IN_FLIGHT = 32


@dataclass(frozen=True, kw_only=True)
class ConcurrencyLoad:
    """So many requests in flight: the next one is sent when another has ended."""

    kind: Literal["concurrency"] = "concurrency"
    concurrency: int

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ValueError(f"concurrency: given {self.concurrency}, allowed: 1 or more")

    @property
    def label(self) -> str:
        """For file names and tables: `c4`."""
        return f"c{self.concurrency}"

    def needed_in_flight(self, requests: int) -> int:
        """Of so many requests, those that must be in flight at once for the load to be this one."""
        return min(self.concurrency, requests)

    def most_in_flight(self, requests: int) -> int:
        """Of so many requests, those that may be in flight at once."""
        return min(self.concurrency, requests)

    def due_seconds(self, seed: int) -> Iterator[float]:  # noqa: ARG002 (nothing is drawn)
        """When each request may be sent at the earliest, from the start; without end."""
        return repeat(0.0)

    def sending_seconds(self, requests: int, *, request_seconds: float, seats: int) -> float:
        """About how long requests of one length take on a server that decodes `seats` at once."""
        return self._waves(requests, seats) * request_seconds

    def sending_words(self, requests: Sequence[int], *, seats: int) -> str:
        """`sending_seconds` in words, for counts that are sent one after the other."""
        return f"{' + '.join(str(self._waves(count, seats)) for count in requests)} waves x"

    def _waves(self, requests: int, seats: int) -> int:
        """Requests of one length come in waves: so many at once, then as many again."""
        return math.ceil(requests / min(self.concurrency, seats))


@dataclass(frozen=True, kw_only=True)
class PoissonLoad:
    """Requests at random times at a mean rate, whatever is still in flight."""

    kind: Literal["poisson"] = "poisson"
    requests_per_second: float

    def __post_init__(self) -> None:
        if not 0 < self.requests_per_second < math.inf:
            raise ValueError(
                f"requests_per_second: given {self.requests_per_second:g}, allowed: above 0"
            )

    @property
    def label(self) -> str:
        """For file names and tables: `p2.5` for 2.5 requests a second."""
        return f"p{self.requests_per_second:g}"

    def needed_in_flight(self, requests: int) -> int:
        """One: how many more there will be depends on the server."""
        return min(1, requests)

    def most_in_flight(self, requests: int) -> int:
        """All of them, on a server that is slow enough."""
        return requests

    def due_seconds(self, seed: int) -> Iterator[float]:
        """Arrivals of a Poisson process: exponential gaps, the same ones for a seed."""
        generator = random.Random(seed)  # noqa: S311 (reproducible arrivals, not a secret)
        return accumulate(generator.expovariate(self.requests_per_second) for _ in repeat(None))

    def sending_seconds(self, requests: int, *, request_seconds: float, seats: int) -> float:
        """As long as they take to arrive, or to be decoded if that is longer."""
        if requests == 0:
            return 0.0
        arriving_seconds = requests / self.requests_per_second + request_seconds
        return max(arriving_seconds, math.ceil(requests / seats) * request_seconds)

    def sending_words(self, requests: Sequence[int], *, seats: int) -> str:
        """`sending_seconds` in words, for counts that are sent one after the other."""
        return (
            f"{' + '.join(map(str, requests))} requests at {self.requests_per_second:g} a second, "
            f"{seats} decoded at once, each"
        )


Load = ConcurrencyLoad | PoissonLoad
