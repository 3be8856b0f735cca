"""Tokens a step that each candidate will yield, and how far that may be off.

A draft model knows nothing but the text, so one pass over the baseline's outputs shows it for every
window (`analysis/acceptance`). A head reads the target's hidden states: there a measured window
shows how many of its steps were longer than each number of tokens, and a step of another window is
taken to be as lucky at the same depth. That is not exact, because its steps begin elsewhere in the
text; the nearer a window lies to a measured one, the less that matters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from draftworth.records.search import Candidate

# Of a prediction from the text: what servers did beside it (docs/estimate.md).
FROM_TEXT = 0.005
# Of one from measured windows, over a window that is e times as long or short: between and below
# them, and beyond the longest.
_BETWEEN, _BEYOND = 0.05, 0.15


@dataclass(frozen=True, kw_only=True)
class Yield:
    """tokens: a step, by prompt class. anchor: the logarithm of the window that they are of;
    deviation: of their logarithm, from there."""

    tokens: Mapping[str, float]
    anchor: float = 0.0
    deviation: float = FROM_TEXT

    def together(self, other: Yield, *, same_draft: bool) -> float:
        """Covariance of both logarithms: what is off at one window is so at the ones beyond it."""
        if not same_draft or self.anchor != other.anchor:
            return 0.0
        return min(self.deviation, other.deviation) ** 2


def from_measured(
    candidate: Candidate, longer_than: Mapping[Candidate, Mapping[str, Sequence[float]]]
) -> Yield | None:
    """Of a candidate from others of its draft; None where none of them is measured.

    longer_than: of each measured candidate, by prompt class, the parts of its steps that had more
        than 1, 2, ... tokens.
    """
    own = sorted(
        (c for c in longer_than if c.draft == candidate.draft), key=lambda c: (c.checked, c.window)
    )
    if not own:
        return None
    below = [c for c in own if c.checked <= candidate.checked]
    above = [c for c in own if c.checked >= candidate.checked]
    near = [*below[-1:], *above[:1]]
    places = [math.log(c.window) for c in near]
    own_place = math.log(candidate.window)
    nearest = min(range(len(near)), key=lambda i: abs(places[i] - own_place))
    distance = abs(places[nearest] - own_place)
    each = _BETWEEN if above else _BEYOND
    return Yield(
        tokens={
            name: _between(
                [
                    (p, _tokens(longer_than[c][name], candidate.checked))
                    for p, c in zip(places, near, strict=True)
                ],
                own_place,
            )
            for name in longer_than[near[0]]
        },
        anchor=places[nearest],
        deviation=each * math.sqrt(distance),
    )


def _tokens(longer_than: Sequence[float], checked: int) -> float:
    """1 + the parts of steps with more; deeper than measured they go on falling as at the end."""
    parts = [*longer_than[:checked]]
    fall = longer_than[-1] / longer_than[-2] if len(longer_than) > 1 and longer_than[-2] else 0.5
    while len(parts) < checked:
        parts.append((parts[-1] if parts else 1.0) * fall)
    return 1 + math.fsum(parts)


def _between(known: Sequence[tuple[float, float]], place: float) -> float:
    """On the line between two places, in logarithms; with one, as there."""
    (first, value), (last, other) = known[0], known[-1]
    if last == first:
        return value
    part = (place - first) / (last - first)
    return math.exp((1 - part) * math.log(value) + part * math.log(other))
