"""How many candidates a search measures: certainly, on average in the simulated study, at most."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from draftworth.records.search import Candidate, Search
from draftworth.searching.step_costs import first_candidate

STUDY = "docs/search.md"


@dataclass(frozen=True, kw_only=True)
class _Average:
    """Candidates that simulated searches measured, of 13 windows a draft (benchmarks/search.py)."""

    first_draft: float
    each_further: float

    def of(self, drafts: int) -> float:
        """Of so many drafts: on the line through what was simulated."""
        return self.first_draft + (drafts - 1) * self.each_further


# Simulated were one and two draft models, with a forecast and without, and one head: a further head
# is taken as a further draft model without a forecast.
_TOLD = _Average(first_draft=2.1, each_further=1.0)
_NOT_TOLD = _Average(first_draft=2.9, each_further=2.0)
_HEADS = _Average(first_draft=2.6, each_further=2.0)


@dataclass(frozen=True, kw_only=True)
class Extent:
    """Which candidates a search measures, and how many, unless its `stop` ends it before.

    certain: whatever is found, in the order of measuring. others: that may be measured too.
    average: of both, in simulated searches of the kind.
    """

    certain: tuple[Candidate, ...]
    others: tuple[Candidate, ...]
    average: float

    @property
    def most(self) -> int:
        """All of them."""
        return len(self.certain) + len(self.others)


def extent(search: Search, *, reads_outputs: bool) -> Extent:
    """reads_outputs: drafts that can, read the baseline's outputs while the run lasts."""
    drafts = {candidate.draft for candidate in search.candidates}
    told = {c.draft for c in search.candidates if c.variant in search.forecast}
    if search.drafts_read_text and reads_outputs:
        told = drafts
    certain = _certain(search, told)
    study = _NOT_TOLD if search.drafts_read_text else _HEADS
    average = (_TOLD if told == drafts else study).of(len(drafts))
    return Extent(
        certain=certain,
        others=tuple(c for c in search.candidates if c not in certain),
        average=min(len(search.candidates), max(len(certain), average)),
    )


def _certain(search: Search, told: Collection[str]) -> tuple[Candidate, ...]:
    """By the rules of `State.next`: what is asked for, else the first one; then one of each draft
    of which nothing else would tell how many tokens a step yields. told: the other drafts.

    No second one of a draft: where the first shows that none can be worth it, the search ends.
    """
    asked_for = tuple(c for c in search.candidates if c.is_asked_for)
    certain = asked_for or (first_candidate(search.candidates),)
    known = {*told, *(candidate.draft for candidate in certain)}
    drafts = dict.fromkeys(c.draft for c in search.candidates if c.draft not in known)
    of_others = (
        first_candidate([c for c in search.candidates if c.draft == draft]) for draft in drafts
    )
    return (*certain, *of_others)
