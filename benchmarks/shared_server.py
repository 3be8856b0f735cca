"""A server that several requests share: while it prefills one of them, no other one decodes.

A fixed number of requests is in flight. Each takes its own decoding time and, in the mean, the
prefill time of so many requests: blocked is whoever is in flight, and each request blocks once.
"""

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice


@dataclass(frozen=True, kw_only=True)
class Served:
    """The latencies of one request, in seconds."""

    ttft_s: float
    e2e_s: float


def served(
    decoding_s: Iterator[float], *, prefill_s: float, in_flight: int, measured: int
) -> Sequence[Served]:
    """Serve requests with these decoding times; return `measured` of them, after a warm-up.

    decoding_s: as many as are asked for; the first `in_flight` requests are the warm-up.
    """
    started_s: dict[int, float] = {}
    waiting: deque[int] = deque()
    # Requests that decode, by the decoding time (of the server) at which they are complete.
    decoding: list[tuple[float, int]] = []
    first_s: dict[int, float] = {}
    found: dict[int, Served] = {}
    now_s = decoded_s = 0.0
    last = in_flight + measured
    for number in range(in_flight):
        started_s[number] = 0.0
        waiting.append(number)
    upcoming = in_flight
    while not all(number in found for number in range(in_flight, last)):
        while waiting:
            number = waiting.popleft()
            now_s += prefill_s
            first_s[number] = now_s
            heapq.heappush(decoding, (decoded_s + next(decoding_s), number))
        ends_s, number = heapq.heappop(decoding)
        now_s += ends_s - decoded_s
        decoded_s = ends_s
        begun_s = started_s[number]
        found[number] = Served(ttft_s=first_s[number] - begun_s, e2e_s=now_s - begun_s)
        started_s[upcoming] = now_s
        waiting.append(upcoming)
        upcoming += 1
    return [found[number] for number in islice(range(in_flight, last), measured)]
