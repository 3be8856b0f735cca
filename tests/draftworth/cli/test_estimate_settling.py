"""Sentences on what an accelerator hour would settle, cost and save."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from draftworth.cli.estimate_settling import TokenPrice, settling, token_prices
from draftworth.errors import UserInputError
from draftworth.estimate import forecast, step_costs
from draftworth.experiment.aws import CapacityBlock, Price
from draftworth.planning import run_specification, timeline
from draftworth.planning.prices import with_price
from draftworth.planning.resolved import ResolvedExperiment, load
from draftworth.records.findings import StepCost, StepCostCard
from draftworth.records.load import PoissonLoad
from tests.conftest import ROOT
from tests.draftworth.estimate.test_step_costs import cost
from tests.support.experiments import changed_aws, drop, resolved, write_experiment

EXPERIMENT = resolved()
BASELINE, DRAFTED = (variant.name for variant in EXPERIMENT.variants)
LOAD = EXPERIMENT.loads[0]
FACTS = run_specification.serving_facts(EXPERIMENT)

# 36 USD x 0.5 / 3600 = 0.005 USD a second; 0.04 s of it for 4 tokens.
PRICED = with_price(EXPERIMENT, Price(usd_per_hour=36.0, as_of=date(2026, 3, 15), source="made up"))
PRICE = TokenPrice(usd_per_node_hour=36.0, node_share=0.5, step_s=0.040, requests=4)


def plain(seconds: float = 0.040, **other: Any) -> StepCost:
    """A step of the baseline, which yields a token."""
    return replace(cost(BASELINE, seconds, **{"load": LOAD, **other}), tokens_per_step=1.0)


def drafted(seconds: float = 0.080, **other: Any) -> StepCost:
    """Four tokens a step."""
    return cost(DRAFTED, seconds, **{"load": LOAD, **other})


def card(*costs: StepCost, **facts: Any) -> StepCostCard:
    serving = replace(FACTS, **facts)
    return StepCostCard(run_id="r", experiment="x", serving=serving, costs=costs).sealed()


def answer(low: float, high: float, *to_measure: int, outcome: str = "open") -> forecast.Conclusion:
    about = forecast.WindowForecast(
        window=5,
        checked=5,
        step_cost=step_costs.CostRange(low=1.0, high=2.0),
        tokens_per_step={},
        cost_ratio=step_costs.CostRange(low=low, high=high),
        is_measured=False,
    )
    return forecast.Conclusion(outcome=outcome, sentence="", about=about, to_measure=to_measure)  # type: ignore[arg-type]


def told(
    experiment: ResolvedExperiment = PRICED,
    found: forecast.Conclusion | None = None,
    *,
    price: TokenPrice | None = None,
    tokens_per_day: int | None = None,
) -> list[str]:
    found = found or answer(0.6, 1.4, 5, 7)
    return [*settling(experiment, found, price=price, tokens_per_day=tokens_per_day)]


def test_a_token_costs_its_part_of_a_step_of_its_part_of_a_node() -> None:
    assert PRICE.usd_per_million == pytest.approx(50.0)
    assert PRICE.how == (
        "36.00 USD a node hour x 0.5 of a node / 3600 x 0.04 s a step / 4 at once x 1,000,000"
    )


def test_a_card_of_the_same_servers_and_a_price_say_what_a_token_costs() -> None:
    load_ = EXPERIMENT.loads[0]

    found = token_prices(PRICED, card(plain(), drafted()))

    share = EXPERIMENT.placement.node_share(EXPERIMENT.variants[0].slot)
    assert found[load_.label].step_s == 0.040
    assert found[load_.label].node_share == share > 0
    assert found[load_.label].requests <= PRICED.spec.serving.max_num_seqs


def test_another_server_random_times_or_no_price_leave_it_unknown() -> None:
    unpriced = changed_aws(EXPERIMENT, price=None)
    poisson = PoissonLoad(requests_per_second=1.0)

    assert token_prices(PRICED, card(plain(), release="neuron-0")) == {}
    assert token_prices(PRICED, card(plain(load=poisson))) == {}
    assert token_prices(PRICED, card(drafted())) == {}
    assert token_prices(unpriced, card(plain())) == {}
    with pytest.raises(UserInputError, match="step_latency_s"):
        token_prices(PRICED, card(plain(-1.0)))


def test_the_run_is_that_of_the_plan_and_windows_that_are_missing_are_named() -> None:
    first, _ = told()

    run = timeline.forecast(PRICED)
    usd, minutes = run.usd(run.billed_minutes), run.billed_minutes
    assert "measures windows 5 and 7 (no variant has window 5: add one for each, or" in first
    assert f"by the assumptions of `plan`: {usd:.2f} USD for {minutes:.1f} billed minutes" in first
    assert "x 1 node (36.00 USD an hour; made up, 2026-03-15)." in first
    assert usd.best == pytest.approx(minutes.best / 60 * 36)
    assert usd.best > 0


def test_a_window_that_the_card_has_is_to_be_measured_for_longer() -> None:
    found = answer(0.6, 1.4, 5, 7)
    known = replace(found, about=replace(found.about, is_measured=True))

    assert (
        "add one for each, or a `search` with them) again, for longer. A first run"
        in told(found=known)[0]
    )
    assert "again" not in told(found=replace(known, to_measure=(7,)))[0]
    assert "again" not in told(found=found)[0]


def test_a_block_is_paid_whole() -> None:
    block = CapacityBlock(kind="capacity_block", reservation_id="cr-0123456789abcdef0", hours=48)

    first, _ = told(changed_aws(PRICED, capacity=block))

    assert (
        "It costs 1728.00 USD for the Capacity Block, whole and in advance: 48 hours x 1 x 36.00"
        in first
    )


def test_without_a_price_minutes_are_told_and_how_to_get_one(tmp_path: Path) -> None:
    first, _ = told(load(write_experiment(tmp_path, drop("aws", "price"))))

    assert "minutes x 1 node; the cost is unknown: aws.price is left out" in first
    assert "USD" not in first


def test_a_local_experiment_says_why_it_has_no_usd() -> None:
    local = load(ROOT / "experiments/rehearsal.yaml")
    settled, saved = told(local)

    assert settled.startswith("What would settle it: a run of the experiment that measures windo")
    assert "USD" not in saved
    why = "; in USD it is not known, because a local experiment has no node with a price."
    assert told(local, tokens_per_day=10) == [settled, f"{saved.rstrip('.')}{why}"]


def test_what_is_saved_is_a_part_of_what_tokens_cost_and_never_below_nothing() -> None:
    _, saved = told()
    assert saved == "What it can save with window 5: 0.0% to 40.0% of what decoding costs now."
    _, saved = told(price=PRICE, tokens_per_day=10_000_000)
    assert "10,000,000 tokens a day x 50 USD a million (36.00 USD a node hour x 0.5" in saved
    assert "= 500.00 USD a day, of which 0.0% to 40.0% are 0.00 to 200.00 USD a day." in saved
    _, saved = told(tokens_per_day=10)
    assert "in USD it is not known, because that takes a price of the experiment's nodes" in saved
    assert saved.endswith("(--card).")


def test_what_pays_by_measured_steps_or_cannot_pay_has_nothing_to_settle() -> None:
    (saved,) = told(found=answer(0.5, 0.8, outcome="pays"))
    assert "20.0% to 50.0%" in saved
    never = answer(1.2, 1.5, outcome="cannot pay")
    assert told(found=never) == []
    assert told(found=never, tokens_per_day=10) == [
        "What it can save: nothing, however many tokens a day, because no window pays."
    ]
