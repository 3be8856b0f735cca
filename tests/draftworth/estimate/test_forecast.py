"""Forecasts and conclusions for drafts whose acceptance and step costs the tests have chosen."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from draftworth.analysis.acceptance import acceptance_of
from draftworth.analysis.costs import hit_rate
from draftworth.estimate.forecast import DraftEstimate, WindowForecast, conclude
from draftworth.estimate.step_cost_sources import published_costs
from draftworth.records.readings import Reading
from tests.support.readings import make_reading


def readings(acceptance: float, *, prompt_class: str = "chat", prompts: int = 40) -> list[Reading]:
    drawn = random.Random(int(acceptance * 1000))
    return [
        make_reading(
            "".join("1" if drawn.random() < acceptance else "0" for _ in range(200)),
            id=f"{prompt_class}/{n}",
            prompt_class=prompt_class,
            prompt_id=f"p{n}",
        )
        for n in range(prompts)
    ]


def forecasts(
    draft_readings: list[Reading],
    each: tuple[float, float],
    *,
    weights: dict[str, float] | None = None,
    windows: dict[int, int] | None = None,
) -> Sequence[WindowForecast]:
    windows = windows or {k: k for k in range(2, 16)}
    return DraftEstimate(
        target="target",
        method="draft_model",
        draft="draft",
        acceptance=acceptance_of(draft_readings, windows.values()),
        weights=weights or {"chat": 1.0},
        windows=windows,
        step_costs=published_costs(*each, source="planted"),
    ).forecasts


def test_a_good_draft_pays_up_to_some_cost() -> None:
    conclusion = conclude(forecasts(readings(0.95), (0.1, 0.12)))
    sentence = conclusion.sentence

    assert (conclusion.outcome, conclusion.to_measure) == ("pays", (conclusion.about.window,))
    assert sentence.startswith("pays unless a step of window ")
    assert "baseline steps: a token costs" in sentence
    # If the cost of this window's step was measured, nothing is left to measure.
    of_card = [replace(f, is_measured=True) for f in forecasts(readings(0.95), (0.1, 0.12))]
    assert conclude(of_card).to_measure == ()


def test_a_draft_that_is_never_right_cannot_pay() -> None:
    conclusion = conclude(forecasts(readings(0.05), (0.14, 0.19)))
    sentence = conclusion.sentence

    assert (conclusion.outcome, conclusion.to_measure) == ("cannot pay", ())
    assert sentence.startswith(
        "cannot pay: even with the cheapest step, window 2 would need 1.3 tokens "
    )
    assert sentence.endswith("per step and gets 1.1")


def test_an_open_outcome_names_what_to_measure() -> None:
    conclusion = conclude(forecasts(readings(0.6), (0.05, 0.6)))

    assert conclusion.outcome == "open"
    assert conclusion.sentence.startswith("depends on what a step costs: measure window")


@pytest.mark.parametrize(
    ("measured", "words", "to_measure"),
    [
        ({}, "measure windows 2 and 5 ", (2, 5)),
        ({2}, "measure window 5 ", (5,)),
        ({2, 5}, "cannot be told from this card and these outputs: ", (2, 5)),
    ],
)
def test_a_window_on_the_card_is_not_proposed(
    measured: set[int], words: str, to_measure: tuple[int, ...]
) -> None:
    open_ones = forecasts(readings(0.6), (0.05, 0.6), windows={2: 2, 5: 5})
    of_card = [replace(f, is_measured=f.window in measured) for f in open_ones]

    conclusion = conclude(of_card)

    assert words in conclusion.sentence
    assert ("measure" in conclusion.sentence.split("(")[0]) == (len(measured) < 2)
    assert conclusion.to_measure == to_measure


def test_the_range_holds_the_truth() -> None:
    """The forecast's range of the cost ratio contains the true one, which has a formula.

    If each drafted token is accepted with probability a, and each adds c baseline steps to a step,
    then with k drafted tokens per step a token costs (1 + ck) (1 - a) / (1 - a^(k + 1)).
    """
    truth = (1 + 0.16 * 7) * (1 - 0.8) / (1 - 0.8**8)

    (forecast,) = forecasts(readings(0.8, prompts=100), (0.14, 0.19), windows={7: 7})

    assert forecast.cost_ratio.low < truth < forecast.cost_ratio.high
    assert forecast.breaks_even_at == pytest.approx((1 - 0.8**8) / (1 - 0.8), rel=0.05)


def test_classes_count_by_weight_and_have_own_costs() -> None:
    both = readings(0.95, prompt_class="good") + readings(0.05, prompt_class="bad")
    alone = {
        name: forecasts(both, (0.1, 0.1), weights={name: 1.0}, windows={7: 7})[0].cost_ratio
        for name in ("good", "bad")
    }

    (mix,) = forecasts(both, (0.1, 0.1), weights={"good": 3.0, "bad": 1.0}, windows={7: 7})

    assert mix.cost_ratio.low == pytest.approx((3 * alone["good"].low + alone["bad"].low) / 4)
    assert mix.class_cost_ratios == alone


def test_the_interval_counts_each_prompt_once() -> None:
    few = readings(0.7, prompts=8)
    again = [replace(r, id=f"{r.id}/again") for r in few]

    once, twice, five = (
        acceptance_of(chosen, [7])["chat"][0].tokens_per_step
        for chosen in (few, few + again, few[:5])
    )

    assert once == twice
    assert once.low is not None
    assert five.low is None


def test_the_hit_rate_is_of_tokens() -> None:
    assert hit_rate(readings(1.0)) == 1.0
    assert hit_rate([]) is None
