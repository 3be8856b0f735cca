"""A server that several requests share: while it prefills one of them, no other one decodes.

A fixed number of requests is in flight. Each prefill holds up all of them, so on average a request
takes its own decoding time and as many prefill times as requests are in flight.
"""

import heapq
from collections import deque
from collections.abc import Iterator


def served(
    decoding_s: Iterator[float], *, prefill_s: float, in_flight: int, measured: int
) -> list[tuple[float, float]]:
    """Simulate a server; return the TTFT and E2E (in s) of the `measured` requests after a warm-up.

    decoding_s: yields each request's decoding time in s. in_flight: number of requests that are
        served at the same time; the first `in_flight` ones are the warm-up.
    """
    started_s = dict.fromkeys(range(in_flight), 0.0)
    waiting = deque(range(in_flight))
    # A heap of the requests that decode now: (the server's total decoding time at which the request
    # will be complete, the request's number).
    decoding: list[tuple[float, int]] = []
    first_s: dict[int, float] = {}
    latencies: dict[int, tuple[float, float]] = {}
    now_s = decoded_s = 0.0
    last = in_flight + measured
    upcoming = in_flight
    while not all(number in latencies for number in range(in_flight, last)):
        while waiting:
            number = waiting.popleft()
            now_s += prefill_s
            first_s[number] = now_s
            heapq.heappush(decoding, (decoded_s + next(decoding_s), number))
        ends_s, number = heapq.heappop(decoding)
        now_s += ends_s - decoded_s
        decoded_s = ends_s
        begun_s = started_s[number]
        latencies[number] = first_s[number] - begun_s, now_s - begun_s
        started_s[upcoming] = now_s
        waiting.append(upcoming)
        upcoming += 1
    return [latencies[number] for number in range(in_flight, last)]
