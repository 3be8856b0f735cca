"""Computes ratios and quantiles of measurements with intervals. Standard library only.

The errors behind the intervals are computed in `spread`. No random numbers are used, so there
is no seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from draftworth.analysis.clustering import Sample
from draftworth.analysis.spread import MANY_REPETITIONS, Spread, spread, whole_repetitions

CONFIDENCE = 0.95
# A quantile has an interval if at least this many samples lie beyond it: a p99 needs 500 samples.
SAMPLES_BEYOND = 5


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure with its interval and the size of its sample.

    low, high: the ends of the interval; None: there is no interval.
    prompts, samples: number of prompts, and of requests or pairs of requests.
    effective_samples: the number of samples of equal weights that would show rare events as well;
        None for a quantile, and if no error could be computed.
    blocks: number of pairs of blocks, or of blocks of one variant.
    repetitions: number of repetitions that measured every case. With fewer than
        `spread.MANY_REPETITIONS`, the interval holds for the measured repetitions only.
    prompts_width, repetitions_width: the parts of (width of the interval / value) that more rounds
        do not reduce, because prompts or repetitions differ. `prompts_width` is None if it is not
        known or too wide to be computed; `repetitions_width` is infinite if it is too wide.
    """

    value: float
    low: float | None
    high: float | None
    prompts: int
    blocks: int
    samples: int
    effective_samples: float | None = None
    repetitions: int = 1
    prompts_width: float | None = None
    repetitions_width: float = 0.0

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def holds_for_repetitions(self) -> int | None:
        """The number of repetitions that the interval holds for; None: for further ones too."""
        return None if self.repetitions >= MANY_REPETITIONS else self.repetitions

    @property
    def relative_width(self) -> float | None:
        if self.low is None or self.high is None or self.value == 0:
            return None
        return (self.high - self.low) / abs(self.value)

    @property
    def inverse(self) -> Estimate:
        """The estimate of 1 / value. Raises ZeroDivisionError if an end or the value is 0."""
        low, high = (None if end is None else 1 / end for end in (self.high, self.low))
        return Estimate(**{**vars(self), "value": 1 / self.value, "low": low, "high": high})


def interval_of(estimate: Estimate | None) -> tuple[float, float] | None:
    """Return (low, high); None without an estimate, or if the estimate has no interval."""
    return estimate.interval if estimate else None


def ends_of_ratio(value: float, half_width: float) -> tuple[float | None, float | None]:
    """Return the ends of a ratio's interval from half the width of its logarithm's interval.

    With a half-width h of the logarithm, the ends are value x (1 - h) and value / (1 - h), not
    value x e^-h and value x e^h. For a small h, both are nearly the same. With a large h, a few
    prompts that differ much from the rest make the error skewed: in simulations where gains varied
    by 40% over eight prompts, a gain of exactly 5% was judged to be larger in 5.5% of runs with
    e^h, and in 3.9% with 1 / (1 - h). Without the skew it would be 2.5%. From h = 1 on, the ends
    are None.
    """
    return (value * (1 - half_width), value / (1 - half_width)) if half_width < 1 else (None, None)


def ratio_estimate(
    log_ratio: float, error: Spread | None, *, samples: int, confidence: float = CONFIDENCE
) -> Estimate:
    """Return a ratio with its interval, from its logarithm and the logarithm's error.

    error: the error of `log_ratio`; None: the result has no interval. samples: number of requests
    or of pairs of requests. confidence: the share (0 to 1) of intervals that hold the true ratio.
    """
    value = math.exp(log_ratio)
    low, high = ends_of_ratio(value, error.half_width(confidence) if error else math.inf)
    lasting = error.of_prompts.half_width(confidence) if error else math.inf
    between = error.of_repetitions.half_width(confidence) if error else 0.0
    return Estimate(
        value=value,
        low=low,
        high=high,
        prompts=error.prompts if error else 0,
        blocks=error.blocks if error else 0,
        samples=samples,
        effective_samples=error.effective_samples if error else None,
        repetitions=error.repetitions if error else 0,
        prompts_width=_width(lasting) if lasting < 1 else None,
        repetitions_width=_width(between) if between < 1 else math.inf,
    )


def _width(half: float) -> float:
    """Return (width of a ratio's interval) / (the ratio).

    half: half the width of the interval of the ratio's logarithm, below 1.
    """
    return 1 / (1 - half) - (1 - half)


def quantile_estimate(
    samples: Sequence[Sample], share: float, *, confidence: float = CONFIDENCE
) -> Estimate:
    """Return the value below which `share` (0 to 1) of the values lie, with its interval.

    The share of values below the result is uncertain, so it has an interval of its own. The
    quantiles at the ends of that interval are the ends of the result's interval (Woodruff 1952).
    The result has no interval if fewer than `SAMPLES_BEYOND` samples lie beyond the quantile, or if
    an end would lie beyond all samples. IndexError is raised if there are no samples.
    """
    # `quantile`, called up to three times below, sorts again: a list that is sorted already sorts
    # fast.
    values = sorted(sample.value for sample in samples)
    value = quantile(values, share)
    low = high = None
    beyond = min(share, 1 - share)
    if beyond * len(values) >= SAMPLES_BEYOND:
        below = [s._replace(value=((s.value <= value) - share) / len(samples)) for s in samples]
        half = error.half_width(confidence) if (error := spread(below)) else math.inf
        if half < beyond:
            low, high = quantile(values, share - half), quantile(values, share + half)
    return Estimate(
        value=value,
        low=low,
        high=high,
        prompts=len({(s.stratum, s.prompt) for s in samples}),
        blocks=len({(s.stratum, s.block) for s in samples}),
        samples=len(values),
        repetitions=min(map(len, whole_repetitions(samples).values())),
    )


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` (0 to 1) of the values lie, interpolated linearly."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def within(ratio: Estimate | None, *, factor: float) -> bool | None:
    """Return whether a ratio's whole interval is between 1 / factor and factor; None: no interval.

    With a 90% interval, this is the same as two one-sided tests at 5% (Schuirmann 1987).
    """
    ends = interval_of(ratio)
    if ends is None:
        return None
    return 1 / factor < ends[0] and ends[1] < factor


def at_least(successes: int, trials: int, share: float) -> float:
    """Return the probability of at least `successes` successes in `trials` independent trials.

    This is the p-value of an exact, one-sided binomial test. share: the probability that a trial
    succeeds, above 0 and below 1.
    """
    logs = math.log(share), math.log1p(-share)
    chance = math.fsum(
        math.exp(
            math.lgamma(trials + 1)
            - math.lgamma(n + 1)
            - math.lgamma(trials - n + 1)
            + n * logs[0]
            + (trials - n) * logs[1]
        )
        for n in range(successes, trials + 1)
    )
    return min(1.0, chance)  # The rounded sum may exceed 1.
