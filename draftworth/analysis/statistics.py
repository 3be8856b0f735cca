"""Intervals and tests for paired latencies. Standard library only, seeded.

The unit of resampling is the prompt, not the request: greedy requests of one prompt repeat the same
work, so treating them as independent would make every interval too narrow. Sources: Efron and
Tibshirani, An Introduction to the Bootstrap, chapters 12 and 13 (percentile interval); Field and
Welsh 2007 (cluster bootstrap); Schuirmann 1987 (two one-sided tests for equivalence).
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Statistic = Callable[[Sequence[float]], float]
Clusters = Mapping[str, Sequence[float]]
T = TypeVar("T")
# What was seen of each prompt, by stratum.
Strata = Mapping[str, Sequence[Sequence[T]]]

CONFIDENCE = 0.95
RESAMPLES = 2_000
# Below this many prompts resampling them says nothing about other prompts.
MIN_CLUSTERS = 6
SEED = 20_260_101


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure with its interval and its sample; low and high are None with too few prompts."""

    value: float
    low: float | None
    high: float | None
    prompts: int
    samples: int

    @property
    def relative_width(self) -> float | None:
        """Width of the interval / the figure; None without an interval."""
        if self.low is None or self.high is None or self.value == 0:
            return None
        return (self.high - self.low) / abs(self.value)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie, interpolated linearly."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def estimate(
    clusters: Clusters,
    statistic: Statistic = statistics.median,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
) -> Estimate:
    """A statistic over all values with its cluster-bootstrap percentile interval.

    Raises:
        ValueError: there are no values.
    """
    kept = [list(values) for values in clusters.values() if values]
    if not kept:
        raise ValueError("no values to estimate from")
    return stratified_estimate(
        {"": kept},
        lambda strata: statistic([value for values in strata[""] for value in values]),
        confidence=confidence,
        resamples=resamples,
    )


def stratified_estimate(
    strata: Strata[T],
    statistic: Callable[[Strata[T]], float],
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
) -> Estimate:
    """The same of a statistic over several strata, whose clusters are resampled within each."""
    low = high = None
    if all(len(clusters) >= MIN_CLUSTERS for clusters in strata.values()):
        generator = random.Random(SEED)  # noqa: S311 (reproducible resampling, not a secret)
        figures = [
            statistic({name: generator.choices(c, k=len(c)) for name, c in strata.items()})
            for _ in range(resamples)
        ]
        tail = (1 - confidence) / 2
        low, high = quantile(figures, tail), quantile(figures, 1 - tail)
    return Estimate(
        value=statistic(strata),
        low=low,
        high=high,
        prompts=sum(len(clusters) for clusters in strata.values()),
        samples=sum(len(cluster) for clusters in strata.values() for cluster in clusters),
    )


def equivalent(difference: Estimate, *, margin: float) -> bool | None:
    """Whether a difference is shown to be smaller than the margin either way.

    Two one-sided tests at 5% accept exactly when the 90% interval lies within the margin, so
    `difference` must carry a 90% interval. None: too few prompts to say.
    """
    if margin <= 0:
        raise ValueError(f"the margin must be above 0, given {margin}")
    if difference.low is None or difference.high is None:
        return None
    return -margin < difference.low and difference.high < margin


def requests_short(speedup: Estimate | None, *, target_width: float) -> int | None:
    """How many more samples would make the interval as narrow as `target_width` (relative).

    The width of an interval shrinks with the square root of the sample. 0: none; None: there is no
    interval to scale, or no width was asked for.
    """
    width = speedup.relative_width if speedup else None
    if speedup is None or width is None or target_width <= 0:
        return None
    needed = math.ceil(speedup.samples * (width / target_width) ** 2 - 1e-9)
    return max(0, needed - speedup.samples)
