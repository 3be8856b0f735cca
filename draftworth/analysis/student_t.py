"""Computes quantiles of Student's t distribution. Standard library only."""

import math
import statistics
from functools import lru_cache

# With so many degrees of freedom, Student's t is the normal distribution to four digits.
_MANY_DEGREES = 1_000


def student_t(probability: float, degrees_of_freedom: float) -> float:
    """Return the quantile of Student's t distribution at a probability of 0.5 to 1.

    degrees_of_freedom: at least 1. Between whole numbers the quantile is interpolated over 1 /
    degrees, which makes the quantile a little too large.
    """
    below = math.floor(degrees_of_freedom)
    low, high = _student_t(probability, below), _student_t(probability, below + 1)
    return high + (low - high) * (below / degrees_of_freedom * (below + 1) - below)


@lru_cache(maxsize=1024)
def _student_t(probability: float, degrees_of_freedom: int) -> float:
    """Return the quantile of Student's t distribution for whole degrees of freedom.

    It is found by bisection with the distribution function, which is a finite series for whole
    degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4).
    """
    if degrees_of_freedom >= _MANY_DEGREES:
        return statistics.NormalDist().inv_cdf(probability)
    # The series in `_central` is a function of an angle, so the angle is bisected and not t, where
    # t = tan(angle) x sqrt(degrees of freedom).
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        if 0.5 + _central(angle, degrees_of_freedom) / 2 < probability:
            low = angle
        else:
            high = angle
    return math.tan(low) * math.sqrt(degrees_of_freedom)


def _central(angle: float, degrees_of_freedom: int) -> float:
    """Return P(-t < T < t), where t = tan(angle) x sqrt(degrees of freedom) and T is Student's."""
    odd = degrees_of_freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = term if degrees_of_freedom > 1 else 0.0
    for k in range(2 + odd, degrees_of_freedom, 2):
        term *= (k - 1) / k * math.cos(angle) ** 2
        total += term
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total
