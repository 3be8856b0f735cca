"""Estimates correlated numbers: a measurement of one number changes the estimates of all.

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
    """Normally distributed numbers. covariance[i][j]: the covariance of the numbers i and j."""

    means: Sequence[float]
    covariance: Sequence[Sequence[float]]

    def measured(self, index: int, value: float, *, variance: float) -> Gaussian:
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
        return math.sqrt(max(0.0, self.covariance[index][index]))

    def difference(self, one: int, other: int, *, factor: float = 1.0) -> Normal:
        """Return the distribution of factor x (number `one`) - (number `other`)."""
        variance = (
            factor**2 * self.covariance[one][one]
            + self.covariance[other][other]
            - 2 * factor * self.covariance[one][other]
        )
        mean = factor * self.means[one] - self.means[other]
        return Normal(mean=mean, deviation=math.sqrt(max(0.0, variance)))


@dataclass(frozen=True, kw_only=True)
class Normal:
    """A normally distributed number."""

    mean: float
    deviation: float

    def chance_above_zero(self) -> float:
        if self.deviation <= 0:
            return float(self.mean > 0)
        return _STANDARD.cdf(self.mean / self.deviation)

    def mean_above_zero(self) -> float:
        """Return the mean of max(0, number): the expected improvement (Jones, Schonlau and Welch
        1998, equation 15)."""
        if self.deviation <= 0:
            return max(0.0, self.mean)
        z = self.mean / self.deviation
        return self.mean * _STANDARD.cdf(z) + self.deviation * _STANDARD.pdf(z)
