"""Estimates each candidate's step cost before any candidate is measured.

A step cost is the time of the candidate's decoding step, divided by that of a baseline step.
Published figures (`catalog.yaml`) say little, so a sum of uncertain parts is assumed: a fixed part;
a part per drafted token, mostly the same for all drafts; a part per checked token, which is large
for a mixture of experts; jumps; and small differences between windows.

A jump is where a step has more tokens than fit into one tile of the engine's matrix products, or
into one of its compiled sizes. Both hold the tokens of all requests in flight, so a request's own
tokens may be any number there. One of three kinds of assumption holds: no jump; one jump, at each
number with the same probability; or a small jump above every number, which may also be negative.
Measured windows tell which (`mixture`): a jump above one number is then none above the others.
Jumps that were independent of each other would leave each of them in doubt until its windows are
measured.
"""

from collections.abc import Sequence
from functools import lru_cache

from draftworth.records.search_result import Candidate, Search
from draftworth.searching.gaussian import Gaussian
from draftworth.searching.mixture import Assumption, Mixture
from draftworth.speculation import step_cost

# A step's cost may jump above each of these numbers of tokens in a step (checked tokens + 1).
TOKENS_BEFORE_JUMPS = range(2, 17)
# The probabilities that there is no jump, one jump, or a small one above every number.
_NO_JUMP, _ONE_JUMP, _MANY_JUMPS = 0.25, 0.6, 0.15

# Standard deviations of the uncertain parts of a candidate's step cost, whose unit is the time of a
# baseline step.
_FIXED = 0.1
_PER_CHECKED = 0.25
# A single jump's mean and standard deviation, and the standard deviation of each of many.
_JUMP_MEAN, _JUMP = 0.4, 0.4
_EACH_JUMP = 0.15
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


def step_costs_before(search: Search) -> Mixture:
    """Return the step costs of `search.candidates`, as estimated before any is measured."""
    low, high = search.step_cost_per_draft
    return _before(tuple(search.candidates), (low, high))


@lru_cache(maxsize=4)  # All states of a search begin with the same estimates.
def _before(candidates: tuple[Candidate, ...], per_drafted: tuple[float, float]) -> Mixture:
    without = _without_jumps(candidates, per_drafted)
    # For each number of tokens: 1 for a candidate whose step has more, 0 for any other.
    jumping = [
        [float(c.checked + 1 > tokens) for c in candidates] for tokens in TOKENS_BEFORE_JUMPS
    ]
    one_jump = [without.plus(shares, mean=_JUMP_MEAN, deviation=_JUMP) for shares in jumping]
    many_jumps = without
    for shares in jumping:
        many_jumps = many_jumps.plus(shares, mean=0.0, deviation=_EACH_JUMP)
    each = _ONE_JUMP / len(one_jump)
    return Mixture(
        assumptions=[
            Assumption(probability=_NO_JUMP, numbers=without),
            *(Assumption(probability=each, numbers=step_costs) for step_costs in one_jump),
            Assumption(probability=_MANY_JUMPS, numbers=many_jumps),
        ]
    )


def _without_jumps(candidates: Sequence[Candidate], per_drafted: tuple[float, float]) -> Gaussian:
    low, high = per_drafted
    each = (low + high) / 2
    unknown = max((high - low) / 2, _LEAST_PER_DRAFTED)
    return Gaussian(
        means=[step_cost(_drafting(c), per_drafted=each) for c in candidates],
        covariance=[[_together(a, b, unknown) for b in candidates] for a in candidates],
    )


def _together(one: Candidate, other: Candidate, per_drafted: float) -> float:
    same_draft = one.draft == other.draft
    drafting = per_drafted**2 * _drafting(one) * _drafting(other)
    return (
        _FIXED**2
        + drafting * (1 + (_DRAFT_PART**2 if same_draft else 0.0))
        + _PER_CHECKED**2 * one.checked * other.checked
        + (_UNEVEN**2 * min(one.window, other.window) if same_draft else 0.0)
    )


def _drafting(candidate: Candidate) -> float:
    """Return a step's time for drafting, in forward passes of the first candidate's draft."""
    return candidate.window * (1 - _BY_SIZE + _BY_SIZE * candidate.draft_size)
