"""Estimates of correlated numbers, each updated when one of the numbers is measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

_STANDARD = NormalDist()


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """Estimates of correlated numbers: a measurement of one changes the estimates of all.

    A Gaussian process over finitely many points (Rasmussen and Williams 2006, "Gaussian Processes
    for Machine Learning", section 2.2), updated with one measurement after the other.
    means[i]: the estimate of number i. covariance[i][j]: the covariance of the errors of the
    estimates i and j. The errors are normally distributed.
    """

    means: Sequence[float]
    covariance: Sequence[Sequence[float]]

    def measured(self, index: int, value: float, *, variance: float) -> Gaussian:
        column = [row[index] for row in self.covariance]
        total = column[index] + variance
        if total <= 0:
            return self
        surprise = value - self.means[index]
        gains = [c / total for c in column]
        return Gaussian(
            means=[mean + gain * surprise for mean, gain in zip(self.means, gains, strict=True)],
            covariance=[
                [cell - c * gain for cell, gain in zip(row, gains, strict=True)]
                for row, c in zip(self.covariance, column, strict=True)
            ],
        )

    def log_density(self, index: int, value: float, *, variance: float) -> float:
        """Return the log of the probability density at which number `index` is measured as `value`.

        A measurement without any doubt, before or in it, says nothing: 0 is returned.
        """
        total = self.covariance[index][index] + variance
        if total <= 0:
            return 0.0
        return -(math.log(2 * math.pi * total) + (value - self.means[index]) ** 2 / total) / 2

    def plus(self, shares: Sequence[float], *, mean: float, deviation: float) -> Gaussian:
        """Return estimates of the numbers plus their shares of an amount that nobody knows.

        shares[i]: what is added to number i / the amount. mean, deviation: those of the amount.
        """
        variance = deviation**2
        return Gaussian(
            means=[number + mean * share for number, share in zip(self.means, shares, strict=True)],
            covariance=[
                [cell + variance * share * s for cell, s in zip(row, shares, strict=True)]
                for row, share in zip(self.covariance, shares, strict=True)
            ],
        )

    def deviation(self, index: int) -> float:
        return math.sqrt(max(0.0, self.covariance[index][index]))

    def difference(self, one: int, other: int, *, factor: float = 1.0) -> NormalDist:
        """Return the distribution of the difference factor x (number `one`) - (number `other`)."""
        variance = (
            factor**2 * self.covariance[one][one]
            + self.covariance[other][other]
            - 2 * factor * self.covariance[one][other]
        )
        mean = factor * self.means[one] - self.means[other]
        return NormalDist(mean, math.sqrt(max(0.0, variance)))


def chance_above_zero(number: NormalDist) -> float:
    """Return the probability that a number is above 0; its standard deviation may be 0."""
    if number.stdev <= 0:
        return float(number.mean > 0)
    return _STANDARD.cdf(number.mean / number.stdev)


def mean_above_zero(number: NormalDist) -> float:
    """Return the mean of max(0, number): expected improvement (Jones et al. 1998, equation 15)."""
    if number.stdev <= 0:
        return max(0.0, number.mean)
    z = number.mean / number.stdev
    return number.mean * _STANDARD.cdf(z) + number.stdev * _STANDARD.pdf(z)
