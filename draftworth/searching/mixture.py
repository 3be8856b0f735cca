"""Estimates of correlated numbers under several assumptions, of which exactly one holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import mul

from draftworth.searching.gaussian import Gaussian


@dataclass(frozen=True, kw_only=True)
class Assumption:
    """One of several assumptions: how probable it is, and what it says of the numbers.

    probability: that this assumption holds, and so no other (0 to 1).
    numbers: the estimates of the numbers if it holds.
    """

    probability: float
    numbers: Gaussian


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Estimates of correlated numbers; each measurement also tells how probable assumptions are.

    assumptions: all that may hold; their probabilities add up to 1.
    """

    assumptions: Sequence[Assumption]

    def measured(self, index: int, value: float, *, variance: float) -> Mixture:
        """Return the estimates after number `index` was measured (Bayes' rule, which is exact)."""
        logs = [
            math.log(a.probability) + a.numbers.log_density(index, value, variance=variance)
            if a.probability
            else -math.inf
            for a in self.assumptions
        ]
        # They are compared with the highest one, because all may be too small for a float.
        highest = max(logs)
        joint = [math.exp(log - highest) for log in logs]
        total = math.fsum(joint)
        return Mixture(
            assumptions=[
                Assumption(
                    probability=each / total,
                    numbers=a.numbers.measured(index, value, variance=variance),
                )
                for each, a in zip(joint, self.assumptions, strict=True)
            ]
        )

    @cached_property
    def means(self) -> Sequence[float]:
        probabilities = [a.probability for a in self.assumptions]
        return [
            math.fsum(map(mul, probabilities, means))
            for means in zip(*(a.numbers.means for a in self.assumptions), strict=True)
        ]

    def deviation(self, index: int) -> float:
        """Return the standard deviation of number `index`, within and between assumptions."""
        mean = self.means[index]
        variance = self.expected(
            lambda a: a.covariance[index][index] + (a.means[index] - mean) ** 2
        )
        return math.sqrt(max(0.0, variance))

    def expected(self, of: Callable[[Gaussian], float]) -> float:
        """Return the mean of a figure over all assumptions, by their probabilities."""
        return math.fsum(a.probability * of(a.numbers) for a in self.assumptions)

    def probability(self, of: Callable[[Gaussian], float]) -> float:
        """Return the probability of an event, from its probability under each assumption."""
        # Rounding can make the sum of all probabilities a little more than 1.
        return min(1.0, self.expected(of))
