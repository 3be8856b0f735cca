"""Computes the cost ratio of all prompts of a log from a few measured ones and a forecast for all.

The measured prompts were chosen in proportion to their output tokens, one from each of many equal
parts of the log's tokens, in the order of the forecast (`importing.choosing`). So each part counts
as much as every other: a prompt's requests are weighted by parts / (logged tokens x requests).

The forecast for the measured prompts differs from the forecast for all prompts by chance. The part
of the cost ratio that follows from this difference is subtracted: the difference times the slope of
a line fitted through the prompts (a regression estimator, Cochran, Sampling Techniques, chapter 7;
PPI++, Angelopoulos, Duchi and Zrnic 2023). A forecast that is wrong by a factor, or says nothing,
thus makes no error. What is left of each prompt is its distance from the line through all other
prompts (the jackknife, HC3), because a line is too close to the prompts that it was fitted to.
Only the part of the error that comes from different prompts gets smaller, not that of rounds.

benchmarks/traffic.py and docs/decisions/0047-all-logged-traffic.md compare other methods.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from draftworth.analysis import statistics
from draftworth.analysis.clustering import Sample
from draftworth.analysis.pairing import Pair
from draftworth.analysis.ratios import (
    Amount,
    LogRatio,
    cost_amounts,
    log_of_sums,
    log_ratio_of_sums,
)
from draftworth.analysis.statistics import Estimate
from draftworth.records.logged_traffic import MIN_MEASURED, LoggedTraffic
from draftworth.records.results import RequestRecord


@dataclass(frozen=True, kw_only=True)
class TooFewMeasured:
    """Why nothing is said about all logged prompts: too few chosen ones have been measured."""

    measured: int
    chosen: int


@dataclass(frozen=True, kw_only=True)
class TrafficRatio:
    """The cost ratio (variant / baseline) of all prompts of a log.

    cost_ratio: with the help of the forecast. without_forecast: without it.
    measured: number of measured prompts.
    """

    logged: LoggedTraffic
    cost_ratio: Estimate
    without_forecast: Estimate
    measured: int


@dataclass(frozen=True, kw_only=True)
class MeasuredPart:
    """The measured prompts of a log: their cost ratio, and the forecast for them.

    cost: log(cost ratio). forecast: log(steps per token), of the same pairs of requests in the same
    order. of_all: log(steps per token) of all logged prompts.
    """

    cost: LogRatio
    forecast: LogRatio
    of_all: float

    @property
    def measured(self) -> int:
        return len(self._forecasts)

    @cached_property
    def slope(self) -> float:
        """By how much log(cost ratio) rises with log(steps per token): a least-squares line."""
        costs, forecasts = _by_prompt(self.cost.parts), self._forecasts
        return math.fsum(costs[p] * x for p, x in forecasts.items()) / (self._squares or 1.0)

    @cached_property
    def _forecasts(self) -> Mapping[str, float]:
        return _by_prompt(self.forecast.parts)

    @cached_property
    def _squares(self) -> float:
        return math.fsum(x**2 for x in self._forecasts.values())

    def without(self, slope: float) -> LogRatio:
        """Return log(cost ratio) without what follows from the forecast by a line of this slope."""
        parts = (
            cost._replace(value=cost.value - slope * forecast.value)
            for cost, forecast in zip(self.cost.parts, self.forecast.parts, strict=True)
        )
        gap = self.forecast.value - self.of_all
        return LogRatio(value=self.cost.value - slope * gap, parts=tuple(parts))

    def with_forecast(self) -> LogRatio:
        """Return log(cost ratio) of all prompts; each prompt's part is its distance from a line.

        The line is fitted to the other prompts. The distance is the one from the line through all
        prompts, divided by 1 - the prompt's leverage. All requests of a prompt get equal shares of
        the difference, so that they differ from each other as before.
        """
        left = self.without(self.slope)
        distances, requests = _by_prompt(left.parts), Counter(p.prompt for p in left.parts)
        added = {
            prompt: distances[prompt] * (1 / (1 - self._leverage(prompt)) - 1) / count
            for prompt, count in requests.items()
        }
        return replace(
            left, parts=tuple(p._replace(value=p.value + added[p.prompt]) for p in left.parts)
        )

    def _leverage(self, prompt: str) -> float:
        """Return how much of a prompt's own value is in the line's value there (0 to 0.9).

        Without the limit, a line that depends on one prompt alone would divide by 0.
        """
        slope_part = self._forecasts[prompt] ** 2 / (self._squares or 1.0)
        return min(0.9, 1 / self.measured + slope_part)


def traffic_ratio(
    pairs: Sequence[Pair],
    logged: LoggedTraffic,
    *,
    factor: float = 1.0,
    confidence: float = statistics.CONFIDENCE,
) -> TrafficRatio | TooFewMeasured | None:
    """Return the cost ratio of all prompts of a log; None if no tokens are counted.

    pairs: the requests of baseline and variant at one load; those to other prompts are left out.
    factor: (the variant's share of a node) / (the baseline's share). confidence: that of both
    intervals (0 to 1).
    """
    counted = [*_of_chosen(pairs, logged)]
    prompts = {pair.plain.prompt_id for pair in counted}
    if len(prompts) < MIN_MEASURED:
        return TooFewMeasured(measured=len(prompts), chosen=len(logged.chosen))
    part = measured_part(counted, logged)
    if part is None:
        return None
    return TrafficRatio(
        logged=logged,
        cost_ratio=part.with_forecast().times(factor).estimate(confidence=confidence),
        without_forecast=part.cost.times(factor).estimate(confidence=confidence),
        measured=part.measured,
    )


def measured_part(pairs: Sequence[Pair], logged: LoggedTraffic) -> MeasuredPart | None:
    """Return the measured prompts' cost ratio and forecast; None if no tokens are counted.

    pairs: of chosen prompts alone, each with a known time and known tokens.
    """
    chosen = {prompt.id: prompt for prompt in logged.chosen}
    requests = Counter(pair.plain.prompt_id for pair in pairs)
    shares = {prompt_id: chosen[prompt_id].parts / n for prompt_id, n in requests.items()}

    def cost(record: RequestRecord) -> Amount | None:
        amounts = cost_amounts(record)
        weight = shares[record.prompt_id] / chosen[record.prompt_id].tokens
        return amounts and (weight * amounts[0], weight * amounts[1])

    def steps(prompt_id: str) -> Amount:
        share = shares[prompt_id]
        return share * chosen[prompt_id].steps_per_token, share

    costs = log_ratio_of_sums(pairs, {logged.prompt_class: 1.0}, cost)
    forecast = log_of_sums([(pair.place, pair.plain.prompt_id) for pair in pairs], steps)
    if costs is None or forecast is None:
        return None
    return MeasuredPart(cost=costs, forecast=forecast, of_all=math.log(logged.steps_per_token))


def _of_chosen(pairs: Iterable[Pair], logged: LoggedTraffic) -> Iterable[Pair]:
    """Yield the pairs of chosen prompts whose time and tokens are known, clustered by prompt.

    In a class with many cases, they would be clustered by case.
    """
    chosen = {prompt.id for prompt in logged.chosen}
    return (
        replace(pair, place=pair.place._replace(stratum=logged.case, prompt=pair.plain.prompt_id))
        for pair in pairs
        if (pair.prompt_class, pair.place.case) == (logged.prompt_class, logged.case)
        and pair.plain.prompt_id in chosen
        and cost_amounts(pair.plain)
        and cost_amounts(pair.drafted)
    )


def _by_prompt(parts: Iterable[Sample]) -> Mapping[str, float]:
    values: defaultdict[str, float] = defaultdict(float)
    for part in parts:
        values[part.prompt] += part.value
    return values
