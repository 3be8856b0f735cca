"""What a step of each candidate costs, in baseline steps, before and after some were measured.

Published figures (`catalog.yaml`) say little, so what is assumed is a shape, and wide: a fixed
part; a part for each drafted token, alike in all drafts and a little its own in each; a part for
each checked token, which a mixture of experts makes dear; a jump where a step has more tokens than
an engine's tile; and some unevenness from window to window. Two or three measured windows settle
the first parts, and the rest is what stays unknown between them.
"""

from __future__ import annotations

from collections.abc import Sequence

from draftworth.records.search import Candidate, Search
from draftworth.searching.gaussian import Gaussian
from draftworth.speculation import TOKENS_BEFORE_A_JUMP, step_cost

# Standard deviations, in baseline steps.
_FIXED = 0.1
_JUMP = 0.25
_PER_CHECKED = 0.25
# Of what a drafted token adds: the part that is each draft's own, and the least that is unknown.
_OWN_PART = 0.25
_LEAST_PER_DRAFTED = 0.05
# And the part that goes with the weights that a draft has to read; the rest is alike in all drafts.
_BY_SIZE = 0.7
# From one window to the next, beside all of the above.
_UNEVEN = 0.008


def step_costs_before(search: Search) -> Gaussian:
    """Of all candidates, in their order, before any is measured."""
    low, high = search.step_cost_per_draft
    each = (low + high) / 2
    unknown = max((high - low) / 2, _LEAST_PER_DRAFTED)
    candidates = search.candidates
    return Gaussian(
        means=[step_cost(_drafting(c), per_drafted=each) for c in candidates],
        covariance=[[_together(a, b, unknown) for b in candidates] for a in candidates],
    )


def _together(one: Candidate, other: Candidate, per_drafted: float) -> float:
    """How the costs of two candidates' steps vary together."""
    same_draft = one.draft == other.draft
    drafting = per_drafted**2 * _drafting(one) * _drafting(other)
    jumped = all(c.checked + 1 > TOKENS_BEFORE_A_JUMP for c in (one, other))
    return (
        _FIXED**2
        + drafting * (1 + _OWN_PART**2 * same_draft)
        + _PER_CHECKED**2 * one.checked * other.checked
        + _JUMP**2 * jumped
        + _UNEVEN**2 * min(one.window, other.window) * same_draft
    )


def _drafting(candidate: Candidate) -> float:
    """Passes of the draft in a step, in those of the first draft."""
    return candidate.window * (1 - _BY_SIZE + _BY_SIZE * candidate.draft_size)


def first_candidate(candidates: Sequence[Candidate]) -> Candidate:
    """What is measured first: of the first draft, the last window before a step may cost a jump.

    With it the costs of all windows below are known from one side, and a jump would show in the
    next window that is measured above.
    """
    asked_for = [c for c in candidates if c.is_asked_for]
    own = [c for c in candidates if c.draft == candidates[0].draft]
    below = [c for c in own if c.checked + 1 <= TOKENS_BEFORE_A_JUMP]
    if asked_for:
        return asked_for[0]
    return max(below, key=lambda c: c.window) if below else min(own, key=lambda c: c.window)
