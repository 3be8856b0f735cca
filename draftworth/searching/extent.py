"""How many candidates a search measures: certainly, on average in the simulated study, at most."""

from __future__ import annotations

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


# Simulated were one and two draft models, read late where there are two, and one head: a further
# head is taken as a further draft model that nobody reads with.
_READ = _Average(first_draft=2.1, each_further=1.3)
_NOT_READ = _Average(first_draft=2.9, each_further=2.0)
_HEADS = _Average(first_draft=2.5, each_further=2.0)


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
    is_read = search.drafts_read_text and reads_outputs
    certain = _certain(search, is_read=is_read)
    drafts = len({candidate.draft for candidate in search.candidates})
    study = _NOT_READ if search.drafts_read_text else _HEADS
    average = (_READ if is_read else study).of(drafts)
    return Extent(
        certain=certain,
        others=tuple(c for c in search.candidates if c not in certain),
        average=min(len(search.candidates), max(len(certain), average)),
    )


def _certain(search: Search, *, is_read: bool) -> tuple[Candidate, ...]:
    """By the rules of `State.next`: what is asked for, else the first one; then one of each draft
    of which nothing else would tell how many tokens a step yields.

    No second one of a draft: where the first shows that none can be worth it, the search ends.
    """
    asked_for = tuple(c for c in search.candidates if c.is_asked_for)
    certain = asked_for or (first_candidate(search.candidates),)
    known = {candidate.draft for candidate in certain}
    drafts = dict.fromkeys(c.draft for c in search.candidates if c.draft not in known)
    of_others = (
        first_candidate([c for c in search.candidates if c.draft == draft]) for draft in drafts
    )
    return certain if is_read else (*certain, *of_others)
