"""Compares the cost of a token on two sides whose servers were started several times each.

Two starts of the same server, with the same software, differ by some per cent: memory is laid out
otherwise, another node is slower, a neighbour is louder. So the difference between one start before
a change and one start after it shows nothing about the change. Each start is one measurement, and
its error is that of starts, however many requests it answered.

A change of the software seldom changes how much starts differ. So the starts of both sides together
show their variance (the pooled variance of Student's two-sample t-test): then one side may have a
single start, if the other has enough.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from draftworth.analysis.clustering import VariancePart
from draftworth.analysis.pairing import Traffic, repetition_of
from draftworth.analysis.ratios import log_seconds_per_token
from draftworth.analysis.spread import (
    MANY_REPETITIONS,
    Spread,
    half_width_of,
    spread,
    whole_repetitions,
)
from draftworth.records.results import BlockResult

# Those of the starts of one side, if it has as many as one run's repetitions need for an interval.
MIN_DEGREES_OF_FREEDOM = MANY_REPETITIONS - 1


@dataclass(frozen=True, kw_only=True)
class Side:
    """One side of a comparison: a server before or after a change.

    name: unlike the other side's. blocks: those of all its starts; each start is a repetition of a
        run. variant: the server's name in the blocks.
    usd_per_second: the server's price in US dollars; 1 if the sides are compared in server seconds.
    """

    name: str
    blocks: Sequence[BlockResult]
    variant: str
    usd_per_second: float = 1.0

    def log_seconds_of(self, starts: Iterable[str], traffic: Traffic) -> tuple[float, ...]:
        """Return `log_seconds_per_token` of each of these starts; one without tokens has none."""
        log_ratios = (
            log_seconds_per_token(
                [block for block in self.blocks if repetition_of(block) == start],
                traffic,
                self.variant,
            )
            for start in starts
        )
        return tuple(log_ratio.value for log_ratio in log_ratios if log_ratio)


@dataclass(frozen=True, kw_only=True)
class CostChange:
    """How the cost of a token differs between two sides.

    log_ratio: the natural logarithm of (the second side's cost / the first side's).
    seconds_per_token: what a request takes per token on (the first side, the second side).
    starts: the number of whole starts of each side.
    within: the parts of its error if these starts were all; None: too few prompts or rounds.
    of_starts: the part of its variance that only more starts reduce, with that of their blocks and
        requests, as each start has its own; None: too few starts to show it.
    """

    log_ratio: float
    seconds_per_token: tuple[float, float]
    starts: tuple[int, int]
    within: Spread | None
    of_starts: VariancePart | None

    @property
    def between(self) -> tuple[VariancePart, ...]:
        """The parts of the error for further starts: of prompts and of starts; may be empty."""
        if self.within is None or self.of_starts is None:
            return ()
        return self.within.of_prompts, self.of_starts

    def half_width(self, confidence: float) -> float | None:
        """Return half the width of the interval of `log_ratio`; None: there is no interval."""
        if self.within is None or self.of_starts is None:
            return None
        parts = self.within.within, self.between
        return max(half_width_of(each, confidence) for each in parts)


def cost_change(first: Side, second: Side, traffic: Traffic) -> CostChange | None:
    """Compare the cost of a token on two sides in a traffic; None: a side's cost is not known.

    Both sides must have sent the same prompts, so that the differences between prompts cancel.
    """
    before, after = (
        log_seconds_per_token(side.blocks, traffic, side.variant) for side in (first, second)
    )
    if before is None or after is None:
        return None
    change = after.over(before, runs=(second.name, first.name))
    starts = whole_repetitions(change.parts)
    log_seconds = [
        side.log_seconds_of(sorted(starts[side.name]), traffic) for side in (first, second)
    ]
    return CostChange(
        log_ratio=change.value + math.log(second.usd_per_second / first.usd_per_second),
        seconds_per_token=(math.exp(before.value), math.exp(after.value)),
        starts=(len(log_seconds[0]), len(log_seconds[1])),
        within=spread(change.parts),
        of_starts=_pooled(log_seconds),
    )


def _pooled(sides: Sequence[Sequence[float]]) -> VariancePart | None:
    """Return the variance of the difference of two sides' means, from one variance for both.

    None: the sides have too few values for it.
    """
    degrees = sum(len(values) - 1 for values in sides)
    if not all(sides) or degrees < MIN_DEGREES_OF_FREEDOM:
        return None
    squares = math.fsum(
        (value - math.fsum(values) / len(values)) ** 2 for values in sides for value in values
    )
    return VariancePart(squares / degrees * math.fsum(1 / len(v) for v in sides), float(degrees))
