"""Estimates each candidate's step cost, in baseline steps, before any candidate is measured.

Published figures (`catalog.yaml`) say little, so a sum of uncertain parts is assumed: a fixed part;
a part per drafted token, mostly the same for all drafts; a part per checked token, which is large
for a mixture of experts; a jump where a step has more tokens than fit into one tile of the engine's
matrix products; and small differences between windows. Two to four measured windows
determine all parts that matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from draftworth.records.search_result import Candidate, Search
from draftworth.speculation import TOKENS_BEFORE_JUMPS, step_cost

_STANDARD = NormalDist()


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """Estimates of correlated numbers: a measurement of one changes the estimates of all.

    A Gaussian process over finitely many points (Rasmussen and Williams 2006, "Gaussian Processes
    for Machine Learning", section 2.2), updated with one measurement after the other.
    covariance[i][j]: the covariance of the errors of the numbers i and j, which are normal.
    """

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
    """Return the probability that the number is above 0; its standard deviation may be 0."""
    if number.stdev <= 0:
        return float(number.mean > 0)
    return _STANDARD.cdf(number.mean / number.stdev)


def mean_above_zero(number: NormalDist) -> float:
    """Return the mean of max(0, number): expected improvement (Jones et al. 1998, equation 15)."""
    if number.stdev <= 0:
        return max(0.0, number.mean)
    z = number.mean / number.stdev
    return number.mean * _STANDARD.cdf(z) + number.stdev * _STANDARD.pdf(z)


# Standard deviations, in baseline steps.
_FIXED = 0.1
_JUMP = 0.3
_PER_CHECKED = 0.25
# Cost per drafted token: ratio of a draft's own deviation to the common one; least common one.
_OWN_PART = 0.25
_LEAST_PER_DRAFTED = 0.05
# Share of a draft's time that is proportional to its size; the rest is the same for all drafts.
_BY_SIZE = 0.7
# Standard deviation from one window to the next, in addition to the parts above.
_UNEVEN = 0.008
_TOKENS_OF_FIRST = 8


def step_costs_before(search: Search) -> Gaussian:
    """Return the estimated step costs of `search.candidates` before any is measured."""
    low, high = search.step_cost_per_draft
    each = (low + high) / 2
    unknown = max((high - low) / 2, _LEAST_PER_DRAFTED)
    candidates = search.candidates
    return Gaussian(
        means=[step_cost(_drafting(c), per_drafted=each) for c in candidates],
        covariance=[[_together(a, b, unknown) for b in candidates] for a in candidates],
    )


def _together(one: Candidate, other: Candidate, per_drafted: float) -> float:
    same_draft = one.draft == other.draft
    drafting = per_drafted**2 * _drafting(one) * _drafting(other)
    fewer = min(one.checked, other.checked) + 1
    jumps = sum(fewer > tokens for tokens in TOKENS_BEFORE_JUMPS)
    return (
        _FIXED**2
        + drafting * (1 + (_OWN_PART**2 if same_draft else 0.0))
        + _PER_CHECKED**2 * one.checked * other.checked
        + _JUMP**2 * jumps
        + (_UNEVEN**2 * min(one.window, other.window) if same_draft else 0.0)
    )


def _drafting(candidate: Candidate) -> float:
    """Return the time that a step spends drafting, in passes of the first candidate's draft."""
    return candidate.window * (1 - _BY_SIZE + _BY_SIZE * candidate.draft_size)


def first_candidate(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate to measure first.

    This is the first one that the experiment asks for. If it asks for none, this is the first
    draft's longest window with at most `_TOKENS_OF_FIRST` tokens in a step: no shorter window costs
    more per step, and a second measured window shows whether the step cost jumps between them.
    """
    asked_for = [c for c in candidates if c.is_asked_for]
    own = [c for c in candidates if c.draft == candidates[0].draft]
    below = [c for c in own if c.checked + 1 <= _TOKENS_OF_FIRST]
    if asked_for:
        return asked_for[0]
    return max(below, key=lambda c: c.window) if below else min(own, key=lambda c: c.window)
