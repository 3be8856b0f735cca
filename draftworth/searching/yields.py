"""Tokens a step that each candidate will yield, with their error.

A draft model reads only the text, so one pass over the baseline's outputs shows them for every
window (`analysis/costs`). A head reads the target's hidden states: other windows are taken to
be accepted as often as a measured one at the same depth. That is not exact, because their steps
begin elsewhere in the text; it matters less, the nearer the two are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from draftworth.records.search import Candidate

# Deviation of a prediction from the text, as servers showed it (docs/estimate.md).
FROM_TEXT = 0.005
# Deviation of a prediction from measured windows, for a window that is e times as long or as short:
# between and below them, and beyond the longest.
_BETWEEN, _BEYOND = 0.05, 0.15


@dataclass(frozen=True, kw_only=True)
class Yield:
    """Tokens a step, by prompt class.

    anchor: the logarithm of the measured window that they come from; deviation: of their logarithm.
    """

    tokens: Mapping[str, float]
    anchor: float = 0.0
    deviation: float = FROM_TEXT

    def together(self, other: Yield, *, same_draft: bool) -> float:
        """Return the covariance of both logarithms: an error goes on in windows further away."""
        if not same_draft or self.anchor != other.anchor:
            return 0.0
        return min(self.deviation, other.deviation) ** 2


def from_measured(
    candidate: Candidate, longer_than: Mapping[Candidate, Mapping[str, Sequence[float]]]
) -> Yield | None:
    """Predict a candidate from others of its draft; None where none of them is measured.

    longer_than: of each measured candidate, by prompt class, the parts of its steps with more than
        1, 2, ... tokens.
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
    """Add 1 and the parts of longer steps; beyond the measured depth they fall as at its end."""
    parts = [*longer_than[:checked]]
    fall = longer_than[-1] / longer_than[-2] if len(longer_than) > 1 and longer_than[-2] else 0.5
    while len(parts) < checked:
        parts.append((parts[-1] if parts else 1.0) * fall)
    return 1 + math.fsum(parts)


def _between(known: Sequence[tuple[float, float]], place: float) -> float:
    """Interpolate between the logarithms at two places; with one place, take its value."""
    (first, value), (last, other) = known[0], known[-1]
    if last == first:
        return value
    part = (place - first) / (last - first)
    return math.exp((1 - part) * math.log(value) + part * math.log(other))
