"""A price that the experiment leaves out: where it comes from, and what happens without one."""

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from draftworth.errors import UserInputError
from draftworth.experiment.aws import Capacity, Price
from draftworth.planning import prices
from draftworth.planning.resolved import ResolvedNeuron, load_neuron
from tests.support.experiments import changed_aws, drop, resolved, write_experiment

KEY = "draftworth:price:type=trn2.48xlarge:zone=us-east-2c:capacity=spot"
SPOT = {"usd_per_hour": 15.09, "as_of": "2026-11-20", "source": "EC2 Spot price history"}


@pytest.fixture
def unpriced(tmp_path: Path) -> ResolvedNeuron:
    """The shipped experiment without `aws.price`, in a folder without a context file."""
    return load_neuron(write_experiment(tmp_path, drop("aws", "price")))


def test_an_experiment_without_a_price_loads(unpriced: ResolvedNeuron) -> None:
    assert unpriced.price is None
    with pytest.raises(UserInputError, match="draftworth price"):
        _ = unpriced.node_price
    with pytest.raises(UserInputError):
        _ = unpriced.usd_per_hour


def test_a_looked_up_price_has_date_and_source(
    unpriced: ResolvedNeuron,
) -> None:
    priced = prices.with_looked_up_price(unpriced, {KEY: SPOT}.get)
    assert priced.price is not None
    assert priced.price.usd_per_node_hour == 15.09
    assert (priced.price.as_of, priced.price.source) == ("2026-11-20", "EC2 Spot price history")
    assert [v.artifact_key for v in priced.variants] == [v.artifact_key for v in unpriced.variants]


def test_prices_are_per_type_zone_and_purchase(unpriced: ResolvedNeuron) -> None:
    assert prices.price_key(unpriced) == KEY
    elsewhere = (
        changed_aws(unpriced, availability_zone="us-east-2b"),
        changed_aws(unpriced, capacity={"kind": "on_demand"}),
    )
    assert all(
        prices.with_looked_up_price(other, {KEY: SPOT}.get).price is None for other in elsewhere
    )


@pytest.mark.parametrize(
    "value",
    [
        8.6,
        "8.60",
        [],
        {},
        {**SPOT, "usd_per_hour": -1},
        {**SPOT, "usd_per_hour": "15.09"},
        {**SPOT, "currency": "EUR"},
        {**SPOT, "as_of": "yesterday"},
        {"x" * 100_000: 1},
    ],
)
def test_broken_prices_are_refused_with_how_to_reset(value: Any, unpriced: ResolvedNeuron) -> None:
    with pytest.raises(UserInputError) as refused:
        prices.with_looked_up_price(unpriced, {KEY: value}.get)
    assert f"cdk context --reset '{KEY}'" in str(refused.value)
    assert len(str(refused.value)) < 1000


def test_the_context_file_is_read_where_commands_run(
    unpriced: ResolvedNeuron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert prices.context_values() == {}
    assert prices.with_looked_up_price(unpriced).price is None
    prices.CONTEXT_FILE.write_text(json.dumps({KEY: SPOT, "availability-zones:account=1": ["a"]}))
    assert prices.with_looked_up_price(unpriced).price is not None


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"a": NaN}', b"\xff", b" " * 2**21])
def test_an_unreadable_context_file_is_the_users_mistake(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cdk.context.json"
    path.write_bytes(content)
    with pytest.raises(UserInputError, match="cannot be read"):
        prices.context_values(path)


def test_a_prohibitive_price_spends_the_budget_immediately(unpriced: ResolvedNeuron) -> None:
    priced = prices.with_prohibitive_price(unpriced)
    assert priced.usd_per_hour / 3600 >= priced.spec.aws.accelerator_budget_usd
    assert "no price is known" in priced.node_price.source


@pytest.mark.parametrize(
    ("kind", "age_days", "words"),
    [
        ("spot", 15, "more than 14 days ago"),
        ("spot", 14, ""),
        ("on_demand", 91, "more than 90 days ago"),
        ("on_demand", 90, ""),
        ("on_demand", -2, "in the future"),
        ("on_demand", -1, ""),
        ("capacity_block", 2000, ""),
    ],
)
def test_an_old_price_should_be_renewed(kind: str, age_days: int, words: str) -> None:
    today = date(2026, 11, 23)
    price = Price(usd_per_hour=8.6, as_of=today - timedelta(days=age_days), source="made up")
    capacity = Capacity.model_validate({"kind": kind})
    experiment = changed_aws(resolved(), price=price, capacity=capacity)

    assert prices.price_doubt(experiment, today) == words
