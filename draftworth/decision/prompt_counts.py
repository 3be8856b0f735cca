"""Counts the prompts that cost less, more, or the same with a variant."""

from collections.abc import Sequence
from dataclasses import dataclass

from draftworth.analysis.prompt_costs import PromptCost
from draftworth.decision.verdict import INDIFFERENCE


@dataclass(frozen=True, kw_only=True)
class PromptCounts:
    """How many prompts cost less and more per token, and how many the same to 5% either way.

    A prompt has few requests and no interval, so this describes a run and proves nothing.
    """

    less: int
    more: int
    same: int


def prompt_counts(costs: Sequence[PromptCost]) -> PromptCounts:
    """Return how many prompts cost less, more, or the same."""
    less = sum(cost.cost_ratio < 1 / (1 + INDIFFERENCE) for cost in costs)
    more = sum(cost.cost_ratio > 1 + INDIFFERENCE for cost in costs)
    return PromptCounts(less=less, more=more, same=len(costs) - less - more)
