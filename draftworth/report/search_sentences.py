"""The answer of a search in sentences: its best candidate, and what was measured and why."""

import math
from collections.abc import Iterator, Sequence

from draftworth.records.load_shapes import words_of_label
from draftworth.records.search_result import CostInterval, SearchResult
from draftworth.untrusted import one_line


def search_answer(search: SearchResult) -> str:
    """Say which candidate of a search is best, what a token costs with it, and how sure that is."""
    if not search.best:
        return "The search has measured no candidate: no draft and no window can be named."
    name = named(search, search.best)
    best = search.result(search.best)
    cost = best.cost
    if cost.is_lower:
        subject = f"{name[0].upper()}{name[1:]}:"
    else:
        pays = "pays" if cost.is_lower is False else "is shown to pay"
        subject = f"No measured candidate {pays}: with the best, {name},"
    alone = f"; its own blocks alone say {apart(best.measured.value)}" if best.measured else ""
    grounds = f"by all that was measured{alone}; {_sureness(search)}"
    return f"{subject} a token costs {cost_words(cost)} {grounds}."


def course(search: SearchResult) -> Iterator[str]:
    """Yield sentences on the candidates that a search measured, why it ended, and what failed."""
    total = len({c.variant for c in search.search.candidates} | search.failed.keys())
    count = sum(result.measured is not None for result in search.results)
    was = "was" if count == 1 else "were"
    load = words_of_label(search.load)
    order = f", in this order: {', '.join(search.order)}" if search.order else ""
    yield f"{count} of {_candidates(total)} {was} measured at {load}{order}."
    ended = one_line(search.ended or "the run was over before the search was")
    yield f"No further one was: {ended}."
    for variant, reason in search.failed.items():
        yield f"{variant} is left out: {one_line(reason).rstrip('.')}."
    if unknown := _unknown(search):
        yield f"Neither measured nor predicted: {', '.join(unknown)}."


def how_to_confirm(search: SearchResult) -> str:
    """Say how to measure the best candidate of a search once more. The search must have one."""
    return (
        f"measure {named(search, search.best)} against the baseline in an experiment of its "
        "own, with both under `variants` and no `search`, with repetitions and a ladder of loads: "
        "the best of many looks a little better than it is, and this answer is for one load"
    )


def named(search: SearchResult, variant: str) -> str:
    """Return a candidate in words, such as `window 9 of drafts/small`."""
    candidate = search.search.candidate(variant)
    of_draft = f" of {one_line(candidate.draft)}" if candidate.draft else ""
    return f"window {candidate.window}{of_draft}"


def cost_words(cost: CostInterval) -> str:
    """Return a cost ratio in words: `41.2% less than without a draft (39.9% to 42.6%)`."""
    if (cost.low < 1) == (cost.high < 1):
        first, last = sorted(abs(end - 1) for end in (cost.low, cost.high))
        ends = f"{first:.1%} to {last:.1%}"
    else:
        ends = f"{apart(cost.low)} to {apart(cost.high)}"
    return f"{apart(cost.value)} than without a draft ({ends})"


def apart(ratio: float) -> str:
    """Return a ratio in words, such as `41.2% less` for 0.588."""
    return f"{abs(ratio - 1):.1%} {'less' if ratio < 1 else 'more'}"


def _sureness(search: SearchResult) -> str:
    by = f"by more than {100 * search.search.within:g}%"
    clauses = []
    if any(result.measured is None for result in search.results):
        claim = (
            "other candidate is cheaper"
            if search.expected_to_pay
            else "candidate is cheaper than no draft"
        )
        # Never 100%: a candidate that was not measured may still be cheaper.
        percent = min(99, math.floor(100 * search.sureness))
        sure = f"at least {percent}% sure that no {claim} {by} for the prompts measured"
        clauses.append(sure if percent > 0 else f"another candidate may be cheaper {by}")
    if unknown := _unknown(search):
        clauses.append(f"{_candidates(len(unknown))} could be neither measured nor predicted")
    return " and ".join(clauses) or "every candidate that could be is measured"


def _unknown(search: SearchResult) -> Sequence[str]:
    settled = {result.variant for result in search.results} | search.failed.keys()
    return [c.variant for c in search.search.candidates if c.variant not in settled]


def _candidates(count: int) -> str:
    return "1 candidate" if count == 1 else f"{count} candidates"
