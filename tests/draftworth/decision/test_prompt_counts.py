"""A prompt counts as the same if its cost is within 5% of the baseline's, either way."""

import pytest

from draftworth.analysis.prompt_costs import PromptCost
from draftworth.decision.prompt_counts import PromptCounts, prompt_counts


def cost(ratio: float) -> PromptCost:
    return PromptCost(
        prompt_class="chat", case="mails", prompt="1", cost_ratio=ratio, drafted_ids=("1",)
    )


@pytest.mark.parametrize(
    ("ratios", "counts"),
    [
        ((), PromptCounts(less=0, more=0, same=0)),
        ((0.95, 0.96, 1.0, 1.05, 1.06), PromptCounts(less=1, more=1, same=3)),
        ((0.2, 0.9), PromptCounts(less=2, more=0, same=0)),
    ],
)
def test_prompts_are_counted_by_five_per_cent(
    ratios: tuple[float, ...], counts: PromptCounts
) -> None:
    assert prompt_counts([cost(ratio) for ratio in ratios]) == counts
