"""Finds the extreme requests of a comparison: those that took far longer than usual.

If one of 200 requests takes 20 times as long as usual, a token costs a tenth more. An interval from
100 requests mostly does not reflect that, and no formula can cure it: an event that happens less
often than 3 times in n is not seen at all in at least 1 of 20 samples of n (Hanley and Lippman-Hand
1983, "If Nothing Goes Wrong, Is Everything All Right?"). So extreme requests that were seen are
named, with the cost ratio without them, and a report says what a run may have missed.
A verdict needs no rule against extreme requests, because fewer than four of them cannot decide it.
If k equal extremes add S to a sum of costs, S has the standard error S / sqrt(k). Half the width of
a 95% interval is about twice that, so it is more than S if k is below four.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from draftworth.analysis.pairing import Pair
from draftworth.analysis.ratios import cost_amounts
from draftworth.analysis.statistics import Estimate

# With fewer starts of the servers, a comparison may easily have missed a kind of start, so it says
# how rare such a kind is.
_MANY_STARTS = 16
# A request is extreme if it took more than `_LEAST_TIMES` as long for a token as usual for its
# prompt, and if the logarithm of that factor is more than `_DEVIATIONS` robust standard deviations
# above the median. None of 6,600 simulated runs without stalls and outliers had such a request
# (docs/decisions/0015-the-verdict.md).
_LEAST_TIMES, _DEVIATIONS = 2.0, 8.0
# For each prompt, the (seconds, tokens) of each of its requests by the index of the request's pair.
_ByPrompt = defaultdict[str, dict[int, tuple[float, float]]]
# In a normal distribution, the standard deviation / the median absolute deviation.
_NORMAL_PER_MEDIAN = 1.4826


@dataclass(frozen=True, kw_only=True)
class Extremes:
    """The requests of one side (baseline or variant) that took far longer than usual for a token.

    variant: the name of that side; the other side has no such requests.
    count, requests: number of the side's extreme requests, and of all its requests.
    times: how many times as long as usual the least extreme of them took for a token.
    usual_pairs: the pairs without an extreme request.
    """

    variant: str
    requests: int
    count: int
    times: float
    usual_pairs: tuple[Pair, ...]


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """How rare slow requests, blocks, prompts and starts must be for a run to miss their kind.

    What has a share below 3 / n is missed by at least 1 of 20 samples of n (see the module).

    requests: whatever makes a request far slower than usual may be missed if it happens in fewer
        than one of this many requests.
    blocks: number of pairs of blocks. What makes a whole block slower may be missed if its share of
        all blocks is below 3 / this number.
    prompts: the number of measured prompts. A kind of prompt may be missed if its share of all
        prompts is below 3 / this number.
    repetitions: the same for kinds of starts of the servers. None: so many were measured that this
        need not be said, or so few that the cost ratio's interval holds for the measured ones only.
    """

    requests: int
    blocks: int
    prompts: int
    repetitions: int | None


def unseen_of(ratio: Estimate) -> Unseen:
    """Return how rare kinds of requests, blocks, prompts and starts must be to be missed.

    Requests count by their weights: if a class with a few requests has most of the traffic, events
    in the other requests hardly matter.
    ratio: the cost ratio of the comparison that may miss them. Only its numbers of requests,
        blocks, prompts and repetitions are used.
    """
    holds_for_other_starts = ratio.holds_for_repetitions is None
    return Unseen(
        requests=max(1, int((ratio.effective_samples or ratio.samples) / 3)),
        blocks=ratio.blocks,
        prompts=ratio.prompts,
        repetitions=ratio.repetitions
        if holds_for_other_starts and ratio.repetitions < _MANY_STARTS
        else None,
    )


def extremes_of(pairs: Sequence[Pair], *, variant: str, baseline: str) -> Extremes | None:
    """Return the requests that took far longer than usual for a token, if only one side has some.

    None if neither the variant nor the baseline has such requests, or if both have.
    """
    sides = {name: _times(pairs, drafted=name == variant) for name in (variant, baseline)}
    extreme = {name: _extreme(times) for name, times in sides.items()}
    sides_with_extremes = [name for name, numbers in extreme.items() if numbers]
    if len(sides_with_extremes) != 1:
        return None
    (name,) = sides_with_extremes
    numbers = {*extreme[name]}
    return Extremes(
        variant=name,
        requests=len(sides[name]),
        count=len(numbers),
        times=min(sides[name][number] for number in numbers),
        usual_pairs=tuple(pair for number, pair in enumerate(pairs) if number not in numbers),
    )


def _times(pairs: Sequence[Pair], *, drafted: bool) -> dict[int, float]:
    """Return by the pair's index a request's seconds per token / the usual seconds per token.

    The usual value is the lower median over the prompt's requests. For prompts with one request, it
    is the lower median over all such requests of the case. A failed request counts as if it had
    yielded the mean number of tokens of its prompt's requests.
    drafted: True for the variant's requests, False for the baseline's.
    """
    by_case: defaultdict[tuple[str, str], _ByPrompt] = defaultdict(lambda: defaultdict(dict))
    for number, pair in enumerate(pairs):
        if amounts := cost_amounts(pair.drafted if drafted else pair.plain):
            of_case = by_case[pair.prompt_class, pair.place.case]
            of_case[pair.plain.prompt_id][number] = amounts
    times: dict[int, float] = {}
    for of_case in by_case.values():
        once: dict[int, float] = {}
        for costs in map(_costs, of_case.values()):
            if len(costs) > 1:
                times |= _per_median(costs)
            else:
                once |= costs
        times |= _per_median(once)
    return times


def _per_median(costs: Mapping[int, float]) -> dict[int, float]:
    usual = statistics.median_low(costs.values()) if costs else 1.0
    return {number: cost / usual for number, cost in costs.items()}


def _costs(amounts: Mapping[int, tuple[float, float]]) -> dict[int, float]:
    counted_tokens = [tokens for _, tokens in amounts.values() if tokens]
    mean = math.fsum(counted_tokens) / len(counted_tokens) if counted_tokens else 0.0
    return {n: s / (tokens or mean) for n, (s, tokens) in amounts.items() if s and (tokens or mean)}


def _extreme(times: Mapping[int, float]) -> list[int]:
    logs = sorted(map(math.log, times.values()))
    if not logs:
        return []
    middle = statistics.median(logs)
    spread = _NORMAL_PER_MEDIAN * statistics.median(abs(x - middle) for x in logs)
    upper = (logs[len(logs) * 3 // 4] - middle) * 1.5
    least = max(math.log(_LEAST_TIMES), middle + _DEVIATIONS * max(spread, upper))
    return [number for number, times_usual in times.items() if math.log(times_usual) > least]
