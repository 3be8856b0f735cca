"""What a search may measure, and what it found: `search.json` in the run's folder.

The candidates and the rule by which it ends are a part of the run specification; what was found is
written when the run is over, just before its `run.json`. Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from draftworth.records.beside import read_beside
from draftworth.records.load import Load

SEARCH_FILE = "search.json"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A speculative variant that a search may measure.

    draft: its folder or hub id. draft_size: its weights / those of the first candidate's draft.
    window: `num_speculative_tokens`. checked: drafted tokens that a step checks; a step yields one
        token more at most.
    is_asked_for: it is measured whatever the others show, as a variant that the experiment lists by
        hand.
    """

    variant: str
    draft: str
    window: int
    checked: int
    draft_size: float = 1.0
    is_asked_for: bool = False


@dataclass(frozen=True, kw_only=True)
class Search:
    """Candidates, and when enough of them are measured.

    candidates: the one that is measured first comes first.
    drafts_read_text: a pass of each draft over the baseline's outputs predicts what it yields: so
        with draft models, which know nothing but the text; not so with heads that read the target's
        hidden states.
    step_cost_per_draft: what each drafted token adds to a step, published, in baseline steps.
    within: a candidate that may be better by this part of the cost, or less, is not measured.
    forecast: tokens a step that are expected, by prompt class, of candidates by their names; empty:
        nobody has estimated them.
    hours, usd: of the whole run, after which no further candidate is begun. tokens_per_day, days:
        output tokens of the traffic that the answer is for, and for how long: a candidate is not
        measured that costs more than it can be expected to save.
    """

    candidates: tuple[Candidate, ...]
    drafts_read_text: bool
    step_cost_per_draft: tuple[float, float]
    within: float
    forecast: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    hours: float | None = None
    usd: float | None = None
    tokens_per_day: float | None = None
    days: float = 30

    def __post_init__(self) -> None:
        if not self.candidates:
            raise ValueError("candidates: given none, allowed: one or more")
        if not 0 < self.within < 1:
            raise ValueError(f"within: given {self.within:g}, allowed: above 0, below 1")
        low, high = self.step_cost_per_draft
        if not 0 <= low <= high < math.inf:
            raise ValueError("step_cost_per_draft: allowed: 0 or more, the lower end first")
        if any(tokens < 1 for found in self.forecast.values() for tokens in found.values()):
            raise ValueError("forecast: allowed: 1 token a step or more")

    def candidate(self, variant: str) -> Candidate:
        """By its name; raises StopIteration for another variant's."""
        return next(c for c in self.candidates if c.variant == variant)


def drafts_can_tell(search: Search, loads: Iterable[Load], temperature: float) -> bool:
    """Whether a pass of the drafts over the baseline's outputs predicts what they yield.

    Of drafts that read text, where outputs are the target's most likely ones, to prompts as they
    are: those that were made longer or shorter for a load are kept nowhere.
    """
    as_they_are = any(load.input_tokens is None for load in loads)
    return search.drafts_read_text and not temperature and as_they_are


@dataclass(frozen=True, kw_only=True)
class Range:
    """A figure with its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class CandidateResult:
    """One candidate at the end.

    cost: of a token / the baseline's, in the traffic; of a measured one by all that was measured,
        of another one predicted. cost_by_class: the same in each prompt class, without an interval.
    measured: the cost that its own blocks showed, by themselves; None: it was not measured.
    predicted: what was expected of it when it was chosen; None where nothing could be.
    step_cost: in baseline steps. tokens_per_step: by prompt class.
    chance: that it is cheaper than the best by more than `within`.
    """

    variant: str
    cost: Range
    cost_by_class: Mapping[str, float]
    measured: Range | None = None
    predicted: Range | None = None
    step_cost: float
    tokens_per_step: Mapping[str, float]
    chance: float

    def __post_init__(self) -> None:
        if self.measured and self.measured.value <= 0:
            raise ValueError(f"measured: given {self.measured.value:g}, allowed: above 0")
        if not 0 <= self.chance <= 1:
            raise ValueError(f"chance: given {self.chance:g}, allowed: 0 to 1")


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """`search.json`.

    load: label of the load that it was done at. results: of each candidate that was measured or can
        be predicted, in the order of the experiment. order: of measuring.
    best: the cheapest that was measured; empty where none was. expected_to_pay: the middle of its
        cost's interval is below 1; whether that is shown, the interval says.
    sureness: no candidate is cheaper than the best, or than no draft, by more than `within`: at
        least so likely.
    ended: why no further candidate was measured. failed: why one could not be, by its name.
    """

    schema: str = "draftworth.search/1"
    run_id: str
    search: Search
    load: str
    results: tuple[CandidateResult, ...]
    order: tuple[str, ...]
    best: str
    expected_to_pay: bool
    sureness: float
    ended: str
    failed: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.sureness <= 1:
            raise ValueError(f"sureness: given {self.sureness:g}, allowed: 0 to 1")
        measured = {result.variant for result in self.results if result.measured}
        if self.best and self.best not in measured:
            raise ValueError(f"best: given {self.best!r:.80}, allowed: a measured one of results")
        known = {candidate.variant for candidate in self.search.candidates}
        if other := sorted({*self.order, *(r.variant for r in self.results)} - known):
            raise ValueError(f"order, results: given {other[0]!r:.80}, allowed: candidates")
        classes = self.results[0].cost_by_class.keys() if self.results else ()
        for result in self.results:
            if not result.cost_by_class.keys() == result.tokens_per_step.keys() == classes:
                raise ValueError("results: allowed: the same prompt classes in each")

    def result(self, variant: str) -> CandidateResult:
        """By its name; raises StopIteration for one of which nothing is known."""
        return next(result for result in self.results if result.variant == variant)


def read_search(folder: Path, run_id: str) -> SearchResult | None:
    """What a run's search found; None where it was none.

    Raises:
        UserInputError: the file is none of this version, or of another run.
    """
    return read_beside(SearchResult, folder / SEARCH_FILE, run_id, what="a search")
