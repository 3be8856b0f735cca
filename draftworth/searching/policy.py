"""Chooses the candidate to measure next, by predicting the cost of every candidate.

Cost means the cost of a token with a candidate / without a draft: a part before the first token,
plus step cost / tokens per step in each class. Tokens per step are predicted (`yields`). Step costs
are fitted to all measured candidates, with correlated errors (`step_costs`). Candidates that the
experiment asks for come first. Of those that may be cheaper than the best so far by more than
`within`, the one with the lowest expected cost is next. If there is none, a candidate whose tokens
per step cannot be predicted is next; if there is no such candidate either, the search ends. At the
start, the best cost is 1, without a draft. (`benchmarks/search.py` shows how well this works.)
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

from draftworth.records.search_result import Candidate, CandidateResult, CostInterval, Search
from draftworth.searching import predicted_step_costs
from draftworth.searching.yields import Yield

# Half-width of an interval of 95%, in standard deviations.
NORMAL_95 = 1.96


def least_chance(candidates: int) -> float:
    """Return the probability above which a candidate is measured.

    It is compared with the probability that the candidate is cheaper than the best so far by more
    than `Search.within`. It falls with the number of candidates, as each could be left out wrongly.
    """
    return min(0.08, 1 / candidates)


@dataclass(frozen=True, kw_only=True)
class ClassTimes:
    """The baseline's E2E seconds per output token in one prompt class, in two parts.

    weight: the class's share of output tokens. first_s: sum(TTFT) / tokens; decoding_s: the rest.
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

    cost: cost of a token / the baseline's. deviation: standard deviation of log(`cost`) between
        rounds, not between prompts. first: the part of `cost` before the first token.
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

    candidates: those that can be measured. baseline: the baseline's times by prompt class.
    measured: in the order of measuring. yields: predicted tokens per step, where known.
    """

    search: Search
    candidates: Sequence[Candidate]
    baseline: Mapping[str, ClassTimes]
    measured: Mapping[Candidate, MeasuredCandidate]
    yields: Mapping[Candidate, Yield]

    @property
    def best(self) -> Candidate:
        return min(self.measured, key=lambda c: self._costs.means[self._index[c]])

    @property
    def pays(self) -> bool:
        return self._costs.means[self._index[self.best]] < 1

    @property
    def next(self) -> Candidate | None:
        """Return the candidate to measure next; None: the search ends (the module says when)."""
        open_ones = [c for c in self.candidates if c not in self.measured]
        if not self.measured:
            return predicted_step_costs.first_candidate(open_ones) if open_ones else None
        if asked_for := [c for c in open_ones if c.is_asked_for]:
            return asked_for[0]
        least = least_chance(len(self.search.candidates))
        if likely := [c for c, f in self.forecasts.items() if f.chance > least]:
            return min(likely, key=lambda c: self.forecasts[c].cost.value)
        # Drafts without predicted tokens per step are last, because their cost is unknown.
        unknown = [c for c in open_ones if c not in self.yields]
        own = [c for c in unknown if c.draft == unknown[0].draft]
        return predicted_step_costs.first_candidate(own) if own else None

    @property
    def sureness(self) -> float:
        """Return a lower bound of P(no candidate is cheaper than the best by more than `within`).

        Measured candidates count as well: their costs have an error.
        """
        others = [c for c in self._known if not self.pays or c != self.best]
        return max(0.0, 1 - math.fsum(map(self._chance, others)))

    @cached_property
    def forecasts(self) -> Mapping[Candidate, CandidateResult]:
        return {c: self._forecast(c) for c in self._known} if self.measured else {}

    def gain(self, candidate: Candidate) -> float:
        """Return the expected saving by a candidate over the best, as a share of baseline cost."""
        return predicted_step_costs.mean_above_zero(self._lead(self._index[candidate]))

    @property
    def _known(self) -> list[Candidate]:
        return [c for c in self.candidates if c in self.yields]

    @cached_property
    def _index(self) -> Mapping[Candidate, int]:
        return {c: n for n, c in enumerate(self._known)}

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
        factor = 1 - self.search.within
        return predicted_step_costs.chance_above_zero(
            self._lead(self._index[candidate], factor=factor)
        )

    def _lead(self, index: int, *, factor: float = 1.0) -> NormalDist:
        """Return factor x (best cost so far; 1 if none pays) - (cost of candidate `index`)."""
        if self.pays:
            return self._costs.difference(self._index[self.best], index, factor=factor)
        costs = self._costs
        return NormalDist(factor - costs.means[index], costs.deviation(index))

    @cached_property
    def _decoding(self) -> list[float]:
        """Return the decoding cost of each of `_known`, if steps cost as much as the baseline's."""
        return [
            math.fsum(
                t.weight * t.decoding_s / self.yields[c].tokens[name]
                for name, t in self.baseline.items()
            )
            / self.baseline_s
            for c in self._known
        ]

    def _class_cost(self, candidate: Candidate, name: str, step_cost: float) -> float:
        """Return the cost in class `name`, if TTFT grows by the same factor in all classes."""
        own = self.baseline[name]
        first_s = math.fsum(t.weight * t.first_s for t in self.baseline.values())
        slower = self._first(candidate) * self.baseline_s / first_s if first_s else 1.0
        decoding_s = own.decoding_s * step_cost / self.yields[candidate].tokens[name]
        return (own.first_s * slower + decoding_s) / own.seconds

    @property
    def baseline_s(self) -> float:
        return math.fsum(t.weight * t.seconds for t in self.baseline.values())

    def _first(self, candidate: Candidate) -> float:
        """Return the cost before the first token: as measured, or a mean over other candidates."""
        if candidate in self.measured:
            return self.measured[candidate].first
        own = [m.first for c, m in self.measured.items() if c.draft == candidate.draft]
        known = own or [m.first for m in self.measured.values()]
        return math.fsum(known) / len(known)

    @cached_property
    def _costs(self) -> predicted_step_costs.Gaussian:
        costs = self._costs_before
        # Every candidate gets the mean variance: the few blocks of one estimate its own badly.
        squares = [seen.deviation**2 for seen in self.measured.values()]
        variance = math.fsum(squares) / len(squares) if squares else 0.0
        for candidate, seen in self.measured.items():
            costs = costs.measured(
                self._index[candidate], seen.cost, variance=seen.cost**2 * variance
            )
        return costs

    @property
    def _costs_before(self) -> predicted_step_costs.Gaussian:
        prior = predicted_step_costs.step_costs_before(self.search)
        places = [self.search.candidates.index(c) for c in self._known]
        steps = [prior.means[n] for n in places]
        known, x = self._known, self._decoding
        return predicted_step_costs.Gaussian(
            means=[self._first(c) + x[i] * steps[i] for i, c in enumerate(known)],
            covariance=[
                [
                    x[i]
                    * x[j]
                    * (
                        prior.covariance[places[i]][places[j]]
                        + steps[i]
                        * steps[j]
                        * self.yields[a].together(self.yields[b], same_draft=a.draft == b.draft)
                    )
                    for j, b in enumerate(known)
                ]
                for i, a in enumerate(known)
            ],
        )
