"""Computes how many candidates a search measures: at least, on average (simulated), and at most."""

from collections.abc import Collection
from dataclasses import dataclass

from draftworth.records.search_result import Candidate, Search
from draftworth.searching.predicted_step_costs import first_candidate

STUDY = "docs/search.md"


# Mean number of candidates that simulated searches measured for the first draft and for each later
# draft, with 13 windows per draft, on all devices (benchmarks/search.py; a test compares the two).
# Simulated: one and two draft models, with and without a forecast, and one head. A later head is
# assumed to need as many as a later model.
_TOLD = 3.4, 1.8
_NOT_TOLD = 3.6, 2.4
_HEADS = 3.7, 2.4


@dataclass(frozen=True, kw_only=True)
class Extent:
    """The candidates that a search measures, unless a limit of the experiment ends it earlier.

    certain: those measured in any case, in this order. others: those that may be measured too.
    average: mean number of measured candidates in simulated searches of this kind.
    """

    certain: tuple[Candidate, ...]
    others: tuple[Candidate, ...]
    average: float

    @property
    def most(self) -> int:
        return len(self.certain) + len(self.others)


def extent(search: Search, *, reads_outputs: bool) -> Extent:
    """Return which candidates a search certainly measures, and which others it may measure.

    reads_outputs: whether draft models (heads cannot) read the baseline's outputs during the run.
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
    """Return the candidates that a search measures in any case, in the order of measuring.

    First come those that the experiment asks for (if none: `first_candidate`), then one candidate
    of each other draft that is not in `told`. For the drafts in `told`, the tokens per step can be
    predicted without a measurement. A second candidate of a draft is not certain to be needed.
    """
    asked_for = tuple(c for c in search.candidates if c.is_asked_for)
    certain = asked_for or (first_candidate(search.candidates),)
    known = {*told, *(candidate.draft for candidate in certain)}
    drafts = dict.fromkeys(c.draft for c in search.candidates if c.draft not in known)
    of_others = (
        first_candidate([c for c in search.candidates if c.draft == draft]) for draft in drafts
    )
    return (*certain, *of_others)
