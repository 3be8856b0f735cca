"""The step costs that are assumed before any candidate is measured."""

import pytest

from draftworth.searching.predicted_step_costs import step_costs_before
from tests.draftworth.searching.candidates import candidate, search


def test_unmeasured_steps_cost_what_is_published() -> None:
    step_costs = step_costs_before(search(step_cost_per_draft=(0.1, 0.3)))
    assert step_costs.means == pytest.approx([1 + 0.2 * window for window in range(2, 13)])
    assert step_costs.deviation(10) > step_costs.deviation(0) > 0.1


def test_a_measured_window_informs_its_neighbours_most() -> None:
    planned = search()
    before = step_costs_before(planned)
    after = before.measured(5, before.means[5], variance=1e-4)
    left = [after.deviation(n) / before.deviation(n) for n in range(len(planned.candidates))]
    assert left[5] < left[4] < left[2] < left[0]


@pytest.mark.parametrize("tokens", [2, 4, 8, 16])
def test_measurements_below_a_jump_reveal_no_jump(tokens: int) -> None:
    planned = search(*map(candidate, range(1, 18)))
    last = tokens - 2  # the window with so many tokens per step
    before = step_costs_before(planned)
    after = before.measured(last, before.means[last], variance=1e-4)
    assert after.deviation(last + 1) > 0.25
    if last:
        assert after.deviation(last - 1) < 0.25


def test_a_smaller_draft_learns_from_the_larger() -> None:
    planned = search(candidate(7), candidate(7, "small", draft_size=0.35))
    before = step_costs_before(planned)
    assert before.means[1] < before.means[0]
    after = before.measured(0, before.means[0] + 0.5, variance=1e-4)
    assert before.means[1] < after.means[1] < after.means[0]
    assert 0.05 < after.deviation(1) < before.deviation(1)
