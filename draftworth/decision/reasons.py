"""Declares a type for each reason why a comparison is judged as it is.

`report/` has the sentence for each reason. The types of reasons why requests allow no verdict are
in `analysis/doubts.py`.
"""

from dataclasses import dataclass

from draftworth.analysis.doubts import LatencyAtLimit, NotBelieved, NotComparable, NotTheTargets
from draftworth.analysis.statistics import Estimate


@dataclass(frozen=True, kw_only=True)
class CostDecides:
    """The verdict follows from the interval of the cost ratio (variant / baseline).

    The interval is on one side of 1, close around 1, or too wide to decide.
    """

    cost_ratio: Estimate


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
)
