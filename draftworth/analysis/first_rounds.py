"""Checks that a cost ratio is steady from the servers' start on: that no server still warmed up.

If one of two servers is slower in the first rounds after its start, the cost ratio is wrong by
less and less, and every round repeats the error, so no interval contains it. Here the logarithm of
the cost ratio is regressed on a term that halves with each round since the start, beside a mean of
each prompt. A change of the machine is in both servers' costs, so the ratio does not have it.
docs/decisions/0049-a-server-that-warms-up.md says why the term halves.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from draftworth.analysis.clustering import Sample
from draftworth.analysis.doubts import NotSteadyYet
from draftworth.analysis.pairing import Pair
from draftworth.analysis.ratios import cost_amounts
from draftworth.analysis.spread import connected_blocks
from draftworth.analysis.student_t import student_t

# Of runs whose servers do not warm up, 1% seem to be unsteady.
_CONFIDENCE = 0.99
# With fewer degrees of freedom, Student's t is so wide that hardly any warm-up is shown.
_ENOUGH_DEGREES = 3
# A smaller change of the first round's cost ratio hardly moves the mean over rounds.
_LEAST_CHANGE = 0.05


@dataclass(frozen=True)
class ChangeAfterStart:
    """How the cost ratio changes in the rounds after the servers' start.

    times: the cost ratio in the first round / long after the start. standard_error: that of its
        logarithm. degrees_of_freedom: 0 if there are too few rounds to fit a change.
    """

    times: float
    standard_error: float
    degrees_of_freedom: int

    @property
    def doubt(self) -> NotSteadyYet | None:
        """By how much the cost ratio still changes; None: it is not shown to."""
        change = abs(math.log(self.times))
        if change <= math.log1p(_LEAST_CHANGE):
            return None
        t = student_t(0.5 + _CONFIDENCE / 2, self.degrees_of_freedom)
        is_shown = change > t * self.standard_error
        return NotSteadyYet(first_times=self.times) if is_shown else None

    @property
    def shows_warm_ups(self) -> bool:
        """Whether there are enough rounds after a start to show a server that warms up."""
        return self.degrees_of_freedom >= _ENOUGH_DEGREES


_NOT_FITTED = ChangeAfterStart(times=1.0, standard_error=math.inf, degrees_of_freedom=0)


def change_after_start(pairs: Iterable[Pair]) -> ChangeAfterStart:
    """Return how the cost ratio changes after the servers' start.

    pairs: pairs of one traffic; those without a cost on both sides are left out.
    """
    return _fitted(_terms(pairs))


class _Term(NamedTuple):
    """A pair's log cost ratio and the halving term, each without the mean of the pair's group.

    group: the prompt's pairs in a repetition or, if it was sent once, all such pairs of the case.
    """

    sample: Sample
    group: str
    log_ratio: float
    halving: float


def _fitted(terms: Sequence[_Term]) -> ChangeAfterStart:
    """Return the fitted change; `_NOT_FITTED` if there are too few rounds to fit one.

    Blocks are the independent measurements: the error is computed from their mean residuals.
    """
    squares = math.fsum(term.halving**2 for term in terms)
    if not squares:
        return _NOT_FITTED
    slope = math.fsum(term.log_ratio * term.halving for term in terms) / squares
    blocks: defaultdict[tuple[str, str], list[_Term]] = defaultdict(list)
    for term in terms:
        blocks[term.sample.stratum, term.sample.block].append(term)
    means = len(connected_blocks((term.sample, term.group) for term in terms))
    degrees = len(blocks) - means - 1
    if degrees < 1:
        return _NOT_FITTED
    of_block = math.fsum(
        fmean(t.log_ratio - slope * t.halving for t in block) ** 2 for block in blocks.values()
    )
    leverage = math.fsum(math.fsum(t.halving for t in block) ** 2 for block in blocks.values())
    error = math.sqrt(of_block / degrees * leverage) / squares
    return ChangeAfterStart(math.exp(slope), error, degrees)


def _terms(pairs: Iterable[Pair]) -> list[_Term]:
    measured = [(pair, ratio) for pair in pairs if (ratio := _log_cost_ratio(pair)) is not None]
    first: dict[str, int] = {}
    for pair, _ in measured:
        repetition = pair.place.repetition
        first[repetition] = min(first.get(repetition, pair.round), pair.round)
    values = [
        (_in_repetition(pair.place), ratio, 0.5 ** (pair.round - first[pair.place.repetition]))
        for pair, ratio in measured
    ]
    return [term for name, group in _groups(values).items() for term in _centred(name, group)]


_Values = tuple[Sample, float, float]


def _in_repetition(place: Sample) -> Sample:
    """Return the place in a stratum of its repetition, because a start changes the cost ratio."""
    return place._replace(stratum=f"{place.stratum}\n{place.repetition}")


def _groups(values: Iterable[_Values]) -> Mapping[str, list[_Values]]:
    by_prompt: defaultdict[tuple[str, str], list[_Values]] = defaultdict(list)
    for value in values:
        by_prompt[value[0].stratum, value[0].prompt].append(value)
    groups: defaultdict[str, list[_Values]] = defaultdict(list)
    for (stratum, prompt), of_prompt in by_prompt.items():
        groups[f"{stratum}\n{prompt}" if len(of_prompt) > 1 else stratum] += of_prompt
    return groups


def _centred(name: str, group: Sequence[_Values]) -> Iterator[_Term]:
    mean_ratio, mean_halving = fmean(r for _, r, _ in group), fmean(h for *_, h in group)
    for sample, log_ratio, halving in group:
        yield _Term(sample, name, log_ratio - mean_ratio, halving - mean_halving)


def _log_cost_ratio(pair: Pair) -> float | None:
    plain, drafted = cost_amounts(pair.plain), cost_amounts(pair.drafted)
    if plain is None or drafted is None or not all((*plain, *drafted)):
        return None
    return math.log(drafted[0] / drafted[1] * plain[1] / plain[0])
