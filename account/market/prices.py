"""Prices as AWS tells them: on demand by the Price List, Spot by its history."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import jmespath

from account.clients import AwsError
from account.region import Region
from draftworth.records.codec import load_object

# The Price List has endpoints in few regions; this one knows the prices of all.
PRICE_LIST_REGION = "us-east-1"
SPOT_HISTORY_DAYS = 7
# For a reader of an on-demand price.
ON_DEMAND_SOURCE = "AWS Price List, on demand, Linux"
_SPOT_KEYS = {"AvailabilityZone", "SpotPrice", "Timestamp"}
_HOURLY = jmespath.compile(
    "terms.OnDemand.*.priceDimensions[].*[].{unit: unit, usd: pricePerUnit.USD}"
)


def usd(text: Any) -> float:
    """A price as AWS writes it, as text; AwsError for what is no price."""
    try:
        price = float(text)
    except (TypeError, ValueError):
        price = math.nan
    if not (math.isfinite(price) and price > 0):
        raise AwsError(f"AWS names {text!r} as a price", next_step="look it up by hand")
    return price


def on_demand_prices(price_list: Region, instance_type: str, **where: str) -> dict[str, float]:
    """US dollars an hour by region, Linux and shared tenancy; `where`: further attributes."""
    attributes = {
        "instanceType": instance_type,
        "operatingSystem": "Linux",
        "preInstalledSw": "NA",
        "tenancy": "Shared",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
    } | where
    products = price_list.list_all(
        f"read the price of {instance_type} in the Price List",
        "pricing",
        "get_products",
        "PriceList",
        ServiceCode="AmazonEC2",
        Filters=[{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in attributes.items()],
    )
    return dict(price for product in products for price in _hourly(product))


def _hourly(product: str) -> Iterator[tuple[str, float]]:
    """Region and price of a product, which is JSON as text."""
    data = load_object(product)
    region = jmespath.search("product.attributes.regionCode", data)
    for price in _HOURLY.search(data) or ():
        if isinstance(region, str) and price["unit"] == "Hrs":
            yield region, usd(price["usd"])


@dataclass(frozen=True, kw_only=True)
class SpotPrice:
    """US dollars an hour of a type in a zone: now, and the range of the last days."""

    now: float
    lowest: float
    highest: float

    @property
    def source(self) -> str:
        """For a reader of the price."""
        return (
            f"EC2 Spot price history: {self.lowest:.2f} to {self.highest:.2f} in "
            f"{SPOT_HISTORY_DAYS} days"
        )


def spot_prices(
    region: Region, instance_type: str, now: datetime, **where: str
) -> Mapping[str, SpotPrice]:
    """Spot prices by zone; no entry where EC2 has none. `where`: further arguments."""
    entries = region.list_all(
        f"read the Spot price of {instance_type}",
        "ec2",
        "describe_spot_price_history",
        "SpotPriceHistory",
        InstanceTypes=[instance_type],
        ProductDescriptions=["Linux/UNIX"],
        StartTime=now - timedelta(days=SPOT_HISTORY_DAYS),
        EndTime=now,
        **where,
    )
    by_zone: dict[str, list[tuple[datetime, float]]] = {}
    for entry in entries:
        if not entry.keys() >= _SPOT_KEYS:
            continue
        seen = entry["Timestamp"], usd(entry["SpotPrice"])
        by_zone.setdefault(entry["AvailabilityZone"], []).append(seen)
    return {zone: _spot_price(history) for zone, history in by_zone.items()}


def _spot_price(history: list[tuple[datetime, float]]) -> SpotPrice:
    prices = [price for _, price in history]
    return SpotPrice(now=max(history)[1], lowest=min(prices), highest=max(prices))
