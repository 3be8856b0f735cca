"""Computes how many candidates a search measures: at least, on average (simulated), and at most."""

from collections.abc import Collection
from dataclasses import dataclass

from draftworth.records.search_result import Candidate, Search
from draftworth.searching.next_candidate import first_candidate

STUDY = "docs/appendix/search.md"


# How many candidates simulated searches measured on average: the first number is for the first
# draft, the second for each further draft. The means are over all simulated devices, with 13
# windows per draft (benchmarks/search.py; a test compares the numbers). Simulated were one and two
# draft models, with and without predicted tokens per step, and one head. A further head is assumed
# to need as many candidates as a further draft model without predictions.
_PREDICTED = 3.2, 1.7
_NOT_PREDICTED = 3.5, 2.2
_HEADS = 3.6, 2.2


@dataclass(frozen=True, kw_only=True)
class Extent:
    """The candidates that a search measures, unless a limit of the experiment ends it earlier.

    certain: candidates that are measured in any case, in this order. possible: candidates that may
        be measured too. average: mean number of measured candidates in simulated searches of this
        kind.
    """

    certain: tuple[Candidate, ...]
    possible: tuple[Candidate, ...]
    average: float

    @property
    def most(self) -> int:
        return len(self.certain) + len(self.possible)


def extent(search: Search, *, reads_outputs: bool) -> Extent:
    """Return which candidates a search certainly measures, and which further ones it may measure.

    reads_outputs: whether the run lets draft models read the baseline's outputs, which predicts
        their tokens per step without a measurement. Heads cannot be predicted so.
    """
    drafts = {candidate.draft for candidate in search.candidates}
    predicted = {c.draft for c in search.candidates if c.variant in search.forecast}
    if search.drafts_read_text and reads_outputs:
        predicted = drafts
    certain = _certain(search, predicted)
    of_unpredicted = _NOT_PREDICTED if search.drafts_read_text else _HEADS
    first, each_further = _PREDICTED if predicted == drafts else of_unpredicted
    average = first + (len(drafts) - 1) * each_further
    return Extent(
        certain=certain,
        possible=tuple(c for c in search.candidates if c not in certain),
        average=min(len(search.candidates), max(len(certain), average)),
    )


def _certain(search: Search, predicted: Collection[str]) -> tuple[Candidate, ...]:
    """Return the candidates that a search measures in any case, in the order of measuring.

    First come the variants that the experiment lists by hand (if none: `first_candidate`), then one
    candidate of each further draft that is not in `predicted`: the drafts whose tokens per step can
    be predicted without a measurement. No second candidate of a draft is certain to be measured.
    """
    by_hand = tuple(c for c in search.candidates if c.is_asked_for)
    certain = by_hand or (first_candidate(search.candidates),)
    covered = {*predicted, *(candidate.draft for candidate in certain)}
    drafts = dict.fromkeys(c.draft for c in search.candidates if c.draft not in covered)
    of_further_drafts = (
        first_candidate([c for c in search.candidates if c.draft == draft]) for draft in drafts
    )
    return (*certain, *of_further_drafts)
