"""Predicts the tokens per step of a search's candidates from other windows, with the error.

A draft model reads only the text, so one pass over the baseline's outputs gives the tokens per step
of every window (`speculation`). A head reads the target's hidden states: its n-th drafted token is
assumed to be accepted as often as in a measured window. This is not exact, because with another
window steps begin at other positions of the text; the error is smaller if the two windows are of
similar length.

If a server has no counters, only the mean tokens of a step are known. Two measured windows then
determine the acceptance of the first drafted token, and the factor by which acceptance decays from
one drafted token of a step to the next (`decay` in the code). With one measured window, the factor
that is usual for published heads is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from draftworth.records.search_result import Candidate
from draftworth.speculation import expected_tokens_per_step

# Standard error of log(tokens per step) as predicted from the text alone, found by comparing such
# predictions with servers (docs/appendix/forecasts.md).
FROM_TEXT = 0.005
# Standard error of log(tokens per step), predicted for a window that is longer or shorter than the
# nearest measured window by a factor of e = 2.718. The second number of a pair is for windows that
# are longer than all measured ones. The first pair is for servers with counters: simulated drafts
# deviate about half as much (decision 23). In the second, only the mean tokens of a step are known:
# 95% of published heads are within 1.96 of these errors
# (`python -m benchmarks.published_acceptance`).
_COUNTED, _MEANS = (0.03, 0.06), (0.06, 0.10)
# The factor by which acceptance decays from one drafted token of a step to the next. First the
# usual one of published heads, then the least and the most that is fitted to two windows.
USUAL_DECAY = 0.95
_DECAY_RANGE = 0.7, 1.2


@dataclass(frozen=True, kw_only=True)
class Yield:
    """A candidate's predicted tokens per step, by prompt class.

    anchor: log(window) of the nearest measured candidate; 0: predicted from the text alone.
    deviation: standard error of log(`tokens`).
    """

    tokens: Mapping[str, float]
    anchor: float = 0.0
    deviation: float = FROM_TEXT

    def together(self, other: Yield, *, same_draft: bool) -> float:
        """Return the covariance of the errors of this and another candidate's log(`tokens`).

        It is 0 if the candidates' drafts or nearest measured windows (`anchor`) differ.
        """
        if not same_draft or self.anchor != other.anchor:
            return 0.0
        return min(self.deviation, other.deviation) ** 2


def from_measured(
    candidate: Candidate, longer_than: Mapping[Candidate, Mapping[str, Sequence[float]]]
) -> Yield | None:
    """Predict a candidate's tokens per step from its draft's measured windows, by server counters.

    Returns None if no window of the draft was measured.
    longer_than: for each measured candidate and prompt class, the shares of its steps with more
        than 1, 2, ... tokens.
    """
    near = _near(candidate, longer_than)
    if not near:
        return None
    places = [math.log(c.window) for c in near]
    tokens = {
        name: _between(
            [
                (place, _tokens(longer_than[c][name], candidate.checked))
                for place, c in zip(places, near, strict=True)
            ],
            math.log(candidate.window),
        )
        for name in longer_than[near[0]]
    }
    return _yield(candidate, near, tokens, _COUNTED)


def from_means(
    candidate: Candidate,
    means: Mapping[Candidate, Mapping[str, float]],
    *,
    usual_decay: float = USUAL_DECAY,
) -> Yield | None:
    """Predict a candidate's tokens per step from the mean tokens per step of its draft's windows.

    Returns None if no window of the draft was measured.
    means: mean tokens per step, by candidate and prompt class.
    usual_decay: the factor by which acceptance decays from one drafted token of a step to the next,
        assumed if only one window was measured.
    """
    near = _near(candidate, means, least=2)
    if not near:
        return None
    tokens = {
        name: _continued(
            tuple((c.checked, means[c][name]) for c in near), candidate.checked, usual_decay
        )
        for name in means[near[0]]
    }
    return _yield(candidate, near, tokens, _MEANS)


@lru_cache(maxsize=1024)
def _continued(means: tuple[tuple[int, float], ...], wanted: int, usual_decay: float) -> float:
    """Return the mean tokens of a step that checks `wanted` drafted tokens.

    means: (checked drafted tokens, mean tokens) of one or two measured windows. Two windows
        determine the acceptance of the first drafted token and its decay factor (see the module).
    usual_decay: the decay factor that is assumed if only one window was measured. A factor nearer
        to 1 is used if this one, even with an acceptance of 1 for the first drafted token, would
        yield fewer tokens than were measured.
    """
    (checked, mean), (further, other) = means[0], means[-1]

    def acceptance(decay: float) -> float:
        def tokens(acceptance: float) -> float:
            return expected_tokens_per_step(acceptance, checked=checked, decay=decay)

        return _bisected(tokens, mean, (0.0, 1.0))

    def of_other(decay: float) -> float:
        return expected_tokens_per_step(acceptance(decay), checked=further, decay=decay)

    def at_most(decay: float) -> float:
        return expected_tokens_per_step(1.0, checked=checked, decay=decay)

    if checked != further:
        decay = _bisected(of_other, other, _DECAY_RANGE)
    elif at_most(usual_decay) < mean:
        decay = _bisected(at_most, mean, (usual_decay, 1.0))
    else:
        decay = usual_decay
    return expected_tokens_per_step(acceptance(decay), checked=wanted, decay=decay)


def _bisected(function: Callable[[float], float], value: float, ends: tuple[float, float]) -> float:
    low, high = ends
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < value else (low, middle)
    return (low + high) / 2


def _near(
    candidate: Candidate, measured: Iterable[Candidate], *, least: int = 1
) -> list[Candidate]:
    """Return the nearest measured windows of a candidate's draft: the next shorter and next longer.

    If all measured windows are shorter than the candidate's, or all are longer, there is only one
    neighbour. Then the nearest windows are returned, as many as `least` says, or fewer if there are
    no more. A candidate that is measured itself is returned alone.
    """
    windows = sorted(
        (c for c in measured if c.draft == candidate.draft), key=lambda c: (c.checked, c.window)
    )
    below = [c for c in windows if c.checked <= candidate.checked]
    above = [c for c in windows if c.checked > candidate.checked]
    if candidate in below:
        return [candidate]
    missing = least - 1
    if not above:
        return below[-1 - missing :]
    return [*below[-1:], *above[: 1 if below else 1 + missing]]


def _yield(
    candidate: Candidate,
    near: Sequence[Candidate],
    tokens: Mapping[str, float],
    errors: tuple[float, float],
) -> Yield:
    """Return a candidate's predicted tokens per step (`tokens`), with their standard error.

    The square of the standard error is proportional to the distance |log(the candidate's window) -
    log(the nearest window of `near`)|.
    near: the measured windows that `tokens` was predicted from.
    tokens: the predicted tokens per step, by prompt class.
    errors: the standard error of log(tokens) at a distance of 1, which is a window 2.718 times as
        long or as short. The second value is for candidates that check more drafted tokens than
        all of `near`, the first for all others.
    """
    wanted = math.log(candidate.window)
    anchor = min((math.log(c.window) for c in near), key=lambda place: abs(place - wanted))
    each = errors[max(c.checked for c in near) < candidate.checked]
    return Yield(tokens=tokens, anchor=anchor, deviation=each * math.sqrt(abs(anchor - wanted)))


def _tokens(longer_than: Sequence[float], checked: int) -> float:
    """Return a step's mean tokens: 1 + the sum of the first `checked` shares of `longer_than`.

    longer_than: the shares of steps with more than 1, 2, ... tokens. A share that is missing at its
        end is assumed to be the share before it, times the ratio of the last two known shares
        (times 0.5 if there is no such ratio).
    """
    parts = [*longer_than[:checked]]
    ratio = longer_than[-1] / longer_than[-2] if len(longer_than) > 1 and longer_than[-2] else 0.5
    while len(parts) < checked:
        parts.append((parts[-1] if parts else 1.0) * ratio)
    return 1 + math.fsum(parts)


def _between(points: Sequence[tuple[float, float]], place: float) -> float:
    """Return the value at `place`: log(value) is interpolated linearly between two points.

    points: (place, value) of both points, or of only one, whose value is returned.
    """
    (first, value), (last, other) = points[0], points[-1]
    if last == first:
        return value
    part = (place - first) / (last - first)
    return math.exp((1 - part) * math.log(value) + part * math.log(other))
