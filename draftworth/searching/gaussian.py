"""Numbers that are not known well and hang together: what is known of all when some were measured.

A Gaussian process over finitely many points (Rasmussen and Williams 2006, "Gaussian Processes for
Machine Learning", section 2.2), conditioned on one measurement after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

_STANDARD = NormalDist()


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """Means, and how they vary together: covariance[i][j]."""

    means: Sequence[float]
    covariance: Sequence[Sequence[float]]

    def measured(self, index: int, value: float, *, variance: float) -> Gaussian:
        """After one of the numbers was measured with an error of that variance."""
        column = [row[index] for row in self.covariance]
        total = column[index] + variance
        if total <= 0:
            return self
        surprise = (value - self.means[index]) / total
        return Gaussian(
            means=[mean + c * surprise for mean, c in zip(self.means, column, strict=True)],
            covariance=[
                [cell - c * other / total for cell, other in zip(row, column, strict=True)]
                for row, c in zip(self.covariance, column, strict=True)
            ],
        )

    def deviation(self, index: int) -> float:
        """Standard deviation of one of the numbers."""
        return math.sqrt(max(0.0, self.covariance[index][index]))

    def difference(self, one: int, other: int, *, factor: float = 1.0) -> Normal:
        """factor x one - other."""
        variance = (
            factor**2 * self.covariance[one][one]
            + self.covariance[other][other]
            - 2 * factor * self.covariance[one][other]
        )
        mean = factor * self.means[one] - self.means[other]
        return Normal(mean=mean, deviation=math.sqrt(max(0.0, variance)))


@dataclass(frozen=True, kw_only=True)
class Normal:
    """One normal number."""

    mean: float
    deviation: float

    def chance_above_zero(self) -> float:
        """Between 0 and 1."""
        if self.deviation <= 0:
            return float(self.mean > 0)
        return _STANDARD.cdf(self.mean / self.deviation)

    def mean_above_zero(self) -> float:
        """Of the number where it is above 0, counted as 0 elsewhere (expected improvement, Jones,
        Schonlau and Welch 1998, equation 15)."""
        if self.deviation <= 0:
            return max(0.0, self.mean)
        z = self.mean / self.deviation
        return self.mean * _STANDARD.cdf(z) + self.deviation * _STANDARD.pdf(z)
