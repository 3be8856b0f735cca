"""The cost of a step of each candidate in baseline steps, before any is measured.

Published figures (`catalog.yaml`) say little, so only the shape is assumed, with wide deviations: a
fixed part; a part for each drafted token, mostly the same in all drafts; a part for each checked
token, large for a mixture of experts; a jump beyond an engine's tile; and some unevenness from
window to window. Two or three measured windows settle all but the last.
"""

from collections.abc import Sequence

from draftworth.records.search import Candidate, Search
from draftworth.searching.gaussian import Gaussian
from draftworth.speculation import TOKENS_BEFORE_A_JUMP, step_cost

# Standard deviations, in baseline steps.
_FIXED = 0.1
_JUMP = 0.25
_PER_CHECKED = 0.25
# Of the cost of a drafted token: the part that is each draft's own, and the least deviation.
_OWN_PART = 0.25
_LEAST_PER_DRAFTED = 0.05
# The part that is proportional to the size of the draft; the rest is the same in all drafts.
_BY_SIZE = 0.7
# From one window to the next, beside all of the above.
_UNEVEN = 0.008


def step_costs_before(search: Search) -> Gaussian:
    """Return the costs of all candidates, in their order, before any is measured."""
    low, high = search.step_cost_per_draft
    each = (low + high) / 2
    unknown = max((high - low) / 2, _LEAST_PER_DRAFTED)
    candidates = search.candidates
    return Gaussian(
        means=[step_cost(_drafting(c), per_drafted=each) for c in candidates],
        covariance=[[_together(a, b, unknown) for b in candidates] for a in candidates],
    )


def _together(one: Candidate, other: Candidate, per_drafted: float) -> float:
    same_draft = one.draft == other.draft
    drafting = per_drafted**2 * _drafting(one) * _drafting(other)
    jumped = all(c.checked + 1 > TOKENS_BEFORE_A_JUMP for c in (one, other))
    return (
        _FIXED**2
        + drafting * (1 + (_OWN_PART**2 if same_draft else 0.0))
        + _PER_CHECKED**2 * one.checked * other.checked
        + (_JUMP**2 if jumped else 0.0)
        + (_UNEVEN**2 * min(one.window, other.window) if same_draft else 0.0)
    )


def _drafting(candidate: Candidate) -> float:
    """Return the time of a step's passes of the draft, in passes of the first draft."""
    return candidate.window * (1 - _BY_SIZE + _BY_SIZE * candidate.draft_size)


def first_candidate(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate to measure first.

    It is the first draft's longest window below a jump in the cost of a step: it bounds the costs
    of all shorter windows, and the next longer one that is measured shows the jump.
    """
    asked_for = [c for c in candidates if c.is_asked_for]
    own = [c for c in candidates if c.draft == candidates[0].draft]
    below = [c for c in own if c.checked + 1 <= TOKENS_BEFORE_A_JUMP]
    if asked_for:
        return asked_for[0]
    return max(below, key=lambda c: c.window) if below else min(own, key=lambda c: c.window)
