"""Regions whose answers are told, and the calls that were made: botocore checks both shapes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from draftworth.account.clients import Region
from draftworth.account.market.offer import Need
from draftworth.planning.assumptions import Bounds
from tests.draftworth.account.stubs import NOW, Answer, StubbedClients

KIND = "trn2.48xlarge"
NEED = Need(instance_type=KIND, vcpus=192, nodes=1, minutes=Bounds(60, 240))
BLOCK_START = datetime(2026, 11, 25, 11, 30, tzinfo=UTC)
DENIED = "UnauthorizedOperation"


class World:
    """Clients by region; `calls`: every operation that reached a client."""

    def __init__(self, **regions: Mapping[str, Sequence[Answer]]) -> None:
        self.calls: list[tuple[str, str]] = []
        self._regions = {
            name.replace("_", "-"): StubbedClients(answers) for name, answers in regions.items()
        }

    def __call__(self, service: str, region: str, /) -> Any:
        made = self._regions[region](service, region)
        made.meta.events.register_first("before-parameter-build.*.*", self._called)
        return made

    def _called(self, model: Any, **_: Any) -> None:
        self.calls.append((model.service_model.service_name, model.name))

    def regions(self, *names: str) -> list[Region]:
        return [Region(name=name, clients=self) for name in names]

    @property
    def price_list(self) -> Region:
        return Region(name="us-east-1", clients=self)


def offered(*zones: str, kind: str = KIND) -> Answer:
    offerings = [{"InstanceType": kind, "Location": zone} for zone in zones]
    return Answer(
        method="describe_instance_type_offerings", response={"InstanceTypeOfferings": offerings}
    )


def zones(**ids: str) -> Answer:
    """Zones by name, hyphens as underscores."""
    listed = [
        {"ZoneName": name.replace("_", "-"), "ZoneId": zone_id, "ZoneType": "availability-zone"}
        for name, zone_id in ids.items()
    ]
    return Answer(method="describe_availability_zones", response={"AvailabilityZones": listed})


def block(
    zone: str, fee: str, *, hours: float = 24, count: int = 1, **other: Any
) -> dict[str, Any]:
    """An offering as EC2 tells it."""
    return {
        "CapacityBlockOfferingId": f"cb-{zone[-1]}{hours:.0f}",
        "InstanceType": KIND,
        "AvailabilityZone": zone,
        "InstanceCount": count,
        "StartDate": BLOCK_START,
        "EndDate": BLOCK_START + timedelta(hours=hours),
        "CapacityBlockDurationHours": int(hours),
        "UpfrontFee": fee,
        "CurrencyCode": "USD",
    } | other


def blocks(*offerings: dict[str, Any], next_token: str = "") -> Answer:
    response: dict[str, Any] = {"CapacityBlockOfferings": list(offerings)}
    if next_token:
        response["NextToken"] = next_token
    return Answer(method="describe_capacity_block_offerings", response=response)


def spot(**prices: Sequence[str]) -> Answer:
    """Prices by zone, newest first, a day apart; hyphens as underscores."""
    history = [
        {
            "AvailabilityZone": zone.replace("_", "-"),
            "SpotPrice": price,
            "Timestamp": NOW - timedelta(days=age),
        }
        for zone, listed in prices.items()
        for age, price in enumerate(listed)
    ]
    return Answer(method="describe_spot_price_history", response={"SpotPriceHistory": history})


def quota(vcpus: float) -> Answer:
    return Answer(method="get_service_quota", response={"Quota": {"Value": vcpus}})


def product(region: str, usd: str, *, unit: str = "Hrs") -> str:
    """A product of the Price List, as far as anybody reads it."""
    dimension = {"unit": unit, "pricePerUnit": {"USD": usd}}
    terms = {"OnDemand": {"SKU.TERM": {"priceDimensions": {"SKU.TERM.RATE": dimension}}}}
    return json.dumps({"product": {"attributes": {"regionCode": region}}, "terms": terms})


def products(*listed: str) -> Answer:
    return Answer(method="get_products", response={"PriceList": list(listed)})
