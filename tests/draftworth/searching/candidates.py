"""Searches of one draft and what they know: each test states only what it cares about."""

from typing import Any

from draftworth.records.search_result import Candidate, Search
from draftworth.searching.next_candidate import ClassTimes, MeasuredCandidate, SearchState
from draftworth.searching.predicted_tokens_per_step import Yield

# Of two classes; a tenth of the time before the first token.
BASELINE = {
    "structured": ClassTimes(weight=0.5, first_s=0.001, decoding_s=0.009),
    "open_ended": ClassTimes(weight=0.5, first_s=0.001, decoding_s=0.009),
}


def candidate(window: int, draft: str = "draft", **overrides: Any) -> Candidate:
    """One window; every draft is checked."""
    fields: dict[str, Any] = {
        "variant": f"{draft}-k{window}",
        "draft": draft,
        "window": window,
        "checked": window,
    }
    return Candidate(**{**fields, **overrides})


def search(*candidates: Candidate, **overrides: Any) -> Search:
    """Windows 2 to 12 unless others are given."""
    fields: dict[str, Any] = {
        "candidates": candidates or tuple(map(candidate, range(2, 13))),
        "drafts_read_text": True,
        "step_cost_per_draft": (0.05, 0.4),
        "within": 0.03,
    }
    return Search(**{**fields, **overrides})


def tokens(window: int, *, right: float = 0.8) -> dict[str, float]:
    """Tokens a step of a draft that is right so often, in both classes."""
    each = sum(right**n for n in range(window + 1))
    return dict.fromkeys(BASELINE, each)


def cost(window: int, *, per_drafted: float = 0.2, right: float = 0.8) -> float:
    """What a token costs: a tenth before the first token, the rest by step cost / tokens."""
    return 0.1 + 0.9 * (1 + per_drafted * window) / tokens(window, right=right)["structured"]


def seen(window: int, **overrides: Any) -> MeasuredCandidate:
    """As measured without an error of its own."""
    return MeasuredCandidate(cost=cost(window, **overrides), deviation=0.005, first=0.1)


def state(*measured: int, of: Search | None = None, **overrides: Any) -> SearchState:
    """What is known when these windows are measured and every yield is."""
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
