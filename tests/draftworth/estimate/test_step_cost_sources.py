"""Step costs of a run's card: of measured windows, of other windows, and cards that are refused."""

import math

import pytest

from draftworth.errors import UserInputError
from draftworth.estimate.step_cost_sources import CostRange, StepCosts, step_costs_of
from draftworth.records.servers import ServingFacts
from draftworth.records.step_costs import StepCost, StepCostCard
from tests.support.serving_facts import make_serving_facts
from tests.support.step_costs import C4, cost

SERVING = make_serving_facts()


def card(*costs: StepCost, serving: ServingFacts | None = SERVING) -> StepCostCard:
    return StepCostCard(run_id="r", experiment="x", serving=serving, costs=costs).sealed()


def test_a_measured_window_costs_as_measured_per_load() -> None:
    at_one_load, at_four_loads = step_costs_of(
        card(
            cost("baseline", 0.045),
            cost("k7", 0.090),
            cost("baseline", 0.050, load=C4),
            cost("k7", 0.150, load=C4),
        ),
        "fused_draft",
    )

    at_one, at_four = at_one_load.of_window(7), at_four_loads.of_window(7)
    assert at_one.low == pytest.approx(2 * 0.9 / 1.1)
    assert at_one.high == pytest.approx(2 * 1.1 / 0.9)
    assert math.sqrt(at_four.low * at_four.high) == pytest.approx(3.0)
    source = "measured at 4 requests at a time in run r on neuron-2.26.1 with Qwen/Qwen3-1.7B"
    assert source in at_four_loads.source


def test_one_window_bounds_the_cost_of_another() -> None:
    costs = StepCosts(by_window={7: CostRange(low=2.0, high=2.2)}, source="")

    more, fewer = costs.of_window(14), costs.of_window(3)
    assert more.low == 2.0
    assert more.high == pytest.approx(3.4)
    assert fewer.low == pytest.approx(1 + 3 / 7)
    assert fewer.high == 2.2


def test_two_windows_make_a_line_that_continues() -> None:
    costs = StepCosts(
        by_window={3: CostRange(low=1.3, high=1.5), 7: CostRange(low=1.9, high=2.3)}, source=""
    )

    assert costs.of_window(5).low == pytest.approx(1.6)
    assert costs.of_window(5).high == pytest.approx(1.9)
    assert costs.of_window(11).high == pytest.approx(3.1)
    assert costs.of_window(2).low == pytest.approx(1.15)


@pytest.mark.parametrize(
    ("step_card", "method", "message"),
    [
        (card(cost("baseline", 0.1), serving=None), "fused_draft", "what served it"),
        (
            card(cost("baseline", 0.1), cost("k7", 0.2)),
            "eagle3",
            "given: steps of fused_draft, allowed: of eagle3",
        ),
        (card(cost("k8", 0.2)), "fused_draft", r"k8 at c1: variant: given 'k8', allowed:.*next:"),
        (card(cost("k7", -0.2)), "fused_draft", "given -0.18, -0.2, -0.22, allowed: 1e-18 to"),
        (card(cost("baseline", 0.0)), "fused_draft", "given 0, 0, 0, allowed"),
        (card(cost("k7", 0.2, width=-0.1)), "fused_draft", "none below the one before it"),
        (
            card(cost("k7", 0.2)),
            "fused_draft",
            "it has fused_draft, but at no load the time of both",
        ),
    ],
)
def test_a_card_that_cannot_say_it_is_refused(
    step_card: StepCostCard, method: str, message: str
) -> None:
    with pytest.raises(UserInputError, match=message):
        step_costs_of(step_card, method)
