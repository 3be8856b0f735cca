"""A search's candidates and stop conditions, and its result, which is a run's `search.json`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from draftworth.records.codec import Between, Checked
from draftworth.records.findings import read_beside

SEARCH_FILE = "search.json"


_Probability = Annotated[float, Between(0, 1)]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A speculative variant that a search may measure.

    draft: folder or hub id of the draft, or the name of a method that needs no draft model.
    draft_size: size of the draft / size of the first candidate's draft.
    window: `num_speculative_tokens`. checked: the number of drafted tokens that a step checks; the
        step yields at most `checked` + 1 tokens.
    is_asked_for: the experiment lists the variant by hand, so it is measured in any case.
    """

    variant: str
    draft: str
    window: int
    checked: int
    draft_size: float = 1.0
    is_asked_for: bool = False


@dataclass(frozen=True, kw_only=True)
class Search:
    """The candidates of a search, and the conditions that end it.

    drafts_read_text: the drafts are models whose only input is text, so a pass over the baseline's
        outputs predicts their tokens per step. (Heads need the target's hidden states.)
    step_cost_per_draft: lowest and highest time that each drafted token adds to a step, divided by
        the time of a baseline step; published, or assumed where nothing is published.
    within: a candidate is measured only if it may be cheaper than the cheapest measured variant
        (the baseline included) by more than this share.
    forecast: expected tokens per step by candidate and prompt class; empty without an estimate.
    hours, usd: limits of the whole run, after which no further candidate begins; None: no limit.
    tokens_per_day: output tokens of future traffic, which lasts `days`; None: not known. A
        candidate is not measured if its measurement costs more than the savings expected of it.
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
            raise ValueError("candidates: given an empty list, allowed: one or more")
        if not 0 < self.within < 1:
            raise ValueError(f"within: given {self.within:g}, allowed: above 0, below 1")
        low, high = self.step_cost_per_draft
        if not 0 <= low <= high < math.inf:
            raise ValueError("step_cost_per_draft: allowed: 0 or more, the lower end first")
        if any(tokens < 1 for by_class in self.forecast.values() for tokens in by_class.values()):
            raise ValueError("forecast: allowed: 1 token per step or more")

    def candidate(self, variant: str) -> Candidate:
        return next(c for c in self.candidates if c.variant == variant)


@dataclass(frozen=True, kw_only=True)
class CostInterval:
    """A cost, divided by the baseline's, with its 95% interval."""

    value: float
    low: float
    high: float

    @property
    def is_lower(self) -> bool | None:
        """Whether the cost is shown to be lower (True) or higher (False) than the baseline's.

        None: neither is shown.
        """
        if self.high < 1:
            return True
        return False if self.low > 1 else None

    def agrees_with(self, other: "CostInterval") -> bool:
        """Return whether two independent intervals together explain the costs' difference.

        The squares of their half-widths are added.
        """
        halves = ((cost.high - cost.low) / 2 for cost in (self, other))
        return abs(self.value - other.value) <= math.hypot(*halves)


@dataclass(frozen=True, kw_only=True)
class CandidateResult(Checked):
    """The figures of one candidate at the end of a search; each cost is divided by the baseline's.

    cost: cost of a token of all traffic. cost_by_class: cost of a token by prompt class. Both are
        estimated from the blocks of all candidates, also for a candidate without own blocks.
    measured: the cost from the candidate's own blocks alone; None: it was not measured.
    predicted: the cost that was expected when the candidate was chosen; None: without a forecast.
    step_cost: time of a step divided by the time of a baseline step.
    tokens_per_step: tokens per step by prompt class.
    chance: probability that the candidate is cheaper than the best measured one, or than the
        baseline if that is cheaper, by more than `Search.within`; 0 if it was measured.
    """

    variant: str
    cost: CostInterval
    cost_by_class: Mapping[str, float]
    measured: CostInterval | None = None
    predicted: CostInterval | None = None
    step_cost: float
    tokens_per_step: Mapping[str, float]
    chance: _Probability

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.measured and self.measured.value <= 0:
            raise ValueError(f"measured: given {self.measured.value:g}, allowed: above 0")


@dataclass(frozen=True, kw_only=True)
class SearchResult(Checked):
    """`search.json`: the result of a run's search.

    load: label of the search's load. order: names of the candidates in the order of measuring.
    results: every candidate that was measured or can be predicted, in the experiment's order.
    best: name of the cheapest measured candidate; empty if none was measured.
    expected_to_pay: whether the estimated cost of `best` is below the baseline's.
    sureness: a lower limit of the probability that no candidate is cheaper than `best`, or than the
        baseline if `best` is not expected to pay, by more than `Search.within`.
    ended: why no further candidate was measured.
    failed: the errors of candidates that could not be measured, by the candidate's name.
    """

    schema: str = "draftworth.search/1"
    run_id: str
    search: Search
    load: str
    results: tuple[CandidateResult, ...]
    order: tuple[str, ...]
    best: str
    expected_to_pay: bool
    sureness: _Probability
    ended: str
    failed: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        measured = {result.variant for result in self.results if result.measured}
        if self.best and self.best not in measured:
            raise ValueError(f"best: given {self.best!r:.80}, allowed: a measured one of results")
        candidates = {candidate.variant for candidate in self.search.candidates}
        if other := sorted({*self.order, *(r.variant for r in self.results)} - candidates):
            raise ValueError(f"order, results: given {other[0]!r:.80}, allowed: candidates")
        classes = self.results[0].cost_by_class.keys() if self.results else ()
        for result in self.results:
            if not result.cost_by_class.keys() == result.tokens_per_step.keys() == classes:
                raise ValueError("results: allowed: the same prompt classes in each")

    def result(self, variant: str) -> CandidateResult:
        return next(result for result in self.results if result.variant == variant)


def read_search(folder: Path, run_id: str) -> SearchResult | None:
    """Return a run's search result, None if it has no file; UserInputError: the file is wrong."""
    return read_beside(SearchResult, folder / SEARCH_FILE, run_id, what="a search")
