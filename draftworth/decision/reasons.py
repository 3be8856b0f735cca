"""Declares a type for each reason why a comparison is judged as it is.

`report/` has the sentence for each reason. The types of reasons why requests allow no verdict are
in `analysis/doubts.py`.
"""

from dataclasses import dataclass
from enum import Enum, auto

from draftworth.analysis.doubts import (
    LatencyAtLimit,
    NotBelieved,
    NotComparable,
    NotTheTargets,
    SeveralModels,
    ShortWarmup,
)


class CostPlace(Enum):
    """Where the interval of a cost ratio (variant / baseline) lies.

    Costs within a factor of `verdict.INDIFFERENCE` count as equal.
    """

    HIGHER = auto()
    """The whole interval is above the costs that count as equal."""
    LOWER = auto()
    """The whole interval is below the costs that count as equal."""
    EQUAL = auto()
    """The whole interval is within the costs that count as equal."""
    BESIDE_ONE = auto()
    """The interval is on one side of 1, but only a part of it is beyond what counts as equal."""
    AROUND_ONE = auto()
    """The interval contains 1, and a part of it is beyond what counts as equal."""


@dataclass(frozen=True, kw_only=True)
class CostDecides:
    """The verdict follows from the interval of the cost ratio (variant / baseline).

    low, high: the ends of the interval. place: where the interval lies.
    repetitions: number of repetitions for which the interval holds; None: it holds for further ones
        too.
    """

    low: float
    high: float
    place: CostPlace
    repetitions: int | None


@dataclass(frozen=True, kw_only=True)
class LimitDecides:
    """The verdict follows from a latency that breaks its limit, or is not shown to keep it."""

    latency: LatencyAtLimit


@dataclass(frozen=True, kw_only=True)
class NoTokens:
    """There is no cost ratio: in some class, no prompt's tokens are counted by both servers."""


@dataclass(frozen=True, kw_only=True)
class TooFewPrompts:
    """The cost ratio has no interval, because too few prompts or rounds were measured."""


@dataclass(frozen=True, kw_only=True)
class NoCostAtRate:
    """There is nothing to judge: requests arrive at a rate, and no latency has a limit.

    A token has a cost only if the number of requests in flight is constant.
    """


@dataclass(frozen=True, kw_only=True)
class KeepsLimits:
    """Requests arrive at a rate, so a token has no cost, and every latency limit is kept."""


# Reasons to believe none of a comparison's costs, in whatever form they are shown.
Doubt = NotBelieved | NotTheTargets | SeveralModels

Reason = (
    CostDecides
    | LimitDecides
    | NoTokens
    | TooFewPrompts
    | NoCostAtRate
    | KeepsLimits
    | NotComparable
    | NotBelieved
    | NotTheTargets
    | ShortWarmup
)
