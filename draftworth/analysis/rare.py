"""Finds the extreme requests of a comparison, and says which rare events a sample may miss.

A server that stalls once in 200 requests for 20 times as long costs a tenth more. An interval from
100 requests mostly does not reflect that, and no formula can cure it: of something that happens
less often than 3 times in n, n measurements show nothing in at least 1 of 20 cases (Hanley and
Lippman-Hand 1983, "If Nothing Goes Wrong, Is Everything All Right?"). So extreme requests that
were seen are named, with the cost ratio without them, and a report says what a run may have missed.
Fewer than four extreme requests need no rule, because they cannot decide a verdict: the error of a
sum of k equal extremes is their sum / sqrt(k), and half of its 95% interval is more than the sum if
k is below four.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from draftworth.analysis.pairing import Pair
from draftworth.analysis.ratios import cost_amounts

# A request is extreme if it took at least `_LEAST_TIMES` as long for a token as usual for its
# prompt, and if it deviates by `_DEVIATIONS` robust standard deviations. Of 6,600 simulated runs
# without stalls and outliers, none had such a request (docs/decisions/0015-the-verdict.md).
_LEAST_TIMES, _DEVIATIONS = 2.0, 8.0
# By prompt, the (seconds, tokens) of its requests by the number of their pair.
_ByPrompt = defaultdict[str, dict[int, tuple[float, float]]]
# The ratio of a standard deviation to the median absolute deviation, in a normal distribution.
_NORMAL_PER_MEDIAN = 1.4826


@dataclass(frozen=True, kw_only=True)
class Extremes:
    """The extreme requests of one side (baseline or variant), while the other side has none.

    variant: the side that has them. count, requests: numbers of its extreme and all its requests.
    times: how many times as long as usual the shortest extreme request took for a token.
    usual_pairs: the pairs without an extreme request.
    """

    variant: str
    requests: int
    count: int
    times: float
    usual_pairs: tuple[Pair, ...]


def extremes_of(pairs: Sequence[Pair], *, variant: str, baseline: str) -> Extremes | None:
    """Return the extreme requests; None if there are none, or if both sides have some."""
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
    """Return, by the pair's index, a request's seconds per token / the usual seconds per token.

    drafted: take the variant's requests, not the baseline's. The usual value is the lower median of
    the prompt's requests; for prompts with one request, the lower median of all these in the case.
    A failed request counts as if it had yielded the mean number of tokens of its prompt.
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
