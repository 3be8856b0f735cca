"""Builders of searches and their states; a test gives only the values that it is about."""

from typing import Any

from draftworth.records.search_result import Candidate, Search
from draftworth.searching.next_candidate import ClassTimes, MeasuredCandidate, SearchState
from draftworth.searching.predicted_tokens_per_step import Yield

# The baseline's times in two classes; a tenth of each is spent before the first token.
BASELINE = {
    "structured": ClassTimes(weight=0.5, first_s=0.001, decoding_s=0.009),
    "open_ended": ClassTimes(weight=0.5, first_s=0.001, decoding_s=0.009),
}


def candidate(window: int, draft: str = "draft", **overrides: Any) -> Candidate:
    """Return a candidate with one window, of which every drafted token is checked."""
    fields: dict[str, Any] = {
        "variant": f"{draft}-k{window}",
        "draft": draft,
        "window": window,
        "checked": window,
    }
    return Candidate(**{**fields, **overrides})


def search(*candidates: Candidate, **overrides: Any) -> Search:
    """Return a search of the given candidates or, without any, of windows 2 to 12 of one draft."""
    fields: dict[str, Any] = {
        "candidates": candidates or tuple(map(candidate, range(2, 13))),
        "drafts_read_text": True,
        "step_cost_per_draft": (0.05, 0.4),
        "within": 0.03,
    }
    return Search(**{**fields, **overrides})


def tokens(window: int, *, right: float = 0.8) -> dict[str, float]:
    """Return tokens per step by class, if each drafted token is accepted with chance `right`."""
    each = sum(right**n for n in range(window + 1))
    return dict.fromkeys(BASELINE, each)


def cost(window: int, *, per_drafted: float = 0.2, right: float = 0.8) -> float:
    """Return what a token costs with a window, relative to the baseline.

    0.1 is spent before the first token; the rest is 0.9 x step cost / tokens per step.
    per_drafted: cost of a drafted token in baseline steps. right: as for `tokens`.
    """
    return 0.1 + 0.9 * (1 + per_drafted * window) / tokens(window, right=right)["structured"]


def seen(window: int, **overrides: Any) -> MeasuredCandidate:
    """Return a window as if it was measured, with exactly its true `cost`."""
    return MeasuredCandidate(cost=cost(window, **overrides), deviation=0.005, first=0.1)


def state(*measured: int, of: Search | None = None, **overrides: Any) -> SearchState:
    """Return a search's state if the windows `measured` were, and all tokens per step are known.

    If no window is measured, no tokens per step are known either.
    """
    planned = of or search()
    return SearchState(
        search=planned,
        candidates=planned.candidates,
        baseline=BASELINE,
        measured={
            c: seen(c.window, **overrides) for c in planned.candidates if c.window in measured
        },
        yields={c: Yield(tokens=tokens(c.window)) for c in planned.candidates} if measured else {},
    )
