"""Sentences on what a run on accelerators would settle, what it costs and what a draft can save."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from draftworth.cli.estimate_next_steps import TokenPrice, settling, token_prices
from draftworth.errors import UserInputError
from draftworth.estimate import forecast, step_cost_sources
from draftworth.experiment.aws import Capacity, Price
from draftworth.planning.prices import with_price
from draftworth.planning.resolved import ResolvedExperiment, load
from draftworth.records.load_shapes import PoissonLoad
from tests.conftest import ROOT
from tests.draftworth.cli.step_cost_cards import (
    EXPERIMENT,
    card,
    drafted,
    plain,
)
from tests.support.experiments import changed_aws
from tests.support.snapshot import assert_snapshot

# The price of a token: 36 USD per hour x 0.5 of a node / 3600 = 0.005 USD per second, and a step of
# 0.04 s decodes 4 tokens.
PRICED = with_price(EXPERIMENT, Price(usd_per_hour=36.0, as_of=date(2026, 3, 15), source="made up"))
PRICE = TokenPrice(usd_per_node_hour=36.0, node_share=0.5, step_s=0.040, requests=4)


def answer(low: float, high: float, *to_measure: int, outcome: str = "open") -> forecast.Conclusion:
    about = forecast.WindowForecast(
        window=5,
        checked=5,
        step_cost=step_cost_sources.CostRange(low=1.0, high=2.0),
        tokens_per_step={},
        cost_ratio=step_cost_sources.CostRange(low=low, high=high),
        is_measured=False,
    )
    return forecast.Conclusion(outcome=outcome, sentence="", about=about, to_measure=to_measure)  # type: ignore[arg-type]


def test_a_card_and_a_price_give_token_prices() -> None:
    load_ = EXPERIMENT.loads[0]

    prices = token_prices(PRICED, card(plain(), drafted()))

    share = EXPERIMENT.placement.node_share(EXPERIMENT.variants[0].slot)
    assert prices[load_.label].step_s == 0.040
    assert prices[load_.label].node_share == share > 0
    assert prices[load_.label].requests <= PRICED.spec.serving.max_num_seqs


def test_other_servers_and_missing_prices_give_none() -> None:
    unpriced = changed_aws(EXPERIMENT, price=None)
    poisson = PoissonLoad(requests_per_second=1.0)

    assert token_prices(PRICED, card(plain(), release="neuron-0")) == {}
    assert token_prices(PRICED, card(plain(load=poisson))) == {}
    assert token_prices(PRICED, card(drafted())) == {}
    assert token_prices(unpriced, card(plain())) == {}
    with pytest.raises(UserInputError, match="step_latency_s"):
        token_prices(PRICED, card(plain(-1.0)))


UNPRICED = changed_aws(EXPERIMENT, price=None)
LOCAL = load(ROOT / "experiments/rehearsal.yaml")
BLOCK = Capacity(kind="capacity_block", reservation_id="cr-0123456789abcdef0", hours=48)
OPEN = answer(0.6, 1.4, 5, 7)
MEASURED = replace(OPEN, about=replace(OPEN.about, is_measured=True))
# Cases of the snapshot `settling.txt`: the experiment, the conclusion, the price of a token, and
# the output tokens per day.
CASES: dict[str, tuple[ResolvedExperiment, forecast.Conclusion, TokenPrice | None, int | None]] = {
    "open": (PRICED, OPEN, None, None),
    "open, with a card of the steps": (PRICED, OPEN, PRICE, 10_000_000),
    "open, with traffic and no card": (PRICED, OPEN, None, 10),
    "open, although the card has the window": (PRICED, MEASURED, None, None),
    "and where a variant has it": (PRICED, replace(MEASURED, to_measure=(7,)), None, None),
    "open, in a block": (changed_aws(PRICED, capacity=BLOCK), OPEN, None, None),
    "open, without a price": (UNPRICED, OPEN, None, None),
    "open, on this machine": (LOCAL, OPEN, None, 10),
    "pays": (PRICED, answer(0.5, 0.8, outcome="pays"), None, None),
    "cannot pay": (PRICED, answer(1.2, 1.5, outcome="cannot pay"), None, None),
    "cannot pay, with traffic": (PRICED, answer(1.2, 1.5, outcome="cannot pay"), None, 10),
}


def test_what_settles_it_and_what_it_saves() -> None:
    sentences = ""
    for name, (experiment, forecast_outcome, price, tokens_per_day) in CASES.items():
        lines = settling(experiment, forecast_outcome, price=price, tokens_per_day=tokens_per_day)
        sentences += "\n".join([name, *(f"  {line}" for line in lines), "\n"])
    sentences = sentences.replace(str(ROOT), "ROOT")
    assert_snapshot(sentences, Path(__file__).parent / "snapshots" / "settling.txt")
