"""Estimates each candidate's step cost before any candidate is measured.

A step cost is the time of the candidate's decoding step, divided by that of a baseline step.
Published figures (`catalog.yaml`) say little, so a sum of uncertain parts is assumed: a fixed part;
a part per drafted token, mostly the same for all drafts; a part per checked token, which is large
for a mixture of experts; a jump where a step has more tokens than fit into one tile of the engine's
matrix products; and small differences between windows. Two to four measured windows determine all
parts that matter.
"""

from draftworth.records.search_result import Candidate, Search
from draftworth.searching.gaussian import Gaussian
from draftworth.speculation import TOKENS_BEFORE_JUMPS, step_cost

# Standard deviations of the uncertain parts of a candidate's step cost, whose unit is the time of a
# baseline step.
_FIXED = 0.1
_JUMP = 0.3
_PER_CHECKED = 0.25
# The cost per drafted token has an error that all drafts share, and an error of each draft. First
# the standard deviation of a draft's own error / that of the shared error, then the least standard
# deviation of the shared error, in baseline steps.
_DRAFT_PART = 0.25
_LEAST_PER_DRAFTED = 0.05
# The share of a draft's time that is proportional to its size; the rest is equal for all drafts.
_BY_SIZE = 0.7
# Standard deviation of the irregular part of the step cost from one window to the next longer one,
# which the parts above do not explain. The unit is the time of a baseline step.
_UNEVEN = 0.008


def step_costs_before(search: Search) -> Gaussian:
    """Return the step costs of `search.candidates`, as estimated before any is measured."""
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
    fewer = min(one.checked, other.checked) + 1
    jumps = sum(fewer > tokens for tokens in TOKENS_BEFORE_JUMPS)
    return (
        _FIXED**2
        + drafting * (1 + (_DRAFT_PART**2 if same_draft else 0.0))
        + _PER_CHECKED**2 * one.checked * other.checked
        + _JUMP**2 * jumps
        + (_UNEVEN**2 * min(one.window, other.window) if same_draft else 0.0)
    )


def _drafting(candidate: Candidate) -> float:
    """Return a step's time for drafting, in forward passes of the first candidate's draft."""
    return candidate.window * (1 - _BY_SIZE + _BY_SIZE * candidate.draft_size)
