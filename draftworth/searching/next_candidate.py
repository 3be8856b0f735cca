"""Decides which candidate a search measures first and next, and when the search ends.

The cost of every candidate is predicted: the cost of a token with the candidate, divided by the
cost of a token without a draft. It is the sum of a cost before the first token and a cost of
decoding, which in each class is proportional to step cost / tokens per step. Tokens per step come
from `predicted_tokens_per_step`. Step costs are fitted to all measured candidates, with correlated
errors (`predicted_step_costs`).

Variants that the experiment lists by hand are measured first. After them, the search goes on while
the probability that any other candidate is cheaper than the best so far by more than the share
`Search.within` is above `REMAINING_DOUBT`. The candidate for which this is most probable is next.
Otherwise, a candidate whose tokens per step cannot be predicted is next. If there is no such
candidate either, the search ends. Until a candidate costs less, the best cost is 1: that of no
draft. (`benchmarks/search.py` shows how well this works.)
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist

from draftworth.records.search_result import Candidate, CandidateResult, CostInterval, Search
from draftworth.searching.gaussian import Gaussian, chance_above_zero, mean_above_zero
from draftworth.searching.mixture import Mixture
from draftworth.searching.predicted_step_costs import step_costs_before
from draftworth.searching.predicted_tokens_per_step import Yield

# Half-width of a 95% interval of a normal distribution, in standard deviations.
NORMAL_95 = 1.96
# The window that is measured first yields at most this many tokens per step.
_TOKENS_OF_FIRST = 8
# A search goes on while this is exceeded by the probability that at least one candidate without a
# measurement is cheaper than the best so far by more than `Search.within`.
REMAINING_DOUBT = 0.08


def first_candidate(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate to measure first.

    It is the first variant that the experiment lists by hand. Without one, it is the first draft's
    longest window with at most `_TOKENS_OF_FIRST` tokens in a step: no shorter window costs more
    per step, and a second measured window shows whether the step cost jumps between the two.
    """
    by_hand = [c for c in candidates if c.is_asked_for]
    windows = [c for c in candidates if c.draft == candidates[0].draft]
    below = [c for c in windows if c.checked + 1 <= _TOKENS_OF_FIRST]
    if by_hand:
        return by_hand[0]
    return max(below, key=lambda c: c.window) if below else min(windows, key=lambda c: c.window)


@dataclass(frozen=True, kw_only=True)
class ClassTimes:
    """The baseline's E2E seconds per output token in one prompt class, in two parts.

    weight: the class's share of the traffic's output tokens (0 to 1). first_s: sum of TTFTs / sum
        of output tokens. decoding_s: the rest.
    """

    weight: float
    first_s: float
    decoding_s: float

    @property
    def seconds(self) -> float:
        return self.first_s + self.decoding_s


@dataclass(frozen=True, kw_only=True)
class MeasuredCandidate:
    """A candidate that was measured in the same rounds as the baseline.

    cost: cost of a token with the candidate / with the baseline. deviation: standard deviation of
        log(`cost`) between rounds, not between prompts. first: the part of `cost` that is spent
        before the first token.
    """

    cost: float
    deviation: float
    first: float

    @property
    def interval(self) -> CostInterval:
        factor = math.exp(NORMAL_95 * self.deviation)
        return CostInterval(value=self.cost, low=self.cost / factor, high=self.cost * factor)


@dataclass(frozen=True, kw_only=True)
class SearchState:
    """A search with everything that was measured so far.

    search: its settings. candidates: those that can be measured, without those that failed.
    baseline: the baseline's times by prompt class.
    measured: the measured candidates, in the order of measuring.
    yields: predicted tokens per step of each candidate for which they can be predicted.
    """

    search: Search
    candidates: Sequence[Candidate]
    baseline: Mapping[str, ClassTimes]
    measured: Mapping[Candidate, MeasuredCandidate]
    yields: Mapping[Candidate, Yield]

    @cached_property
    def best(self) -> Candidate:
        return min(self.measured, key=lambda c: self._costs.means[self._index[c]])

    @cached_property
    def pays(self) -> bool:
        return self._costs.means[self._index[self.best]] < 1

    @property
    def next(self) -> Candidate | None:
        """Return the candidate to measure next, by the module's rules; None: the search ends."""
        open_ones = [c for c in self.candidates if c not in self.measured]
        if not self.measured:
            return first_candidate(open_ones) if open_ones else None
        if by_hand := [c for c in open_ones if c.is_asked_for]:
            return by_hand[0]
        predictable = [c for c in open_ones if c in self.yields]
        if self._chance_of_any(predictable) > REMAINING_DOUBT:
            return max(predictable, key=self._chance)
        # Drafts whose tokens per step cannot be predicted are last, because their cost is unknown.
        unknown = [c for c in open_ones if c not in self.yields]
        windows = [c for c in unknown if c.draft == unknown[0].draft]
        return first_candidate(windows) if windows else None

    @property
    def sureness(self) -> float:
        """Return a lower bound of P(no candidate is cheaper than the best by more than `within`).

        The best is the measured candidate with the lowest cost, or no draft if that costs less. The
        other measured candidates could be cheaper too, because their costs have an error.
        """
        rivals = [c for c in self._predictable if not self.pays or c != self.best]
        return 1 - self._chance_of_any(rivals)

    @cached_property
    def forecasts(self) -> Mapping[Candidate, CandidateResult]:
        return {c: self._forecast(c) for c in self._predictable} if self.measured else {}

    def gain(self, candidate: Candidate) -> float:
        """Return the saving to expect if a candidate is served instead of the best so far.

        A saving of 1 is what a token of the whole traffic costs with the baseline.
        """
        return self._costs.expected(lambda costs: mean_above_zero(self._lead(costs, candidate)))

    @cached_property
    def _predictable(self) -> list[Candidate]:
        return [c for c in self.candidates if c in self.yields]

    @cached_property
    def _index(self) -> Mapping[Candidate, int]:
        return {c: n for n, c in enumerate(self._predictable)}

    def _forecast(self, candidate: Candidate) -> CandidateResult:
        index = self._index[candidate]
        cost, half = self._costs.means[index], NORMAL_95 * self._costs.deviation(index)
        step_cost = (cost - self._first(candidate)) / self._decoding[index]
        seen = self.measured.get(candidate)
        return CandidateResult(
            variant=candidate.variant,
            cost=CostInterval(value=cost, low=cost - half, high=cost + half),
            cost_by_class={
                name: self._class_cost(candidate, name, step_cost) for name in self.baseline
            },
            measured=seen.interval if seen else None,
            step_cost=step_cost,
            tokens_per_step=self.yields[candidate].tokens,
            chance=0.0 if seen else self._chance(candidate),
        )

    def _chance(self, candidate: Candidate) -> float:
        return self._chance_of_any([candidate])

    def _chance_of_any(self, candidates: Sequence[Candidate]) -> float:
        """Return an upper bound of the probability that one of these candidates is cheaper.

        It is cheaper if its cost is below the lowest cost so far by more than `Search.within`. With
        a single candidate, the result is that probability. With several, their probabilities are
        added under each assumption about the step costs, to at most 1. One jump makes many
        neighbouring windows cheaper at once, so without that limit an improbable jump would count
        once for each of them.
        """
        factor = 1 - self.search.within

        def of_any(costs: Gaussian) -> float:
            leads = (self._lead(costs, c, factor=factor) for c in candidates)
            return min(1.0, math.fsum(map(chance_above_zero, leads)))

        return self._costs.probability(of_any)

    def _lead(self, costs: Gaussian, candidate: Candidate, *, factor: float = 1.0) -> NormalDist:
        """Return the distribution of factor x (best cost so far) - (cost of `candidate`).

        The best cost is 1, that of the baseline, if no measured candidate costs less.
        costs: the costs of all candidates, under one assumption about the step costs.
        """
        index = self._index[candidate]
        if self.pays:
            return costs.difference(self._index[self.best], index, factor=factor)
        return NormalDist(factor - costs.means[index], costs.deviation(index))

    @cached_property
    def _decoding(self) -> list[float]:
        """Return each candidate's cost of decoding, if its step took as long as a baseline step.

        Only candidates whose tokens per step can be predicted are included. A cost of 1 is what a
        token of the whole traffic costs with the baseline.
        """
        return [
            math.fsum(
                t.weight * t.decoding_s / self.yields[c].tokens[name]
                for name, t in self.baseline.items()
            )
            / self.baseline_s
            for c in self._predictable
        ]

    def _class_cost(self, candidate: Candidate, name: str, step_cost: float) -> float:
        """Return a candidate's cost of a token in class `name`, relative to the baseline's there.

        step_cost: time of the candidate's step / time of a baseline step.
        TTFT is assumed to grow by the same factor in all classes.
        """
        times = self.baseline[name]
        first_s = math.fsum(t.weight * t.first_s for t in self.baseline.values())
        slower = self._first(candidate) * self.baseline_s / first_s if first_s else 1.0
        decoding_s = times.decoding_s * step_cost / self.yields[candidate].tokens[name]
        return (times.first_s * slower + decoding_s) / times.seconds

    @property
    def baseline_s(self) -> float:
        return math.fsum(t.weight * t.seconds for t in self.baseline.values())

    def _first(self, candidate: Candidate) -> float:
        """Return the part of a candidate's cost that is spent before the first token.

        If the candidate is not measured, this is the mean over its draft's measured candidates or,
        if there are none, over all measured candidates.
        """
        if candidate in self.measured:
            return self.measured[candidate].first
        of_draft = [m.first for c, m in self.measured.items() if c.draft == candidate.draft]
        costs = of_draft or [m.first for m in self.measured.values()]
        return math.fsum(costs) / len(costs)

    @cached_property
    def _costs(self) -> Mixture:
        costs = self._costs_before
        # All candidates get the mean of their variances, because the few blocks of one candidate
        # do not show its own variance well.
        squares = [seen.deviation**2 for seen in self.measured.values()]
        variance = math.fsum(squares) / len(squares) if squares else 0.0
        for candidate, seen in self.measured.items():
            costs = costs.measured(
                self._index[candidate], seen.cost, variance=seen.cost**2 * variance
            )
        return costs

    @property
    def _costs_before(self) -> Mixture:
        return Mixture(
            assumptions=[
                replace(a, numbers=self._from_step_costs(a.numbers))
                for a in step_costs_before(self.search).assumptions
            ]
        )

    def _from_step_costs(self, step_costs: Gaussian) -> Gaussian:
        """Return the costs of the candidates whose tokens per step can be predicted.

        step_costs: those of all candidates of the search.
        """
        places, x = self._places, self._decoding
        decoding = [each * step_costs.means[n] for each, n in zip(x, places, strict=True)]
        firsts = map(self._first, self._predictable)
        return Gaussian(
            means=[first + each for first, each in zip(firsts, decoding, strict=True)],
            covariance=[
                [
                    x[i] * x[j] * step_costs.covariance[here][there]
                    + decoding[i] * decoding[j] * self._yields_together[i][j]
                    for j, there in enumerate(places)
                ]
                for i, here in enumerate(places)
            ],
        )

    @cached_property
    def _places(self) -> list[int]:
        """Return where `_predictable` are among the search's candidates."""
        return [self.search.candidates.index(c) for c in self._predictable]

    @cached_property
    def _yields_together(self) -> list[list[float]]:
        """Return the covariances of the errors of log(tokens per step)."""
        return [
            [
                self.yields[a].together(self.yields[b], same_draft=a.draft == b.draft)
                for b in self._predictable
            ]
            for a in self._predictable
        ]
