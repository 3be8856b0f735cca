"""The arithmetic of speculation, against a simulation of it."""

from __future__ import annotations

import random

import pytest

from draftworth.analysis.speculation import (
    acceptance_from_tokens_per_step,
    break_even_tokens_per_step,
)


@pytest.mark.parametrize("most", [2, 7, 8])
@pytest.mark.parametrize("chance", [0.0, 0.3, 0.9, 1.0])
def test_acceptance_is_recovered_from_simulated_steps(most: int, chance: float) -> None:
    """Draft after draft is accepted with `chance` until one is not; then one token follows."""
    generator = random.Random(5)
    steps, accepted, tokens = 4000, 0, 0
    for _ in range(steps):
        run = 0
        while run < most - 1 and generator.random() < chance:
            run += 1
        accepted += run
        tokens += run + 1

    estimate = acceptance_from_tokens_per_step(tokens / steps, max_tokens_per_step=most)

    assert estimate == pytest.approx(accepted / (steps * (most - 1)))


@pytest.mark.parametrize(("tokens", "most"), [(0.9, 8), (8.1, 8), (1.0, 1)])
def test_figures_that_no_acceptance_explains_are_refused(tokens: float, most: int) -> None:
    with pytest.raises(ValueError, match="tokens_per_step"):
        acceptance_from_tokens_per_step(tokens, max_tokens_per_step=most)


def test_break_even_is_the_ratio_of_the_steps() -> None:
    assert break_even_tokens_per_step(
        baseline_step_seconds=0.004, speculative_step_seconds=0.011
    ) == pytest.approx(2.75)
    with pytest.raises(ValueError, match="above 0"):
        break_even_tokens_per_step(baseline_step_seconds=0, speculative_step_seconds=1)
