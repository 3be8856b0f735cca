"""Offers and prices that AWS lists: Capacity Blocks, on demand, Spot."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import jmespath

from draftworth.account.clients import AwsError, Region
from draftworth.account.market.offer import BlockOffer, Need
from draftworth.records.codec import load_object
from draftworth.records.deployment import BLOCK_MARGIN_SECONDS

# The Price List has endpoints in few regions; this one knows the prices of all.
PRICE_LIST_REGION = "us-east-1"
SPOT_HISTORY_DAYS = 7
ON_DEMAND_SOURCE = "AWS Price List, on demand, Linux"
_SPOT_KEYS = {"AvailabilityZone", "SpotPrice", "Timestamp"}
_HOURLY = jmespath.compile(
    "terms.OnDemand.*.priceDimensions[].*[].{unit: unit, usd: pricePerUnit.USD}"
)


def usd(text: Any) -> float:
    """Return a price that AWS writes as text; raises AwsError if it is not a price."""
    try:
        price = float(text)
    except (TypeError, ValueError):
        price = math.nan
    if not (math.isfinite(price) and price > 0):
        raise AwsError(f"AWS names {text!r} as a price", next_step="look it up by hand")
    return price


def on_demand_prices(price_list: Region, instance_type: str, **where: str) -> dict[str, float]:
    """Return US dollars an hour by region, for Linux and shared tenancy.

    where: further attributes of the product.
    """
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
    """Yield region and price of a product, which is JSON as text."""
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
        return (
            f"EC2 Spot price history: {self.lowest:.2f} to {self.highest:.2f} in "
            f"{SPOT_HISTORY_DAYS} days"
        )


def spot_prices(
    region: Region, instance_type: str, now: datetime, **where: str
) -> Mapping[str, SpotPrice]:
    """Return Spot prices by zone, without zones that have none; `where`: further arguments."""
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


# Amazon EC2 User Guide, Capacity Blocks: whole days up to 14, then whole weeks up to 26; sizes as
# the console offers them. Offers end at 11:30 UTC, so one may be shorter than what was asked for.
_DAYS = (*range(1, 15), *range(21, 183, 7))
_SIZES = (1, 2, 4, 8, 16, 32, 64)

# The id becomes part of a command, so nothing else is accepted.
_ID = re.compile(r"[A-Za-z0-9-]{1,100}")


def offerings(region: Region, need: Need, now: datetime) -> list[Mapping[str, Any]]:
    """List the offers for the plan's nodes, of the shortest length that holds its worst case."""
    hours = (need.minutes.worst * 60 + BLOCK_MARGIN_SECONDS) / 3600
    days = next((days for days in _DAYS if 24 * days >= hours), _DAYS[-1])
    size = next((size for size in _SIZES if size >= need.nodes), need.nodes)
    return region.list_all(
        "list the Capacity Blocks on offer",
        "ec2",
        "describe_capacity_block_offerings",
        "CapacityBlockOfferings",
        InstanceType=need.instance_type,
        InstanceCount=size,
        CapacityDurationHours=24 * days,
        StartDateRange=now,
    )


def block_offer(offering: Mapping[str, Any], region: str, need: Need, now: datetime) -> BlockOffer:
    """Read one offering; raises LookupError, ValueError or AwsError if it is invalid."""
    start, end, fee = offering["StartDate"], offering["EndDate"], usd(offering["UpfrontFee"])
    # By the dates: the offering's own hours leave out odd minutes.
    hours = (end - start).total_seconds() / 3600
    offer_id, currency = offering["CapacityBlockOfferingId"], offering.get("CurrencyCode", "USD")
    if not _ID.fullmatch(offer_id):
        raise ValueError(f"{offer_id!r} as the id of an offering")
    return BlockOffer(
        need=need,
        region=region,
        zone=offering["AvailabilityZone"],
        usd_per_node_hour=fee / hours / offering["InstanceCount"],
        as_of=now.date(),
        source=f"Capacity Block offering {offer_id}, {fee:.2f} {currency} in advance",
        offering_id=offer_id,
        start=start,
        end=end,
        fee_usd=fee,
        hindrance="" if currency == "USD" else f"its price is in {currency}",
    )
