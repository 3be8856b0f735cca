"""Intervals for figures of prompts that were measured in pairs of blocks. Standard library only.

Two things make the measurements of a run alike: they are of one prompt (greedy requests of a prompt
repeat the same work), and they are of one pair of blocks (the machine had the same minute). Both
are sampled, and neither lies within the other, so the variance of a figure is clustered by both
(Cameron, Gelbach and Miller 2011, "Robust Inference With Multiway Clustering"), never taken as
smaller than by one alone (Davezies, D'Haultfoeuille and Guyonvarch 2021), with Student's t of the
degrees of freedom of the smaller of both samples. Within strata (the cases of a class), because the
cases were chosen and not drawn. Nothing is drawn at random, so there is no seed.

What these intervals cover, planted and counted: `benchmarks/calibration.py`, docs/calibration.md.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

CONFIDENCE = 0.95
# Below this many prompts those measured say nothing about others.
MIN_PROMPTS = 6
# A quantile has an interval where so many samples lie beyond it: 500 samples for a p99.
SAMPLES_BEYOND = 5
# From here on Student's distribution is the normal one to four digits.
_MANY_DEGREES = 1_000


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure with its interval and its sample; low and high are None where there is none.

    blocks: pairs of blocks, or blocks of one variant.
    lasting_width: what would be left of `relative_width` after endless rounds of the same prompts.
    """

    value: float
    low: float | None
    high: float | None
    prompts: int
    blocks: int
    samples: int
    lasting_width: float | None = None

    @property
    def relative_width(self) -> float | None:
        """Width of the interval / the figure; None without an interval."""
        if self.low is None or self.high is None or self.value == 0:
            return None
        return (self.high - self.low) / abs(self.value)

    @property
    def inverse(self) -> Estimate:
        """Of 1 / the figure; for a ratio, of the ratio the other way round.

        Raises:
            ZeroDivisionError: the figure is 0.
        """
        low, high = (None if end is None else 1 / end for end in (self.high, self.low))
        return Estimate(**{**vars(self), "value": 1 / self.value, "low": low, "high": high})


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Where a value comes from, and the value: a figure, or its part in an estimate's error."""

    stratum: str
    prompt: str
    block: str
    value: float


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The standard error of a sum of samples.

    lasting_error: the part of it that more rounds of the same prompts do not make smaller.
    """

    standard_error: float
    lasting_error: float
    degrees_of_freedom: int
    prompts: int
    blocks: int

    def half_width(self, confidence: float) -> float:
        """Of an interval, in the unit of the sum."""
        return self.standard_error * self._t(confidence)

    def lasting_half_width(self, confidence: float) -> float:
        """The same after endless rounds."""
        return self.lasting_error * self._t(confidence)

    def _t(self, confidence: float) -> float:
        return student_t(0.5 + confidence / 2, self.degrees_of_freedom)


def spread(samples: Sequence[Sample]) -> Spread | None:
    """How far the sum of the samples' values may be off, clustered by prompt and by block.

    None where it cannot be known: fewer than `MIN_PROMPTS` prompts, or one block alone.
    """
    by_prompt = _between(_sums((s.stratum, s.prompt, s.value) for s in samples))
    by_block = _between(_sums((s.stratum, s.block, s.value) for s in samples))
    prompts = len({(s.stratum, s.prompt) for s in samples})
    if by_prompt is None or by_block is None or prompts < MIN_PROMPTS:
        return None
    # Where each prompt was seen once, it shows as much as its block does, and nothing of itself.
    single = _between(_sums((s.stratum, str(i), s.value) for i, s in enumerate(samples)))
    both = single[0] if single else 0.0
    (of_prompts, prompt_degrees), (of_blocks, block_degrees) = by_prompt, by_block
    return Spread(
        standard_error=math.sqrt(max(of_prompts, of_blocks, of_prompts + of_blocks - both)),
        lasting_error=math.sqrt(max(0.0, of_prompts - both)),
        degrees_of_freedom=min(prompt_degrees, block_degrees),
        prompts=prompts,
        blocks=len({(s.stratum, s.block) for s in samples}),
    )


def ratio_estimate(
    log_ratio: float, found: Spread | None, *, samples: int, confidence: float = CONFIDENCE
) -> Estimate:
    """A ratio with the interval that its logarithm's error makes.

    A half-width h of the logarithm becomes a factor of 1 / (1 - h) either way, not e^h: both are
    the same where h is small, and where it is not, a few prompts that differ much from the rest
    make the error one-sided. With e^h a gain of exactly 5% was called more than that in 5.5% of
    runs where gains spread by 40% over eight prompts, with this factor in 3.9% (2.5% would be the
    confidence's own part, were there no such skew).
    """
    half = found.half_width(confidence) if found else math.inf
    value = math.exp(log_ratio)
    lasting = found.lasting_half_width(confidence) if found else math.inf
    return Estimate(
        value=value,
        low=value * (1 - half) if half < 1 else None,
        high=value / (1 - half) if half < 1 else None,
        prompts=found.prompts if found else 0,
        blocks=found.blocks if found else 0,
        samples=samples,
        lasting_width=1 / (1 - lasting) - (1 - lasting) if lasting < 1 else None,
    )


def quantile_estimate(
    samples: Sequence[Sample], share: float, *, confidence: float = CONFIDENCE
) -> Estimate:
    """The value below which `share` (0 to 1) of the values lie, with its interval.

    The interval is between the quantiles at the ends of the interval of that share, which is
    clustered as any figure (Woodruff 1952). None with fewer than `SAMPLES_BEYOND` samples beyond
    the quantile, or where an end would lie beyond every sample.

    Raises:
        ValueError: there are no samples.
    """
    # Sorted once: each of the three quantiles sorts what it is given.
    values = sorted(sample.value for sample in samples)
    value = quantile(values, share)
    low = high = None
    found = _spread_of_share(samples, value, share)
    if found and min(share, 1 - share) * len(values) >= SAMPLES_BEYOND:
        half = found.half_width(confidence)
        if half < min(share, 1 - share):
            low, high = quantile(values, share - half), quantile(values, share + half)
    return Estimate(
        value=value,
        low=low,
        high=high,
        prompts=len({(s.stratum, s.prompt) for s in samples}),
        blocks=len({(s.stratum, s.block) for s in samples}),
        samples=len(values),
    )


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie, interpolated linearly."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def within(ratio: Estimate | None, *, factor: float) -> bool | None:
    """Whether a ratio is shown to lie within 1 / factor and factor; None: no interval to say.

    With an interval of 90% these are two one-sided tests at 5% (Schuirmann 1987).
    """
    if factor <= 1:
        raise ValueError(f"the factor must be above 1, given {factor}")
    if ratio is None or ratio.low is None or ratio.high is None:
        return None
    return 1 / factor < ratio.low and ratio.high < factor


@lru_cache(maxsize=1024)
def student_t(probability: float, degrees_of_freedom: int) -> float:
    """The quantile of Student's t distribution at a probability of 0.5 to 1.

    By bisection of its distribution function, whose series for whole degrees of freedom is finite
    (Abramowitz and Stegun 26.7.3 and 26.7.4).
    """
    if degrees_of_freedom >= _MANY_DEGREES:
        return statistics.NormalDist().inv_cdf(probability)
    # As an angle: the tangent of it x the root of the degrees of freedom is t.
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        if 0.5 + _central(angle, degrees_of_freedom) / 2 < probability:
            low = angle
        else:
            high = angle
    return math.tan(low) * math.sqrt(degrees_of_freedom)


def _central(angle: float, degrees_of_freedom: int) -> float:
    """The probability of a t between minus and plus this angle's."""
    odd = degrees_of_freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = term if degrees_of_freedom > 1 else 0.0
    for k in range(2 + odd, degrees_of_freedom, 2):
        term *= (k - 1) / k * math.cos(angle) ** 2
        total += term
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


def _spread_of_share(samples: Sequence[Sample], value: float, share: float) -> Spread | None:
    """Of the share of samples that lie at or below a value."""
    count = len(samples)
    return spread(
        [
            Sample(
                stratum=s.stratum,
                prompt=s.prompt,
                block=s.block,
                value=((s.value <= value) - share) / count,
            )
            for s in samples
        ]
    )


Sums = dict[str, dict[str, float]]


def _sums(samples: Iterable[tuple[str, str, float]]) -> Sums:
    """Sums by stratum and cluster."""
    found: Sums = {}
    for stratum, cluster, value in samples:
        clusters = found.setdefault(stratum, {})
        clusters[cluster] = clusters.get(cluster, 0.0) + value
    return found


def _between(sums: Sums) -> tuple[float, int] | None:
    """Variance of the total when clusters are drawn within each stratum; degrees of freedom.

    A stratum of one cluster shows no variance, so it is put together with another one; what lies
    between the two then counts as variance too. None where there is one cluster in all.
    """
    strata = [[*clusters.values()] for clusters in sums.values()]
    lone = [value for values in strata if len(values) == 1 for value in values]
    several = sorted((values for values in strata if len(values) > 1), key=len)
    if len(lone) == 1 and several:
        several[0] = [*several[0], *lone]
    elif lone:
        several.append(lone)
    degrees = sum(len(values) - 1 for values in several)
    if degrees < 1:
        return None
    variance = sum(len(v) / (len(v) - 1) * _squares(v) for v in several)
    return variance, degrees


def _squares(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


@dataclass(frozen=True, kw_only=True)
class Shortfall:
    """What an interval lacks to be as narrow as was asked for; 0: nothing more of that helps.

    requests: more measured requests of the same prompts, by which it would be reached.
    prompts: more different prompts, where no number of requests would.
    """

    requests: int = 0
    prompts: int = 0

    def __bool__(self) -> bool:
        """Whether anything is missing."""
        return bool(self.requests or self.prompts)

    def words(self, target_width: float) -> str:
        """What it would take, for a reader."""
        if self.prompts:
            return (
                f"about {self.prompts} more prompts would reach {target_width:.0%}: those measured "
                "differ too much among themselves"
            )
        return f"about {self.requests} more requests would reach {target_width:.0%}"


def shortfall(ratio: Estimate | None, *, target_width: float) -> Shortfall | None:
    """How much more would make the interval as narrow as `target_width` (relative).

    The square of a width is that of the lasting width, which shrinks with the number of prompts,
    and the rest, which shrinks with the number of rounds. None: there is no interval to scale, or
    no width was asked for.
    """
    width = ratio.relative_width if ratio else None
    if ratio is None or width is None or target_width <= 0:
        return None
    if width <= target_width:
        return Shortfall()
    lasting = ratio.lasting_width or 0.0
    if lasting >= target_width:
        more = ratio.prompts * ((lasting / target_width) ** 2 - 1)
        return Shortfall(prompts=max(1, math.ceil(more - 1e-9)))
    needed = ratio.samples * (width**2 - lasting**2) / (target_width**2 - lasting**2)
    return Shortfall(requests=max(1, math.ceil(needed - 1e-9) - ratio.samples))


def more_rounds_help(ratio: Estimate, *, target_width: float) -> bool:
    """Whether further rounds of the same prompts are worth their time.

    Not where the prompts alone keep the interval too wide, and it is already as narrow as they
    allow, but for a tenth.
    """
    width, lasting = ratio.relative_width, ratio.lasting_width
    if width is None or lasting is None:
        return True
    return lasting < target_width or width > lasting * 1.1
