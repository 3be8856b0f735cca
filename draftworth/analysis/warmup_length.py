"""Checks that blocks at a request rate begin with enough warm-up requests for the rate's queue.

A block begins on an idle server, so its first requests find free seats and a short queue. Until the
queue is as long as on a server that has been running for long, latencies read too low, and a limit
may seem to be kept.

The rise within a block does not show this: the queue of a busy server rises so slowly that the
later half of 8 requests after a warm-up of 32 is not slower than the first half by more than chance
in 94% of runs, while TTFT reads at a quarter of the true one. But the queue's length shows it. A
queue is a random walk, which after n requests has moved by about the square root of n. So a queue
of q requests takes about q^2 requests to build up, however many seats the server has and however
long its requests take. Its seats fill within a few times the requests that are in flight.
docs/appendix/calibration.md, section Rates, has the figures.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean

from draftworth.analysis.doubts import ShortWarmup
from draftworth.analysis.statistics import quantile
from draftworth.analysis.summary import Group, latency_s
from draftworth.records.results import BlockResult

# A warm-up takes at least this many times the requests in flight, so that seats are taken by
# requests that did not start together on an idle server.
_PER_REQUEST_IN_FLIGHT = 3
# A warm-up takes at least this many times q^2, where q is the number of waiting requests that is
# exceeded 5% of the time.
_PER_SQUARED_QUEUE = 1.5
_QUEUE_SHARE = 0.95
# The shortest TTFT of so many requests of a prompt, or more, is nearly that without a queue. With
# fewer, all of them may have waited.
_ENOUGH_OF_A_PROMPT = 4


def short_warmup(blocks: Sequence[BlockResult], group: Group, variant: str) -> ShortWarmup | None:
    """Return how much too short a variant's warm-up is in a group (a prompt class at one load).

    None if it is long enough, if requests do not arrive at a rate, or if there are no requests.
    blocks: those at all loads, because at the lowest rate a prompt waits least.
    """
    rate, at_rate = group.load.arrivals_per_second, group.blocks(blocks, variant)
    took_s = [r.took_s for b in at_rate for r in b.requests if r.excluded is None]
    if rate is None or not took_s:
        return None
    waits_s = _waits_s(at_rate, _fastest_s(blocks, group, variant))
    queue = rate * quantile(waits_s, _QUEUE_SHARE) if waits_s else 0.0
    needed = max(
        len(group.load.warmup_shares(0)),
        math.ceil(_PER_REQUEST_IN_FLIGHT * rate * fmean(took_s)),
        math.ceil(_PER_SQUARED_QUEUE * queue**2),
    )
    sent = min(block.warmup_requests for block in at_rate)
    if sent >= needed:
        return None
    return ShortWarmup(group=group, variant=variant, sent=sent, needed=needed)


def _fastest_s(
    blocks: Iterable[BlockResult], group: Group, variant: str
) -> dict[tuple[str, str], float]:
    """Return a TTFT in seconds without a queue for each prompt of the group's class and length.

    It is the shortest one at any load. A prompt with fewer than `_ENOUGH_OF_A_PROMPT` requests has
    the shortest one of its case. The keys are (case, prompt id).
    """
    ttfts_s: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for block in blocks:
        of_group = (block.variant, block.prompt_class) == (variant, group.prompt_class)
        if not of_group or block.load.input_tokens != group.load.input_tokens:
            continue
        for record in block.requests:
            ttft_s = latency_s(record, "ttft_s")
            if ttft_s is not None:
                ttfts_s[block.case, record.prompt_id].append(ttft_s)
    of_case: dict[str, float] = {}
    for (case, _), times_s in ttfts_s.items():
        of_case[case] = min(of_case.get(case, math.inf), *times_s)
    return {
        (case, prompt): min(times_s) if len(times_s) >= _ENOUGH_OF_A_PROMPT else of_case[case]
        for (case, prompt), times_s in ttfts_s.items()
    }


def _waits_s(blocks: Iterable[BlockResult], fastest_s: dict[tuple[str, str], float]) -> list[float]:
    return [
        ttft_s - fastest_s[block.case, record.prompt_id]
        for block in blocks
        for record in block.requests
        if (ttft_s := latency_s(record, "ttft_s")) is not None
    ]
