"""Computes ratios (variant / baseline) of figures in a traffic, with their intervals.

For the cost ratio, a class's figure is (sum of end-to-end seconds) / (sum of output tokens), and a
traffic's figure is the weighted mean of its classes' figures. The result is the variant's figure /
the baseline's. So each request weighs as much as it costs, while a median of the requests' ratios
could fall although the bill rises. The error is that of a linear approximation of the ratio's
logarithm (Cochran, Sampling Techniques, chapter 6): a sum, to which each pair adds one part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from draftworth.analysis import statistics
from draftworth.analysis.clustering import Sample
from draftworth.analysis.pairing import Pair, Traffic, paired, samples_of
from draftworth.analysis.spread import Spread, spread
from draftworth.records.results import BlockResult, Price, RequestRecord

T = TypeVar("T")
# What a request adds to the numerator and to the denominator of a figure.
Amount = tuple[float, float]
# A function that returns a request's `Amount`; None: the request, or its pair, is left out.
Amounts = Callable[[RequestRecord], Amount | None]
_NOTHING: Amount = (0.0, 0.0)


def cost_amounts(record: RequestRecord) -> Amount | None:
    """Return a request's (end-to-end seconds, output tokens), which its cost is computed from.

    With a constant number of requests in flight, seconds / tokens is proportional to the cost of a
    token (Little's law). A request that failed has the time that it took, and no tokens. None if
    the time or the tokens are not known, or if the timing cannot be trusted.
    """
    if record.lost_s is not None:
        return record.lost_s, 0.0
    if not record.counts or record.end_to_end_latency_s is None:
        return None
    tokens = record.number_output_tokens
    return (record.end_to_end_latency_s, float(tokens)) if tokens else None


def mean_of(value_of: Callable[[RequestRecord], float | None]) -> Amounts:
    """Return a function that gives (a request's value, 1), so that a ratio of sums is a mean.

    The function gives None for a request that has no value, failed, or has a timing that cannot be
    trusted.
    """

    def amounts(record: RequestRecord) -> tuple[float, float] | None:
        value = value_of(record) if record.counts else None
        return None if value is None else (float(value), 1.0)

    return amounts


@dataclass(frozen=True, kw_only=True)
class LogRatio:
    """The natural logarithm of a ratio, with what its error is computed from.

    parts: for each pair or request, what it adds to the error of the logarithm, with the names of
    its clusters.
    """

    value: float
    parts: tuple[Sample, ...]

    def times(self, factor: float) -> LogRatio:
        return replace(self, value=self.value + math.log(factor))

    def estimate(self, *, confidence: float = statistics.CONFIDENCE) -> statistics.Estimate:
        return self.with_error(spread(self.parts), confidence=confidence)

    def with_error(
        self, error: Spread | None, *, confidence: float = statistics.CONFIDENCE
    ) -> statistics.Estimate:
        """Return the ratio with its interval.

        error: that of the ratio's logarithm, `spread(self.parts)`; None: the result has no
        interval. confidence: that of the interval (0 to 1).
        """
        return statistics.ratio_estimate(
            self.value, error, samples=len(self.parts), confidence=confidence
        )

    def beside(self, other: LogRatio) -> LogRatio:
        """Return the `LogRatio` of (this ratio / another ratio of the same run).

        Both must have the same prompts and blocks, so that the error that both share cancels.
        """
        subtracted = (part._replace(value=-part.value) for part in other.parts)
        return LogRatio(value=self.value - other.value, parts=(*self.parts, *subtracted))

    def over(self, other: LogRatio, *, runs: tuple[str, str]) -> LogRatio:
        """Return the `LogRatio` of (this ratio / a ratio of another run).

        The runs have the same prompts but different blocks; each has its own sample of repetitions.
        runs: the ids of this ratio's run and of the other's.
        """
        parts = (
            part._replace(side=run, block=f"{run}/{part.block}", value=sign * part.value)
            for run, ratio, sign in zip(runs, (self, other), (1, -1), strict=True)
            for part in ratio.parts
        )
        return LogRatio(value=self.value - other.value, parts=tuple(parts))


@dataclass(frozen=True)
class _Sums:
    """One variant's sums of numerators (`over`) and denominators (`under`), each by prompt class.

    weights: each class's weight in the mean of the ratios over / under.
    """

    over: Mapping[str, float]
    under: Mapping[str, float]
    weights: Mapping[str, float]

    @cached_property
    def total(self) -> float:
        return math.fsum(w * self.over[c] / self.under[c] for c, w in self.weights.items())

    def part(self, prompt_class: str, over: float, under: float) -> tuple[float, float]:
        """Return what a request adds to the error of log(`total`), and its share of `total`.

        `total` is the weighted mean over the classes of (sum of numerators / sum of denominators).
        The error is that of a linear approximation of log(`total`). The share of `total` is the
        part that would be missing without the request's numerator, divided by `total`.
        over, under: the request's own numerator and denominator, as added to its class's sums.
        """
        sum_over, sum_under = self.over[prompt_class], self.under[prompt_class]
        share = self.weights[prompt_class] * sum_over / sum_under / self.total
        moved = over / sum_over if sum_over else 0.0
        return share * (moved - under / sum_under), share * moved


def log_of_sums(
    requests: Sequence[tuple[Sample, T]], amounts: Callable[[T], tuple[float, float] | None]
) -> LogRatio | None:
    """Return log(sum of numerators / sum of denominators) over requests; None if a sum is 0.

    requests: each with a `Sample` that names its clusters. amounts: returns what a request adds to
    (the numerator, the denominator), or None to leave the request out.
    """
    return log_of_traffic({"": requests}, {"": 1.0}, amounts)


def log_of_traffic(
    requests: Mapping[str, Sequence[tuple[Sample, T]]],
    weights: Mapping[str, float],
    amounts: Callable[[T], tuple[float, float] | None],
) -> LogRatio | None:
    """Return log(the weighted mean over classes of sum of numerators / sum of denominators).

    None if a class's sum of denominators is 0, or if the mean is not above 0.
    requests: by class, (a `Sample` that names the request's clusters, the request).
    weights: each class's weight in the mean. amounts: returns what a request adds to (the
    numerator, the denominator) of its class, or None to leave the request out.
    """
    placed = [
        (name, place, amount)
        for name in weights
        for place, record in requests[name]
        if (amount := amounts(record)) is not None
    ]
    over, under = (
        {n: math.fsum(a[side] for name, _, a in placed if name == n) for n in weights}
        for side in (0, 1)
    )
    sums = _Sums(over, under, weights)
    if not all(under.values()) or sums.total <= 0:
        return None
    parts = tuple(
        place._replace(value=value, weight=weight)
        for name, place, amounts_of in placed
        for value, weight in [sums.part(name, *amounts_of)]
    )
    return LogRatio(value=math.log(sums.total), parts=parts)


def log_seconds_per_token(
    blocks: Sequence[BlockResult], traffic: Traffic, variant: str
) -> LogRatio | None:
    """Return log(the seconds that one request of a variant takes per output token) in a traffic.

    None if a class has no request with counted tokens.
    """
    samples = {g.prompt_class: samples_of(blocks, g, variant) for g in traffic.groups}
    return log_of_traffic(samples, traffic.weights, cost_amounts)


def _pair_amounts(pair: Pair, amounts: Amounts) -> tuple[Amount, Amount] | None:
    """Return the amounts of a pair's requests (baseline, variant); None: leave the pair out.

    A failed request has a time, which is lost, and no tokens. If one request of the pair failed,
    only its lost time counts, and the other request has the amounts (0, 0); if both failed, both
    lost times count. If failed requests did not count, a variant that refuses expensive prompts
    would look cheaper.
    """
    plain, drafted = amounts(pair.plain), amounts(pair.drafted)
    if plain is None or drafted is None:
        return None
    if plain[1] and drafted[1]:
        return plain, drafted
    return _NOTHING if plain[1] else plain, _NOTHING if drafted[1] else drafted


def log_ratio_of_sums(
    pairs: Sequence[Pair],
    weights: Mapping[str, float],
    amounts: Amounts,
    *,
    factors: Mapping[str, float] | None = None,
) -> LogRatio | None:
    """Return log(the variant's figure / the baseline's figure) in a traffic; None if a sum is 0.

    A figure is the weighted mean of the classes' ratios, each a sum of numerators / a sum of
    denominators. weights: by class. amounts: returns what a request adds to (the numerator, the
    denominator), or None to leave its pair out.
    factors: by class, what each numerator of the variant is multiplied by (default: 1).
    """
    counted = [
        (pair, (plain, _times(drafted, (factors or {}).get(pair.prompt_class, 1.0))))
        for pair in pairs
        if (both := _pair_amounts(pair, amounts))
        for plain, drafted in [both]
    ]
    sides = []
    for side in (0, 1):
        over, under = dict.fromkeys(weights, 0.0), dict.fromkeys(weights, 0.0)
        for pair, both in counted:
            over[pair.prompt_class] += both[side][0]
            under[pair.prompt_class] += both[side][1]
        if not all(under.values()):
            return None
        sides.append(_Sums(over, under, weights))
    baseline, variant = sides
    if not (baseline.total and variant.total):
        return None
    parts = tuple(
        pair.sample(value - other, weight=weight + plain_weight)
        for pair, (plain, drafted) in counted
        for value, weight in [variant.part(pair.prompt_class, *drafted)]
        for other, plain_weight in [baseline.part(pair.prompt_class, *plain)]
    )
    return LogRatio(value=math.log(variant.total / baseline.total), parts=parts)


def _times(amount: Amount, factor: float) -> Amount:
    return factor * amount[0], amount[1]


def log_cost_ratio(
    pairs: Sequence[Pair], traffic: Traffic, *, factor: float = 1.0
) -> LogRatio | None:
    """Return log(the variant's cost of an output token / the baseline's) in a traffic.

    None for a Poisson load, which has no cost per token, and if a class has no pair with counted
    tokens. factor: (the variant's share of a node) / (the baseline's share).
    """
    if not traffic.load.has_cost_per_token:
        return None
    log_ratio = log_ratio_of_sums(pairs, traffic.weights, cost_amounts)
    return log_ratio.times(factor) if log_ratio else None


def log_cost_ratio_by_class(
    pairs: Sequence[Pair], traffic: Traffic, factors: Mapping[str, float]
) -> LogRatio | None:
    """Return log(cost of an output token with `Pair.drafted` / with `Pair.plain`) in a traffic.

    Unlike in `log_cost_ratio`, the servers' price ratio may differ from class to class, because
    each class may be served by the variant or by the baseline.
    factors: by class, the price of the server that sent the class's `drafted` answers / the price
    of the one that sent its `plain` answers. None if a class has no pair with counted tokens.
    """
    return log_ratio_of_sums(pairs, traffic.weights, cost_amounts, factors=factors)


def cost_ratio(
    blocks: Sequence[BlockResult],
    traffic: Traffic,
    *,
    variant: str,
    baseline: str,
    price: Price | None = None,
    confidence: float = statistics.CONFIDENCE,
) -> statistics.Estimate | None:
    """Return the variant's cost of an output token / the baseline's, with its interval.

    None for a Poisson load, which has no cost per token, and if a class has no pair with counted
    tokens. Without a price, both servers count as equally expensive. confidence: that of the
    interval (0 to 1).
    """
    pairs = paired(blocks, traffic, variant=variant, baseline=baseline)
    log_ratio = log_cost_ratio(pairs, traffic, factor=share_ratio(price, variant, baseline))
    return log_ratio.estimate(confidence=confidence) if log_ratio else None


def share_ratio(price: Price | None, variant: str, baseline: str) -> float:
    """Return the variant's share of a node / the baseline's; 1 if the shares are not known."""
    shares = price.node_shares if price else {}
    variant_share, baseline_share = shares.get(variant), shares.get(baseline)
    return variant_share / baseline_share if variant_share and baseline_share else 1.0


def ratio_of_typical(
    pairs: Sequence[Pair], field: str, *, confidence: float = statistics.CONFIDENCE
) -> statistics.Estimate | None:
    """Return the geometric mean over pairs of (the variant's value / the baseline's value).

    A geometric mean depends less on single requests than a ratio of sums does. None if no pair has
    values above 0. field: the field of `RequestRecord` that has the values. confidence: that of the
    interval (0 to 1).
    """
    log_ratios = [
        (pair, math.log(drafted / plain))
        for pair in pairs
        if (plain := getattr(pair.plain, field)) and (drafted := getattr(pair.drafted, field))
    ]
    if not log_ratios:
        return None
    mean = math.fsum(value for _, value in log_ratios) / len(log_ratios)
    parts = tuple(pair.sample((value - mean) / len(log_ratios)) for pair, value in log_ratios)
    return LogRatio(value=mean, parts=parts).estimate(confidence=confidence)


def ratio_of_quantiles(
    plain: Sequence[Sample], drafted: Sequence[Sample], share: float, *, confidence: float
) -> statistics.Estimate | None:
    """Return a quantile of the variant's values (`drafted`) / that of the baseline's (`plain`).

    None without samples, or if a quantile is 0. share: the share (0 to 1) of values below the
    quantile. The interval ignores that baseline and variant have the same prompts, so it is too
    wide, never too narrow.
    """
    if not plain or not drafted:
        return None
    one = statistics.quantile_estimate(plain, share, confidence=confidence)
    other = statistics.quantile_estimate(drafted, share, confidence=confidence)
    if not one.value or not other.value:
        return None
    half_widths = [
        math.log(side.high / side.low) / 2
        for side in (one, other)
        if side.low and side.high is not None
    ]
    value = other.value / one.value
    half = math.hypot(*half_widths) if len(half_widths) == 2 else math.inf
    low, high = statistics.ends_of_ratio(value, half)
    return statistics.Estimate(
        value=value,
        low=low,
        high=high,
        prompts=min(one.prompts, other.prompts),
        blocks=min(one.blocks, other.blocks),
        samples=min(one.samples, other.samples),
        repetitions=min(one.repetitions, other.repetitions),
    )
