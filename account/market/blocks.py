"""Capacity Blocks that are on offer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from account.market.offer import BlockOffer, Need
from account.market.prices import usd
from account.region import Region
from draftworth.records.deployment import BLOCK_MARGIN_SECONDS

# Amazon EC2 User Guide, Capacity Blocks: whole days up to 14, then whole weeks up to 26; sizes as
# the console offers them. Offers end at 11:30 UTC, so one may be shorter than what was asked for.
_DAYS = (*range(1, 15), *range(21, 183, 7))
_SIZES = (1, 2, 4, 8, 16, 32, 64)

# It is shown as a part of a command: nothing but an id.
_ID = re.compile(r"[A-Za-z0-9-]{1,100}")


def offerings(region: Region, need: Need, now: datetime) -> list[Mapping[str, Any]]:
    """What is on offer for the plan's nodes, of the shortest length that holds its worst case."""
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
    """One of them; LookupError, ValueError or AwsError for what is none."""
    start, end, fee = offering["StartDate"], offering["EndDate"], usd(offering["UpfrontFee"])
    # From the dates: the offering's own hours leave out its odd minutes.
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
