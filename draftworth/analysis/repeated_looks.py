"""Computes how wide an interval must be if a run looks at it several times. Standard library only.

A run that ends as soon as its interval decides, and looks after each round, has many chances to be
wrong: with 95% intervals and seven looks, 17% of runs would miss the truth at some look. Pocock
(1977, "Group sequential methods in the design and analysis of clinical trials") gives all looks one
level, such that all of their intervals hold the truth together in 95% of runs. Intervals of this
level are repeated confidence intervals (Jennison and Turnbull 1989): they hold whenever the run
ends, and for whatever reason.

The level is computed for looks after equal numbers of independent measurements. Measurements with
much in common, such as the same prompts, make the looks more alike, and the intervals too wide but
not too narrow. With few degrees of freedom, Student's t takes the place of the normal distribution
at the same level (Jennison and Turnbull 2000, "Group Sequential Methods", chapter 11).
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import NormalDist

from draftworth.analysis.statistics import CONFIDENCE

_NORMAL = NormalDist()
# Width of the steps over which densities are integrated, in standard deviations of one measurement.
_STEP = 0.3
# A measurement moves the sum by fewer standard deviations than this, except once in 10^15.
_FARTHEST = 8.0


@lru_cache(maxsize=64)
def confidence_at_each_look(looks: int, confidence: float = CONFIDENCE) -> float:
    """Return the confidence of each look's interval such that all hold in `confidence` of runs.

    looks: the most looks that a run can have, at least 1. For 50 looks it takes a second, and four
        times as long for twice as many.
    """
    if looks == 1:
        return confidence
    low, high = (_quantile(1 - (1 - confidence) / parts) for parts in (1, looks))
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if _all_hold(middle, looks) > confidence else (middle, high)
    return 2 * _NORMAL.cdf((low + high) / 2) - 1


def _quantile(confidence: float) -> float:
    return _NORMAL.inv_cdf(0.5 + confidence / 2)


def _all_hold(width: float, looks: int) -> float:
    """Return the probability that the intervals of all looks hold the truth.

    width: half of each interval, in standard errors. After k measurements, the interval holds the
    truth if their sum is within width x sqrt(k) standard deviations of 0. The density of such sums
    is integrated from look to look (Armitage, McPherson and Rowe 1969).
    """
    density: Callable[[float], float] = _NORMAL.pdf
    for look in range(1, looks):
        ends = _points(width * math.sqrt(look))
        density = _next_density([(at, weight * density(at)) for at, weight in ends])
    return 2 * math.fsum(weight * density(at) for at, weight in _points(width * math.sqrt(looks)))


def _next_density(masses: Sequence[tuple[float, float]]) -> Callable[[float], float]:
    """Return the density of the sum after one more measurement.

    masses: (sum, probability) of sums above 0; those below 0 are as probable.
    """
    scale = 1 / math.sqrt(math.tau)

    def density(at: float) -> float:
        return scale * math.fsum(
            mass * (math.exp(-((at - other) ** 2) / 2) + math.exp(-((at + other) ** 2) / 2))
            for other, mass in masses
            if abs(at - other) < _FARTHEST
        )

    return density


def _points(end: float) -> list[tuple[float, float]]:
    """Return (point, weight) of Simpson's rule from 0 to `end`."""
    steps = 2 * math.ceil(end / _STEP / 2)
    step = end / steps
    weights = [1.0, *((4.0, 2.0)[n % 2] for n in range(steps - 1)), 1.0]
    return [(n * step, weight * step / 3) for n, weight in enumerate(weights)]
