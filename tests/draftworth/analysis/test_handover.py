"""Break-even and yield, by hand."""

import pytest

from draftworth.analysis.handover import handover_of
from tests.draftworth.report import runs
from tests.support.present import present


def test_the_break_even_is_what_a_step_costs_in_baseline_steps() -> None:
    """By the builder's own figures: 99 tokens in 17 whole chunks, and the means of 8 requests."""
    (at,) = handover_of(runs.make_facts(runs.structured_run(4))).break_evens
    needed = present(at.needed)
    step_s = 99 * (runs.STEP_S / runs.TOKENS_PER_STEP["structured"] + 3.5e-5) / 17
    assert needed.value == pytest.approx(step_s / (runs.PLAIN_ITL_S + 3.5e-4), rel=1e-3)
    assert present(needed.low) < needed.value < present(needed.high)
    assert at.measured == pytest.approx(runs.TOKENS_PER_STEP["structured"])
    assert at.judgement == "cheaper per token"


def test_tokens_a_step_of_a_mix_are_all_tokens_by_all_steps() -> None:
    (at,) = handover_of(runs.make_facts(runs.make_run())).break_evens
    assert at.by_class == pytest.approx(runs.TOKENS_PER_STEP)
    assert at.measured == pytest.approx(1 / (0.5 / 6.0 + 0.5 / 2.0))
