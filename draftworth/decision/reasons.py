"""Why a comparison is judged as it is: a type per reason. `report/` has the sentences.

What makes requests unfit for a verdict has its types in `analysis/doubts.py`.
"""

from dataclasses import dataclass

from draftworth.analysis.doubts import LatencyAtLimit, NotBelieved, NotComparable, NotTheTargets
from draftworth.analysis.statistics import Estimate


@dataclass(frozen=True, kw_only=True)
class CostDecides:
    """The interval of the cost ratio is on one side of 1, around it, or too wide to decide."""

    cost_ratio: Estimate


@dataclass(frozen=True, kw_only=True)
class LimitDecides:
    """A latency is outside its limit, or is not shown to keep it."""

    latency: LatencyAtLimit


@dataclass(frozen=True, kw_only=True)
class NoTokens:
    """No prompt of each class has its tokens counted on both sides."""


@dataclass(frozen=True, kw_only=True)
class TooFewPrompts:
    """There are too few prompts or rounds for an interval."""


@dataclass(frozen=True, kw_only=True)
class NoCostAtRate:
    """Arrivals at a rate have no cost per token, and no latency is limited."""


@dataclass(frozen=True, kw_only=True)
class KeepsLimits:
    """Every latency limit is kept at a rate."""


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
