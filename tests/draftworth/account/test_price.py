"""`draftworth price`: what AWS is asked, what is kept, and what is not asked again."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from draftworth.account import price
from draftworth.account.clients import AwsError
from draftworth.account.price import current_price, kept_price
from draftworth.errors import DraftworthError
from draftworth.planning.prices import CONTEXT_FILE, context_values, price_key
from draftworth.planning.resolved import ResolvedNeuron, load_neuron
from tests.draftworth.account.stubs import (
    NOW,
    QWEN,
    Answer,
    StubbedClients,
    experiment,
    product,
    products,
    spot,
)
from tests.draftworth.conftest import Ran
from tests.support.experiments import drop, write_experiment

pytestmark = [pytest.mark.emulator]


@pytest.fixture
def unpriced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ResolvedNeuron:
    """The shipped Spot experiment without a price; the commands run in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return load_neuron(write_experiment(tmp_path, drop("aws", "price")))


HISTORY = "describe_spot_price_history"
# JSON that is no product, but nothing that is no JSON.
ODD_PRODUCTS = (
    "{}",
    '{"terms": {"OnDemand": {"a": {"priceDimensions": {"b": "Hrs"}}}}}',
    '{"product": {"attributes": {"regionCode": 7}}, "terms": []}',
    '{"product": "Hrs", "terms": {"OnDemand": {"a": {"priceDimensions": {"b": {"unit": "Hrs"}}}}}}',
)


def ohio(*answers: Answer) -> StubbedClients:
    return StubbedClients(us_east_2={"ec2": list(answers)})


def virginia(*answers: Answer) -> StubbedClients:
    return StubbedClients(us_east_1={"pricing": list(answers)})


def test_spot_has_the_zones_price_of_now() -> None:
    clients = ohio(spot(us_east_2c=["15.09", "8.60"]))
    looked_up = current_price(experiment(), clients, NOW)
    assert (looked_up.usd_per_hour, looked_up.as_of) == (15.09, NOW.date())
    assert looked_up.source == "EC2 Spot price history: 8.60 to 15.09 in 7 days"
    assert clients.calls == [("us-east-2", "DescribeSpotPriceHistory")]


def test_on_demand_costs_the_regions_list_price() -> None:
    clients = virginia(
        products(
            product("us-east-2", "46.987"),
            product("us-east-2", "0.01", unit="Quantity"),
            product("us-west-2", "99"),
        )
    )
    looked_up = current_price(experiment(capacity={"kind": "on_demand"}), clients, NOW)
    assert (looked_up.usd_per_hour, looked_up.source) == (
        46.987,
        "AWS Price List, on demand, Linux",
    )
    assert clients.calls == [("us-east-1", "GetProducts")]


DENIED = Answer(method=HISTORY, error="AccessDenied")
DENIED_LIST = Answer(method="get_products", error="AccessDeniedException")
NO_SPOT_PRICES = (
    spot(),
    spot(us_east_2b=["9.00"]),
    spot(us_east_2c=["0"]),
    spot(us_east_2c=["0.0004"]),
    spot(us_east_2c=["nan"]),
    DENIED,
    Answer(method=HISTORY, response={"SpotPriceHistory": [{}]}),
)
NO_LIST_PRICES = (
    products(),
    products(product("us-west-2", "99")),
    products(product("us-east-2", "0.0000000000")),
    products(*ODD_PRODUCTS),
    DENIED_LIST,
)


def test_a_price_that_aws_withholds_is_an_error() -> None:
    on_demand = experiment(capacity={"kind": "on_demand"})
    for priced, clients, answers in (
        (experiment(), ohio(*NO_SPOT_PRICES), NO_SPOT_PRICES),
        (on_demand, virginia(*NO_LIST_PRICES), NO_LIST_PRICES),
    ):
        for _ in answers:
            with pytest.raises(AwsError) as refused:
                current_price(priced, clients, NOW)
            assert refused.value.next_step


def test_a_broken_price_list_is_no_traceback() -> None:
    texts = ("", "[]", "{", '{"a": NaN}', '{"a":' * 20_000)
    clients, priced = virginia(*map(products, texts)), experiment(capacity={"kind": "on_demand"})
    for _ in texts:
        with pytest.raises(DraftworthError):
            current_price(priced, clients, NOW)


def test_a_price_is_requested_once_and_kept(unpriced: ResolvedNeuron) -> None:
    CONTEXT_FILE.write_text('{"acknowledged-issue-numbers": [1]}')
    clients = ohio(spot(us_east_2c=["15.09"]), spot(us_east_2c=["20.00"]))
    first = kept_price(unpriced, again=False, clients=clients)
    assert kept_price(unpriced, again=False, clients=clients) == first
    assert len(clients.calls) == 1
    assert set(context_values()) == {"acknowledged-issue-numbers", price_key(unpriced)}
    assert kept_price(unpriced, again=True, clients=clients).usd_per_hour == 20.0
    assert json.loads(CONTEXT_FILE.read_text())[price_key(unpriced)]["usd_per_hour"] == 20.0


def test_a_price_that_cannot_be_renewed_stays(unpriced: ResolvedNeuron) -> None:
    clients = ohio(spot(us_east_2c=["15.09"]), spot())
    kept_price(unpriced, again=False, clients=clients)
    before = CONTEXT_FILE.read_bytes()
    with pytest.raises(AwsError):
        kept_price(unpriced, again=True, clients=clients)
    assert CONTEXT_FILE.read_bytes() == before


@pytest.mark.parametrize(("options", "is_stated"), [([], False), (["--again"], True)])
def test_a_stated_price_needs_no_request(
    monkeypatch: pytest.MonkeyPatch, ran: Ran, options: Sequence[str], is_stated: bool
) -> None:
    monkeypatch.setattr(price, "kept_price", None)
    output = ran("price", QWEN, *options)
    assert "15.09 USD per node and hour of 2026-10-01" in output
    assert ("AWS was not asked" in output) is is_stated
    assert ("next: delete aws.price from" in output) is is_stated


def test_a_price_list_refusal_names_no_other_region() -> None:
    with pytest.raises(AwsError) as refused:
        current_price(experiment(capacity={"kind": "on_demand"}), virginia(DENIED_LIST), NOW)
    assert "could not read the price of trn2.48xlarge in the Price List" in str(refused.value)
    assert "us-east-1" not in str(refused.value)
    with pytest.raises(AwsError, match="in us-east-2"):
        current_price(experiment(), ohio(DENIED), NOW)


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [(spot(us_east_2c=["15.09"]), 0, "15.09 USD per node and hour"), (spot(), 1, "--find")],
)
def test_the_command_prints_the_price_or_why_none(
    answer: Answer,
    code: int,
    words: str,
    unpriced: ResolvedNeuron,
    monkeypatch: pytest.MonkeyPatch,
    ran: Ran,
) -> None:
    priced_by_answer: Any = lambda priced, _, now: current_price(priced, ohio(answer), now)  # noqa: E731
    monkeypatch.setattr(price, "current_price", priced_by_answer)
    assert words in ran("price", unpriced.path, code=code)
