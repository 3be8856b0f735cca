"""How many candidates a search measures: certainly, on average in the simulated study, at most."""

from collections.abc import Collection
from dataclasses import dataclass

from draftworth.records.search import Candidate, Search
from draftworth.searching.step_costs import first_candidate

STUDY = "docs/search.md"


# Candidates that simulated searches measured for the first draft and for each further one, of 13
# windows a draft (benchmarks/search.py). One and two draft models were simulated, with a forecast
# and without, and one head: a further head is taken as a further draft model without a forecast.
_TOLD = 2.1, 1.0
_NOT_TOLD = 2.9, 2.0
_HEADS = 2.6, 2.0


@dataclass(frozen=True, kw_only=True)
class Extent:
    """The candidates that a search measures, unless its `stop` ends it before.

    certain: measured whatever is found, in this order. others: may be measured too.
    average: number of both, in simulated searches of this kind.
    """

    certain: tuple[Candidate, ...]
    others: tuple[Candidate, ...]
    average: float

    @property
    def most(self) -> int:
        return len(self.certain) + len(self.others)


def extent(search: Search, *, reads_outputs: bool) -> Extent:
    """Return which candidates a search measures.

    reads_outputs: drafts that can do so read the baseline's outputs while the run lasts.
    """
    drafts = {candidate.draft for candidate in search.candidates}
    told = {c.draft for c in search.candidates if c.variant in search.forecast}
    if search.drafts_read_text and reads_outputs:
        told = drafts
    certain = _certain(search, told)
    not_told = _NOT_TOLD if search.drafts_read_text else _HEADS
    first, each_further = _TOLD if told == drafts else not_told
    average = first + (len(drafts) - 1) * each_further
    return Extent(
        certain=certain,
        others=tuple(c for c in search.candidates if c not in certain),
        average=min(len(search.candidates), max(len(certain), average)),
    )


def _certain(search: Search, told: Collection[str]) -> tuple[Candidate, ...]:
    """Apply the rules of `SearchState.next`: the candidates that are asked for, else the first one;
    then one of each draft whose tokens a step cannot be predicted otherwise.

    told: the drafts whose tokens a step can be predicted.

    A second one of a draft is not certain: the first may show that none is worth measuring.
    """
    asked_for = tuple(c for c in search.candidates if c.is_asked_for)
    certain = asked_for or (first_candidate(search.candidates),)
    known = {*told, *(candidate.draft for candidate in certain)}
    drafts = dict.fromkeys(c.draft for c in search.candidates if c.draft not in known)
    of_others = (
        first_candidate([c for c in search.candidates if c.draft == draft]) for draft in drafts
    )
    return (*certain, *of_others)
