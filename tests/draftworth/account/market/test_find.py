"""What is offered: order, sums, what is in the way, what could not be asked, what to paste."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from draftworth.account.market import find, offers
from draftworth.errors import UserInputError
from draftworth.experiment import loading, model
from draftworth.planning.assumptions import Bounds
from tests.draftworth.account.stubs import (
    BLOCK_START,
    DENIED,
    KIND,
    NOW,
    QWEN,
    Answer,
    StubbedClients,
    block,
    blocks,
    experiment,
    offered,
    product,
    products,
    quota,
    spot,
    zones,
)
from tests.draftworth.conftest import Ran
from tests.support import experiments, snapshot

pytestmark = [pytest.mark.emulator]
OHIO_ZONES = zones(us_east_2b="use2-az2", us_east_2c="use2-az3")
NEED = offers.Need(instance_type=KIND, vcpus=192, nodes=1, minutes=Bounds(60, 240))


def ohio(*ec2: Answer, quotas: Sequence[float] = (384, 384)) -> dict[str, Sequence[Answer]]:
    """us-east-2 with answers to its Capacity Blocks and Spot prices."""
    return {
        "ec2": [offered("us-east-2b", "us-east-2c"), OHIO_ZONES, *ec2],
        "service-quotas": [quota(vcpus) for vcpus in quotas],
    }


def everything() -> StubbedClients:
    """Spot and blocks in Ohio, on demand without a quota, a region that refuses, one without."""
    sold = (
        blocks(block("us-east-2b", "858.24"), block("us-east-2c", "697.32", hours=19.5)),
        spot(us_east_2c=["15.09", "8.60"]),
    )
    denied = Answer(method="describe_instance_type_offerings", error=DENIED)
    return StubbedClients(
        us_east_2=ohio(*sold, quotas=(384, 0)),
        us_east_1={"ec2": [denied], "pricing": [products(product("us-east-2", "47.50"))]},
        eu_west_3={"ec2": [offered()]},
    )


def answer(clients: StubbedClients, *regions: str, need: offers.Need = NEED) -> find.Market:
    return find.find(clients.regions(*regions), clients.price_list, need, NOW)


def only_ohio(
    *ec2: Answer, need: offers.Need = NEED, quotas: Sequence[float] = (384, 384)
) -> find.Market:
    clients = StubbedClients(
        us_east_2=ohio(*ec2, quotas=quotas), us_east_1={"pricing": [products()]}
    )
    return answer(clients, "us-east-2", need=need)


def test_the_whole_answer() -> None:
    answered = answer(everything(), "us-east-2", "us-east-1", "eu-west-3")
    text = "".join(f"{line}\n" for line in find.market_lines(answered, NEED))
    snapshot.assert_snapshot(text, Path(__file__).parent / "snapshots/found.txt")


def test_blocks_cost_their_price_and_spot_planned_hours() -> None:
    answered = only_ohio(
        blocks(block("us-east-2b", "1716.48", count=2)),
        spot(us_east_2c=["9.00"]),
        need=replace(NEED, nodes=2),
    )
    usd = {offer.kind: (offer.usd.best, offer.usd.worst) for offer in answered.offers}
    assert usd == {"capacity_block": (1716.48, 1716.48), "spot": (18.0, 72.0)}
    prices = {offer.kind: offer.price.usd_per_hour for offer in answered.offers}
    assert prices["capacity_block"] == pytest.approx(35.76)


def test_blocks_are_requested_in_sizes_that_are_sold() -> None:
    """Whole days, then whole weeks; forty minutes of them are not the plan's."""
    requested: list[tuple[int, int]] = []
    (region,) = StubbedClients({"ec2": [blocks()] * 5}).regions("us-east-2")
    region.client("ec2").meta.events.register(
        "before-parameter-build.ec2.DescribeCapacityBlockOfferings",
        lambda params, **_: requested.append(
            (params["CapacityDurationHours"], params["InstanceCount"])
        ),
    )
    for hours, nodes in ((1, 1), (23.3, 2), (23.4, 3), (24 * 14, 5), (24 * 21, 1)):
        need = replace(NEED, nodes=nodes, minutes=Bounds(60, hours * 60))
        assert offers.block_offerings(region, need, NOW) == []
    assert requested == [(24, 1), (24, 2), (48, 4), (504, 8), (672, 1)]


def test_a_block_states_what_is_used_and_cut() -> None:
    sold = (block("us-east-2b", "858.24", hours=hours) for hours in (24, 3))
    long, short = (offers.block_offer(each, "us-east-2", NEED, NOW).use for each in sold)
    assert long == "1.0 to 4.0 of 24.0 h; 19.3 to 22.3 h free for more runs"
    assert "1.0 to 2.3 of 3.0 h, cut by its end in the worst case; 0.0 to 1.3 h" in short


def hindrances(answered: find.Market) -> dict[str, str]:
    return {offer.zone: offer.hindrance for offer in answered.offers}


def test_an_offer_above_the_quota_is_hindered() -> None:
    answered = only_ohio(blocks(), spot(us_east_2c=["9.00"]), quotas=(0,))
    assert hindrances(answered) == {"us-east-2c": "quota L-6B0D517C is 0 vCPU, 192 needed"}


def test_zones_that_eks_refuses_are_hindered() -> None:
    clients = StubbedClients(
        us_east_1={
            "ec2": [
                offered("us-east-1a", "us-east-1b"),
                zones(us_east_1a="use1-az3", us_east_1b="use1-az1"),
                blocks(block("us-east-1-bos-1a", "900")),
                spot(us_east_1a=["9.00"], us_east_1b=["9.00"]),
            ],
            "service-quotas": [quota(192)],
            "pricing": [products()],
        }
    )
    reasons = hindrances(answer(clients, "us-east-1"))
    assert reasons["us-east-1a"] == "EKS accepts no subnet in use1-az3"
    assert reasons["us-east-1b"] == ""
    assert "Local Zone" in reasons["us-east-1-bos-1a"]


@pytest.mark.parametrize("error", [DENIED, "RequestLimitExceeded"])
def test_an_unanswered_question_leaves_the_other_answers(error: str) -> None:
    bad = Answer(method="describe_capacity_block_offerings", error=error)
    answered = only_ohio(bad, spot(us_east_2c=["9.00"]))
    assert [offer.kind for offer in answered.offers] == ["spot"]
    assert [(u.region, u.what) for u in answered.unknown] == [("us-east-2", "Capacity Blocks")]


WHOLE = block("us-east-2b", "858")
READ_KEYS = WHOLE.keys() - {"InstanceType", "CapacityBlockDurationHours", "CurrencyCode"}


@pytest.mark.parametrize(
    "bad",
    [
        block("us-east-2b", "free"),
        block("us-east-2b", "-5"),
        block("us-east-2b", "858", EndDate=BLOCK_START),
        block("us-east-2b", "858", CapacityBlockOfferingId="x; rm -r ~"),
        *({k: v for k, v in WHOLE.items() if k != key} for key in sorted(READ_KEYS)),
    ],
)
def test_an_unreadable_offering_becomes_a_line(bad: dict[str, Any]) -> None:
    answered = find.Market()
    read = partial(offers.block_offer, bad, "us-east-2", NEED, NOW)
    assert answered.attempt("us-east-2", "Capacity Blocks", read) is None
    assert len(answered.unknown) == 1


def test_an_unreadable_offering_hides_no_other() -> None:
    answered = only_ohio(blocks(block("us-east-2b", "free"), block("us-east-2c", "858.24")), spot())
    assert [offer.zone for offer in answered.offers] == ["us-east-2c"]
    assert "'free' as a price" in answered.unknown[0].reason


@pytest.mark.parametrize(
    "price_list", [products("{"), Answer(method="get_products", error="AccessDeniedException")]
)
def test_without_a_price_list_the_rest_is_listed(price_list: Answer) -> None:
    clients = StubbedClients(
        us_east_2=ohio(blocks(), spot(us_east_2c=["9.00"])), us_east_1={"pricing": [price_list]}
    )
    answered = answer(clients, "us-east-2")
    assert [offer.kind for offer in answered.offers] == ["spot"]
    assert [(u.region, u.what) for u in answered.unknown] == [("all regions", "on-demand price")]


def test_a_price_in_another_currency_is_not_compared() -> None:
    answered = only_ohio(blocks(block("us-east-2b", "858", CurrencyCode="EUR")), spot())
    assert hindrances(answered) == {"us-east-2b": "its price is in EUR"}


def test_a_silent_region_becomes_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The clock stands until the first region has answered, and then is at the end.
    clock = iter([0.0, 0.0, 300.0])
    monkeypatch.setattr(
        "draftworth.account.market.find.time", SimpleNamespace(monotonic=clock.__next__)
    )
    hangs = threading.Event()
    clients = everything()

    class Silent:
        """A region whose first question waits."""

        name = "sa-east-1"

        def list_all(self, *_: Any, **__: Any) -> list[Any]:
            hangs.wait()
            return []

    silent: Any = Silent()
    answered = find.find(
        [*clients.regions("us-east-2"), silent], clients.price_list, NEED, NOW, seconds=300
    )
    hangs.set()
    assert {offer.region for offer in answered.offers} == {"us-east-2"}
    assert [(u.region, u.reason) for u in answered.unknown] == [
        ("sa-east-1", "no answer within 300 seconds")
    ]


def first_yaml(lines: Sequence[str]) -> dict[str, Any]:
    """The first piece to paste."""
    start = lines.index("aws:")
    end = next((i for i in range(start, len(lines)) if not lines[i]), len(lines))
    data: dict[str, Any] = yaml.safe_load("\n".join(lines[start:end]))["aws"]
    return data


def test_what_is_pasted_is_an_experiment_that_loads(tmp_path: Path) -> None:
    answered = answer(everything(), "us-east-2", "us-east-1", "eu-west-3")
    pasted = first_yaml(list(find.market_lines(answered, NEED)))
    path = experiments.write_experiment(tmp_path, lambda data: data["aws"].update(pasted))
    spec = loading.load_experiment(path).spec
    assert isinstance(spec, model.NeuronExperiment)
    assert spec.aws.capacity.kind == "spot"
    assert spec.aws.price is not None
    assert (spec.aws.price.usd_per_hour, spec.aws.price.as_of) == (15.09, NOW.date())


def test_a_pasted_block_demands_the_purchases_id(tmp_path: Path) -> None:
    answered = only_ohio(blocks(block("us-east-2b", "858.24")), spot())
    pasted = first_yaml(list(find.market_lines(answered, NEED)))
    path = experiments.write_experiment(tmp_path, lambda data: data["aws"].update(pasted))
    with pytest.raises(UserInputError, match="reservation_id"):
        loading.load_experiment(path)


def test_the_need_ignores_deadline_and_budget() -> None:
    short = experiment(deadline_minutes=1, accelerator_budget_usd=1.0)
    assert offers.Need.of(short) == offers.Need.of(experiment())
    assert offers.Need.of(experiment()).nodes == 1
    assert offers.Need.of(experiment()).minutes.best > 30


def test_disabled_regions_are_listed_but_not_queried() -> None:
    """A type may be sold in such a region alone."""
    states = {
        "eu-west-3": "opt-in-not-required",
        "sa-east-1": "opted-in",
        "me-south-1": "not-opted-in",
    }
    regions = [{"RegionName": name, "OptInStatus": state} for name, state in states.items()]
    listed = Answer(method="describe_regions", response={"Regions": regions})
    for wanted, closed in (
        ([], "me-south-1"),
        (["eu-west-3", "sa-east-1", "me-south-1", "us-moon-1"], "me-south-1, us-moon-1"),
    ):
        clients = StubbedClients(
            us_east_1={"ec2": [listed], "pricing": [products()]},
            eu_west_3={"ec2": [offered()]},
            sa_east_1={"ec2": [offered()]},
        )
        answered = find.look(experiment(), NEED, wanted, clients)
        (unknown,) = answered.unknown
        assert f"not enabled for this account: {closed}; next: " in unknown.reason
        offerings = [name for _, name in clients.calls if name == "DescribeInstanceTypeOfferings"]
        assert len(offerings) == 2


def test_arguments_that_do_not_fit_exit_with_2(ran: Ran) -> None:
    assert "--find" in ran("preflight", QWEN, "--regions", "us-east-2", code=2)
    output = ran("preflight", QWEN, "--find", "--regions", "Ohio", code=2)
    assert "--regions: given 'Ohio', allowed: regions such as us-east-2" in output


@pytest.mark.parametrize(("count", "code"), [(1, 0), (0, 1)])
def test_exit_code_tells_whether_anything_is_for_sale(
    count: int, code: int, monkeypatch: pytest.MonkeyPatch, ran: Ran
) -> None:
    listed = only_ohio(blocks(), spot(us_east_2c=["9.00"])).offers[:count]
    monkeypatch.setattr(find, "look", lambda *_: find.Market(offers=listed, regions=["us-east-2"]))
    assert f"1 x {KIND} for" in ran("preflight", QWEN, "--find", code=code)
