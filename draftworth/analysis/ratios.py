"""Ratios of two variants in a traffic, with their intervals.

The ratio of sums: of a class, sum of a figure / sum of what it is per (end-to-end seconds / output
tokens); of a traffic, the weighted mean of its classes' ratios; then variant / baseline. A request
counts by its tokens, so a few long requests weigh what they cost. It is not the mean of requests'
ratios, and not their median, which can fall while the bill rises. The error is that of its
logarithm's linear part (Cochran, Sampling Techniques, chapter 6), which is a sum over pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from draftworth.analysis.clustering import Part, Sample, Spread, spread, student_t
from draftworth.analysis.pairing import Pair, Traffic
from draftworth.analysis.statistics import (
    CONFIDENCE,
    Estimate,
    quantile_estimate,
    ratio_estimate,
)
from draftworth.records.load import PoissonLoad
from draftworth.records.results import RequestRecord

# What a request adds to both sums; None: it adds nothing, and its pair is left out.
Amounts = Callable[[RequestRecord], tuple[float, float] | None]


def cost_amounts(record: RequestRecord) -> tuple[float, float] | None:
    """End-to-end seconds and output tokens: by Little's law, at a load that is kept full, their
    ratio is what a token costs, and its inverse the throughput.

    A request that timed out has taken its time and given nobody a token.
    """
    if record.timed_out_after_s is not None:
        return record.timed_out_after_s, 0.0
    if not record.counts or record.end_to_end_latency_s is None:
        return None
    tokens = record.number_output_tokens
    return (record.end_to_end_latency_s, float(tokens)) if tokens else None


def mean_of(field: str) -> Amounts:
    """A figure of each request that counts, and one request; 0 is a figure like any."""

    def amounts(record: RequestRecord) -> tuple[float, float] | None:
        value = getattr(record, field) if record.counts else None
        return None if value is None else (float(value), 1.0)

    return amounts


@dataclass(frozen=True, kw_only=True)
class LogRatio:
    """The logarithm of variant / baseline, and each pair's part in its error."""

    value: float
    parts: tuple[Sample, ...]

    def times(self, factor: float) -> LogRatio:
        """Of a ratio that is so many times as large."""
        return replace(self, value=self.value + math.log(factor))

    def estimate(self, *, confidence: float = CONFIDENCE) -> Estimate:
        """The ratio with its interval."""
        return ratio_estimate(
            self.value, spread(self.parts), samples=len(self.parts), confidence=confidence
        )

    def beside(self, other: LogRatio) -> LogRatio:
        """This ratio / one of the same run: prompts, rounds and repetitions are those of both."""
        others = (replace(part, value=-part.value) for part in other.parts)
        return LogRatio(value=self.value - other.value, parts=(*self.parts, *others))

    def over(self, other: LogRatio, *, runs: tuple[str, str]) -> LogRatio:
        """This ratio / one of another run: prompts are the same in both, blocks are not.

        Nor are repetitions, and each run's are a sample of their own.
        """
        parts = (
            replace(part, side=run, block=f"{run}/{part.block}", value=sign * part.value)
            for run, ratio, sign in zip(runs, (self, other), (1, -1), strict=True)
            for part in ratio.parts
        )
        return LogRatio(value=self.value - other.value, parts=tuple(parts))


@dataclass(frozen=True)
class _Sums:
    """One side's ratio of a traffic, by class: sums, and the class's share of the whole."""

    over: Mapping[str, float]
    under: Mapping[str, float]
    weights: Mapping[str, float]

    @property
    def total(self) -> float:
        return math.fsum(w * self.over[c] / self.under[c] for c, w in self.weights.items())

    def part(self, prompt_class: str, over: float, under: float) -> float:
        """What a request's amounts move the logarithm of the total by."""
        sum_over, sum_under = self.over[prompt_class], self.under[prompt_class]
        share = self.weights[prompt_class] * sum_over / sum_under / self.total
        moved = over / sum_over if sum_over else 0.0
        return share * (moved - under / sum_under)


def log_of_sums(
    requests: Sequence[tuple[Sample, RequestRecord]], amounts: Amounts
) -> LogRatio | None:
    """One side alone: the logarithm of sum / sum; None without a request, or where a sum is 0."""
    return log_of_traffic({"": requests}, {"": 1.0}, amounts)


def log_of_traffic(
    requests: Mapping[str, Sequence[tuple[Sample, RequestRecord]]],
    weights: Mapping[str, float],
    amounts: Amounts,
) -> LogRatio | None:
    """The same of a traffic, by class; None where a class has no request, or all sums are 0."""
    found = [
        (name, place, amount)
        for name in weights
        for place, record in requests[name]
        if (amount := amounts(record)) is not None
    ]
    over, under = (
        {n: math.fsum(a[side] for name, _, a in found if name == n) for n in weights}
        for side in (0, 1)
    )
    sums = _Sums(over, under, weights)
    if not all(under.values()) or not sums.total:
        return None
    parts = tuple(replace(place, value=sums.part(name, *a)) for name, place, a in found)
    return LogRatio(value=math.log(sums.total), parts=parts)


def log_ratio_of_sums(
    pairs: Sequence[Pair], weights: Mapping[str, float], amounts: Amounts
) -> LogRatio | None:
    """Variant / baseline of a traffic; None where a class has no pair, or a sum is 0."""
    found = [
        (pair, (plain, drafted))
        for pair in pairs
        if (plain := amounts(pair.plain)) and (drafted := amounts(pair.drafted))
    ]
    sides = []
    for side in (0, 1):
        over, under = dict.fromkeys(weights, 0.0), dict.fromkeys(weights, 0.0)
        for pair, both in found:
            over[pair.prompt_class] += both[side][0]
            under[pair.prompt_class] += both[side][1]
        if not all(under.values()):
            return None
        sides.append(_Sums(over, under, weights))
    baseline, variant = sides
    if not (baseline.total and variant.total):
        return None
    parts = tuple(
        pair.sample(
            variant.part(pair.prompt_class, *drafted) - baseline.part(pair.prompt_class, *plain)
        )
        for pair, (plain, drafted) in found
    )
    return LogRatio(value=math.log(variant.total / baseline.total), parts=parts)


def log_cost_ratio(pairs: Sequence[Pair], traffic: Traffic) -> LogRatio | None:
    """Variant / baseline of the cost of an output token; None where it cannot be told.

    So also with arrivals at a rate: a server that waits for them costs no less.
    """
    if isinstance(traffic.load, PoissonLoad):
        return None
    return log_ratio_of_sums(pairs, traffic.weights, cost_amounts)


def ratio_of_typical(
    pairs: Sequence[Pair], field: str, *, confidence: float = CONFIDENCE
) -> Estimate | None:
    """Variant / baseline of one figure: the geometric mean of the pairs' ratios.

    Of the logarithms, so that no single request decides it; None without a pair that has it.
    """
    found = [
        (pair, math.log(drafted / plain))
        for pair in pairs
        if (plain := getattr(pair.plain, field)) and (drafted := getattr(pair.drafted, field))
    ]
    if not found:
        return None
    mean = math.fsum(value for _, value in found) / len(found)
    parts = tuple(pair.sample((value - mean) / len(found)) for pair, value in found)
    return LogRatio(value=mean, parts=parts).estimate(confidence=confidence)


def ratio_of_quantiles(
    plain: Sequence[Sample], drafted: Sequence[Sample], share: float, *, confidence: float
) -> Estimate | None:
    """Variant / baseline of a quantile; None without a sample or where one is 0.

    What both have in common (the prompts) is not taken off the error, which makes it too wide
    rather than too narrow.
    """
    if not plain or not drafted:
        return None
    one = quantile_estimate(plain, share, confidence=confidence)
    other = quantile_estimate(drafted, share, confidence=confidence)
    if not one.value or not other.value:
        return None
    return ratio_estimate(
        math.log(other.value / one.value),
        _joined(one, other, confidence),
        samples=min(one.samples, other.samples),
        confidence=confidence,
    )


def _joined(one: Estimate, other: Estimate, confidence: float) -> Spread | None:
    """Of a ratio of two figures whose errors are taken as independent."""
    half_widths = [
        math.log(found.high / found.low) / 2
        for found in (one, other)
        if found.low and found.high is not None
    ]
    if len(half_widths) < 2:
        return None
    prompts, blocks = min(one.prompts, other.prompts), min(one.blocks, other.blocks)
    degrees = max(1, min(prompts, blocks) - 1)
    error = math.hypot(*half_widths) / student_t(0.5 + confidence / 2, degrees)
    part = Part(error**2, degrees)
    return Spread(
        within=part,
        between=(),
        of_prompts=part,
        of_repetitions=Part(0.0, degrees),
        prompts=prompts,
        blocks=blocks,
        repetitions=min(one.repetitions, other.repetitions),
    )
