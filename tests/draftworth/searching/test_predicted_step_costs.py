"""The step costs that are assumed before any candidate is measured."""

from collections.abc import Mapping

import pytest

from draftworth.searching.mixture import Mixture
from draftworth.searching.predicted_step_costs import TOKENS_BEFORE_JUMPS, step_costs_before
from tests.draftworth.searching.candidates import candidate, search

# Windows of which the first has two tokens in a step, and the last more than any jump is above.
WINDOWS = range(1, 18)


def after(measured: Mapping[int, float]) -> Mixture:
    """Return the step costs of `WINDOWS` after these were measured, by window."""
    costs = step_costs_before(search(*map(candidate, WINDOWS)))
    for window, cost in measured.items():
        costs = costs.measured(WINDOWS.index(window), cost, variance=1e-4)
    return costs


def even(*windows: int, jump: float = 0.0, above: int = 0) -> Mapping[int, float]:
    """Return step costs of windows on a line, with a jump above a number of tokens."""
    return {w: 1.1 + 0.2 * w + (jump if w + 1 > above else 0.0) for w in windows}


def test_without_a_jump_it_is_what_is_published() -> None:
    step_costs = step_costs_before(search(step_cost_per_draft=(0.1, 0.3)))
    no_jump = step_costs.assumptions[0].numbers
    assert no_jump.means == pytest.approx([1 + 0.2 * window for window in range(2, 13)])
    assert step_costs.deviation(10) > step_costs.deviation(0) > 0.1


def test_a_jump_is_expected_to_cost_more() -> None:
    step_costs = step_costs_before(search())
    no_jump = step_costs.assumptions[0].numbers
    more = [a - b for a, b in zip(step_costs.means, no_jump.means, strict=True)]
    assert 0 < more[0] < more[-1] < 0.4
    assert sum(a.probability for a in step_costs.assumptions) == pytest.approx(1.0)


def test_a_measured_window_informs_its_neighbours_most() -> None:
    planned = search()
    before = step_costs_before(planned)
    costs = before.measured(5, before.means[5], variance=1e-4)
    left = [costs.deviation(n) / before.deviation(n) for n in range(len(planned.candidates))]
    assert left[5] < left[4] < left[2] < left[0]


@pytest.mark.parametrize("tokens", TOKENS_BEFORE_JUMPS)
def test_a_jump_is_found_at_any_number(tokens: int) -> None:
    """Windows on both sides of a jump show it, and where there is none they show that too."""
    window = WINDOWS.index(tokens - 1)
    around = [w for w in (tokens - 2, tokens - 1, tokens, tokens + 1) if w in WINDOWS]
    rise = {
        jump: (means := after(even(*around, jump=jump, above=tokens)).means)[window + 1]
        - means[window]
        for jump in (0.0, 0.5)
    }
    assert rise[0.0] == pytest.approx(0.2, abs=0.03)
    assert rise[0.5] == pytest.approx(0.7, abs=0.03)


def test_one_jump_makes_another_less_probable() -> None:
    with_jump = after(even(1, 3, 6, 7, 9, jump=0.5, above=7))
    without = after(even(1, 3, 6, 7, 9))
    longest = WINDOWS.index(15)
    assert with_jump.deviation(longest) < 0.9 * without.deviation(longest)


def test_a_smaller_draft_learns_from_the_larger() -> None:
    planned = search(candidate(7), candidate(7, "small", draft_size=0.35))
    before = step_costs_before(planned)
    assert before.means[1] < before.means[0]
    costs = before.measured(0, before.means[0] + 0.5, variance=1e-4)
    assert before.means[1] < costs.means[1] < costs.means[0]
    assert 0.05 < costs.deviation(1) < before.deviation(1)
