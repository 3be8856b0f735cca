"""Predicts the tokens per step of each candidate, with the error of the prediction.

A draft model reads only the text, so one pass over the baseline's outputs gives the tokens per step
of every window (`analysis/costs`). A head reads the target's hidden states: its n-th drafted token
is assumed to be accepted as often as in a measured window. This is not exact, because steps begin
at other positions of the text; the error is smaller if the two windows are of similar length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from draftworth.records.search import Candidate

# Deviation of a prediction from the text, as measured on servers (docs/estimate.md).
FROM_TEXT = 0.005
# Deviation of a prediction for a window e times as long or as short as the nearest measured one:
# `_BETWEEN` up to the longest measured window, `_BEYOND` for longer ones.
_BETWEEN, _BEYOND = 0.05, 0.15


@dataclass(frozen=True, kw_only=True)
class Yield:
    """Tokens per step, by prompt class.

    anchor: logarithm of the nearest measured window. deviation: error of log(`tokens`).
    """

    tokens: Mapping[str, float]
    anchor: float = 0.0
    deviation: float = FROM_TEXT

    def together(self, other: Yield, *, same_draft: bool) -> float:
        """Return the covariance of log(tokens) with `other`; 0 if draft or anchor differ."""
        if not same_draft or self.anchor != other.anchor:
            return 0.0
        return min(self.deviation, other.deviation) ** 2


def from_measured(
    candidate: Candidate, longer_than: Mapping[Candidate, Mapping[str, Sequence[float]]]
) -> Yield | None:
    """Predict a candidate from measured candidates of its draft; None if there are none.

    longer_than: for each measured candidate and prompt class, the shares of its steps with more
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
    """Return 1 + the sum of `checked` shares; missing shares continue the ratio of the last two."""
    parts = [*longer_than[:checked]]
    fall = longer_than[-1] / longer_than[-2] if len(longer_than) > 1 and longer_than[-2] else 0.5
    while len(parts) < checked:
        parts.append((parts[-1] if parts else 1.0) * fall)
    return 1 + math.fsum(parts)


def _between(known: Sequence[tuple[float, float]], place: float) -> float:
    """Interpolate log(value) between two known (place, value); with one, return its value."""
    (first, value), (last, other) = known[0], known[-1]
    if last == first:
        return value
    part = (place - first) / (last - first)
    return math.exp((1 - part) * math.log(value) + part * math.log(other))
