"""The nodes that a run needs, and AWS's offers of them: Capacity Blocks, on demand and Spot."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Self

import jmespath
import yaml

from draftworth.account.clients import AwsError, Region
from draftworth.account.printing import utc_text
from draftworth.experiment.aws import Price
from draftworth.planning import assumptions, resolved, timeline
from draftworth.records import codec, deployment

# The AWS Price List API has endpoints in few regions; this one has the prices of all regions.
PRICE_LIST_REGION = "us-east-1"
SPOT_HISTORY_DAYS = 7
ON_DEMAND_SOURCE = "AWS Price List, on demand, Linux"
_SPOT_KEYS = {"AvailabilityZone", "SpotPrice", "Timestamp"}
_HOURLY = jmespath.compile(
    "terms.OnDemand.*.priceDimensions[].*[].{unit: unit, usd: pricePerUnit.USD}"
)


def yaml_lines(below_aws: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines of YAML for an experiment file, with the keys of `below_aws` below `aws`."""
    text = yaml.safe_dump({"aws": dict(below_aws)}, sort_keys=False, width=1000)
    yield from text.splitlines()


def merged(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge mappings into one, nested mappings too; of several values of a key, the last counts."""
    whole: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            both = isinstance(value, Mapping) and isinstance(whole.get(key), Mapping)
            whole[key] = merged([whole[key], value]) if both else value
    return whole


@dataclass(frozen=True, kw_only=True)
class Need:
    """The accelerator nodes that an experiment needs, and for how long.

    vcpus: of all nodes together. minutes: how long a first run needs the nodes, at best and worst.
    """

    instance_type: str
    vcpus: int
    nodes: int
    minutes: assumptions.Bounds

    @classmethod
    def of(cls, experiment: resolved.ResolvedNeuron) -> Self:
        return cls(
            instance_type=experiment.spec.instance_type,
            vcpus=experiment.spec.accelerator.vcpus * experiment.placement.nodes,
            nodes=experiment.placement.nodes,
            minutes=timeline.forecast(experiment).needed_minutes,
        )

    @property
    def hours(self) -> assumptions.Bounds:
        return self.minutes.times(1 / 60)


@dataclass(frozen=True, kw_only=True)
class Offer:
    """Nodes that AWS sells in a zone: by the hour (EC2 may lack capacity), or as a Capacity Block.

    price: US dollars per node and hour. usd: what the nodes of a first run cost with this offer, at
        best and at worst.
    when: in words, when the nodes exist. use: in words, how much of the paid time a run uses.
    purchase: lines that say how to buy the block; empty for nodes that a deploy starts.
    capacity: the keys of `aws.capacity` in an experiment file, without `kind`.
    hindrance: why the offer cannot be bought or used now; empty if no reason is known.
    """

    kind: deployment.CapacityKind
    region: str
    zone: str
    price: Price
    usd: assumptions.Bounds
    when: str = "when there are nodes"
    use: str = "all of it"
    purchase: Sequence[str] = ()
    capacity: Mapping[str, Any] = field(default_factory=dict)
    hindrance: str = ""

    @property
    def paste(self) -> Mapping[str, Any]:
        return {
            "region": self.region,
            "availability_zone": self.zone,
            "capacity": {"kind": self.kind, **self.capacity},
            "price": self.price.model_dump(),
        }


def hourly_offer(need: Need, price: Price, **offer: Any) -> Offer:
    """Return an offer of nodes that are paid by the hour; `offer`: further fields of `Offer`."""
    usd = need.hours.times(need.nodes * price.usd_per_hour)
    return Offer(usd=usd, price=price, **offer)


def usd(text: Any) -> float:
    """Return a price in US dollars, which AWS gives as text; raise AwsError if it is no price."""
    try:
        price = round(float(text), 4)
    except (TypeError, ValueError):
        price = math.nan
    if not 0.001 <= price <= 1e12:  # the bounds of aws.price
        raise AwsError(f"AWS names {text!r} as a price", next_step="look it up by hand")
    return price


def on_demand_prices(
    price_list: Region, instance_type: str, today: date, **where: str
) -> dict[str, Price]:
    """Return by region the on-demand price of an instance type with Linux, in USD per hour.

    price_list: the region whose Price List API is asked. where: further filters of that API.
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
    return {
        region: Price(usd_per_hour=hourly, as_of=today, source=ON_DEMAND_SOURCE)
        for product in products
        for region, hourly in _hourly(product)
    }


def _hourly(product: str) -> Iterator[tuple[str, float]]:
    data = codec.load_object(product)
    region = jmespath.search("product.attributes.regionCode", data)
    for price in _HOURLY.search(data) or ():
        if isinstance(region, str) and price["unit"] == "Hrs":
            yield region, usd(price["usd"])


def spot_prices(
    region: Region, instance_type: str, now: datetime, **where: str
) -> Mapping[str, Price]:
    """Return by zone the current Spot price of an instance type, in USD per hour.

    Zones without a Spot price are missing. where: further arguments of the call to EC2.
    """
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
        if entry.keys() >= _SPOT_KEYS:
            seen = entry["Timestamp"], usd(entry["SpotPrice"])
            by_zone.setdefault(entry["AvailabilityZone"], []).append(seen)
    return {zone: _spot_price(history, now.date()) for zone, history in by_zone.items()}


def _spot_price(history: list[tuple[datetime, float]], today: date) -> Price:
    prices = [price for _, price in history]
    seen = f"{min(prices):.2f} to {max(prices):.2f} in {SPOT_HISTORY_DAYS} days"
    source = f"EC2 Spot price history: {seen}"
    return Price(usd_per_hour=max(history)[1], as_of=today, source=source)


# The lengths in days and the numbers of instances with which a Capacity Block can be bought: 1 to
# 14 days, or 3 to 26 whole weeks (Amazon EC2 User Guide), and the sizes that EC2's console offers.
# Blocks end at 11:30 UTC, so one may be shorter than requested.
_DAYS = (*range(1, 15), *range(21, 183, 7))
_SIZES = (1, 2, 4, 8, 16, 32, 64)

# The offering's id becomes part of a shell command, so only these characters are accepted.
_ID = re.compile(r"[A-Za-z0-9-]{1,100}")


def block_offerings(region: Region, need: Need, now: datetime) -> list[Mapping[str, Any]]:
    """Return EC2's offerings of Capacity Blocks that are large and long enough for `need`.

    EC2 is asked for the shortest length and the fewest instances that it sells and that cover the
    worst case of `need`.
    """
    hours = (need.minutes.worst * 60 + deployment.BLOCK_MARGIN_SECONDS) / 3600
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


def block_offer(offering: Mapping[str, Any], region: str, need: Need, now: datetime) -> Offer:
    """Return one of `block_offerings`, which is on sale in `region`, as an `Offer`.

    need: the nodes and the hours of the run, from which the used part of the block is computed.
    LookupError, TypeError, ValueError or AwsError is raised if the offering cannot be read.
    """
    start, end, fee = offering["StartDate"], offering["EndDate"], usd(offering["UpfrontFee"])
    # Computed from the dates, because the offering states its length in whole hours.
    hours = (end - start).total_seconds() / 3600
    offer_id, currency = offering["CapacityBlockOfferingId"], offering.get("CurrencyCode", "USD")
    if not _ID.fullmatch(offer_id):
        raise ValueError(f"{offer_id!r} as the id of an offering")
    buy = (
        f"aws ec2 purchase-capacity-block --region {region} --instance-platform Linux/UNIX "
        f"--capacity-block-offering-id {offer_id}"
    )
    return Offer(
        kind="capacity_block",
        region=region,
        zone=offering["AvailabilityZone"],
        price=Price(
            usd_per_hour=usd(fee / hours / offering["InstanceCount"]),
            as_of=now.date(),
            source=f"Capacity Block offering {offer_id}, {fee:.2f} {currency} in advance",
        ),
        usd=assumptions.Bounds(fee, fee),
        when=f"{utc_text(start)} to {utc_text(end)}",
        use=_use_of_block(hours, need.hours),
        purchase=(
            "Buying takes the whole price at once and cannot be undone; then put in its id:",
            f"  {buy}",
        ),
        capacity={"reservation_id": "cr-...", "hours": round(hours, 2)},
        hindrance="" if currency == "USD" else f"its price is in {currency}",
    )


def _use_of_block(hours: float, need: assumptions.Bounds) -> str:
    # EKS releases the nodes of a Capacity Block some time before the block ends.
    usable = hours - deployment.BLOCK_MARGIN_SECONDS / 3600
    used = assumptions.Bounds(min(need.best, usable), min(need.worst, usable))
    left = assumptions.Bounds(usable - used.worst, usable - used.best)
    cut = ", cut by its end in the worst case" if need.worst > usable else ""
    return f"{used:.1f} of {hours:.1f} h{cut}; {left:.1f} h free for more runs"
