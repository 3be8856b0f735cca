"""The answer of a search in sentences: its best candidate, and what was measured and why."""

import math
from collections.abc import Iterator, Sequence

from draftworth.records.search_result import CostInterval, SearchResult
from draftworth.untrusted import one_line


def search_answer(found: SearchResult) -> str:
    """Say which candidate of a search is best, its cost of a token, and how sure the search is."""
    if not found.best:
        return "The search has measured no candidate: no draft and no window can be named."
    name = named(found, found.best)
    best = found.result(found.best)
    cost = best.cost
    if cost.high < 1:
        subject = f"{name[0].upper()}{name[1:]}:"
    else:
        pays = "pays" if cost.low > 1 else "is shown to pay"
        subject = f"No measured candidate {pays}: with the best, {name},"
    alone = f"; its own blocks alone say {apart(best.measured.value)}" if best.measured else ""
    known = f"by all that was measured{alone}; {_sureness(found)}"
    return f"{subject} a token costs {cost_words(cost)} {known}."


def course(found: SearchResult) -> Iterator[str]:
    """Yield sentences on the candidates that a search measured, why it ended, and what failed."""
    total = len({c.variant for c in found.search.candidates} | found.failed.keys())
    count = sum(result.measured is not None for result in found.results)
    was = "was" if count == 1 else "were"
    order = f", in this order: {', '.join(found.order)}" if found.order else ""
    yield f"{count} of {_candidates(total)} {was} measured at {found.load}{order}."
    ended = one_line(found.ended or "the run was over before the search was")
    yield f"No further one was: {ended}."
    for variant, reason in found.failed.items():
        yield f"{variant} is left out: {one_line(reason).rstrip('.')}."
    if unknown := _unknown(found):
        yield f"Neither measured nor predicted: {', '.join(unknown)}."


def next_step(found: SearchResult) -> str:
    """Say what to do after a search."""
    if not found.best:
        return "Next: put right what is said here and measure once more."
    if found.result(found.best).cost.low >= 1:
        return (
            "Next: try other drafts with `draftworth estimate`, which needs no device; "
            "those measured here do not pay."
        )
    return (
        f"Next: measure {named(found, found.best)} against the baseline in an experiment of its "
        "own, with both under `variants` and no `search`, with repetitions and a ladder of loads: "
        "the best of many looks a little better than it is, and this answer is for one load."
    )


def named(found: SearchResult, variant: str) -> str:
    """Return a candidate in words, such as `window 9 of drafts/small`."""
    candidate = found.search.candidate(variant)
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


def _sureness(found: SearchResult) -> str:
    by = f"by more than {100 * found.search.within:g}%"
    said = []
    if any(result.measured is None for result in found.results):
        claim = (
            "other candidate is cheaper"
            if found.expected_to_pay
            else "candidate is cheaper than no draft"
        )
        # Never 100%: a candidate that was not measured may still be cheaper.
        percent = min(99, math.floor(100 * found.sureness))
        sure = f"at least {percent}% sure that no {claim} {by} for the prompts measured"
        said.append(sure if percent > 0 else f"another candidate may be cheaper {by}")
    if unknown := _unknown(found):
        said.append(f"{_candidates(len(unknown))} could be neither measured nor predicted")
    return " and ".join(said) or "every candidate that could be is measured"


def _unknown(found: SearchResult) -> Sequence[str]:
    known = {result.variant for result in found.results} | found.failed.keys()
    return [c.variant for c in found.search.candidates if c.variant not in known]


def _candidates(count: int) -> str:
    return "1 candidate" if count == 1 else f"{count} candidates"
