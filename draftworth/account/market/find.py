"""Through all regions at once: what is offered there, and what could not be asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from draftworth.account.checks.capacity import ACCELERATOR, limit_vcpus, zones_that_offer
from draftworth.account.checks.cluster import REFUSED_ZONE_IDS, zone_ids
from draftworth.account.clients import AwsError, Region
from draftworth.account.market.offer import BlockOffer, Need, Offer, OnDemandOffer, SpotOffer
from draftworth.account.market.prices import (
    ON_DEMAND_SOURCE,
    block_offer,
    offerings,
    on_demand_prices,
    spot_prices,
)
from draftworth.errors import DraftworthError

T = TypeVar("T")

# A person waits: what has not answered by then is told as such.
SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """What could not be asked, where, and why."""

    region: str
    what: str
    reason: str


@dataclass(kw_only=True)
class Found:
    """Offers, and what is unknown; `regions`: those that offer the instance type at all."""

    offers: list[Offer] = field(default_factory=list)
    unknown: list[Unknown] = field(default_factory=list)
    regions: list[str] = field(default_factory=list)

    def attempt(self, region: str, what: str, call: Callable[[], T]) -> T | None:
        """What a call gives; None, and a line in `unknown`, where it cannot be had."""
        try:
            return call()
        except AwsError as error:
            reason = f"{error.reason}; next: {error.next_step}"
        except DraftworthError as error:
            reason = str(error)
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            reason = f"the answer cannot be read: {error!r}"
        self.unknown.append(Unknown(region=region, what=what, reason=reason))
        return None

    def take(self, other: Found) -> None:
        """All of another region's."""
        self.offers += other.offers
        self.unknown += other.unknown
        self.regions += other.regions


def find(
    regions: Sequence[Region],
    price_list: Region,
    need: Need,
    now: datetime,
    *,
    seconds: float = SECONDS,
) -> Found:
    """Ask all regions at once; what has no answer in time is unknown."""
    found, ends = Found(), time.monotonic() + seconds
    ask = partial(on_demand_prices, price_list, need.instance_type)
    prices = found.attempt("all regions", "on-demand price", ask) or {}
    answers = _answers(regions, lambda region: look_into(region, need, now, prices), ends)
    for region in regions:
        if region.name in answers:
            found.take(answers[region.name])
        else:
            reason = f"no answer within {seconds:.0f} seconds"
            found.unknown.append(Unknown(region=region.name, what="everything", reason=reason))
    return found


def _answers(
    regions: Sequence[Region], look: Callable[[Region], Found], ends: float
) -> dict[str, Found]:
    """What was answered before the monotonic clock reached `ends`, by region."""
    answers: dict[str, Found] = {}

    def keep(region: Region) -> None:
        answers[region.name] = look(region)

    # Threads that end with the program: one that waits for a region holds nobody up.
    threads = [threading.Thread(target=keep, args=(r,), daemon=True) for r in regions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=max(0.0, ends - time.monotonic()))
    return dict(answers)


def look_into(region: Region, need: Need, now: datetime, prices: Mapping[str, float]) -> Found:
    """All that one region offers."""
    found = Found()
    zones = found.attempt(
        region.name, "offerings", lambda: zones_that_offer(region, need.instance_type)
    )
    if not zones:
        return found
    found.regions.append(region.name)
    ids = found.attempt(region.name, "zones", lambda: zone_ids(region)) or {}
    offers: list[Offer] = [*_blocks(found, region, need, now)]
    offers += found.attempt(region.name, "Spot", lambda: [*_spot(region, need, now)]) or ()
    if region.name in prices:
        offers += _on_demand(region, need, now, zones, prices[region.name])
    kinds = dict.fromkeys(offer.kind for offer in offers)
    short = {kind: _too_small(found, region, need, kind) for kind in kinds}
    found.offers += (
        replace(o, hindrance=o.hindrance or short[o.kind] or _zone_problem(o.zone, ids))
        for o in offers
    )
    return found


def _blocks(found: Found, region: Region, need: Need, now: datetime) -> Iterator[BlockOffer]:
    """One that cannot be read is told as such, and hides no other."""
    what = "Capacity Blocks"
    for offering in found.attempt(region.name, what, lambda: offerings(region, need, now)) or ():
        read = partial(block_offer, offering, region.name, need, now)
        if offer := found.attempt(region.name, what, read):
            yield offer


def _spot(region: Region, need: Need, now: datetime) -> Iterator[SpotOffer]:
    for zone, price in spot_prices(region, need.instance_type, now).items():
        yield SpotOffer(
            need=need,
            region=region.name,
            zone=zone,
            usd_per_node_hour=price.now,
            as_of=now.date(),
            source=price.source,
        )


def _on_demand(
    region: Region, need: Need, now: datetime, zones: Iterable[str], price: float
) -> Iterator[OnDemandOffer]:
    for zone in zones:
        yield OnDemandOffer(
            need=need,
            region=region.name,
            zone=zone,
            usd_per_node_hour=price,
            as_of=now.date(),
            source=ON_DEMAND_SOURCE,
        )


def _too_small(found: Found, region: Region, need: Need, kind: str) -> str:
    """Whether the quota of this way of buying is below the plan's need."""
    quota = ACCELERATOR.get(kind)
    if quota is None:
        return ""
    limit = found.attempt(region.name, f"quota {quota}", lambda: limit_vcpus(region, quota))
    if limit is None:
        return "the quota is unknown"
    return f"quota {quota.code} is {limit} vCPU, {need.vcpus} needed" if limit < need.vcpus else ""


def _zone_problem(zone: str, ids: Mapping[str, str]) -> str:
    if ids and zone not in ids:
        return "no availability zone of this account: a Local Zone, or one not enabled"
    if ids.get(zone) in REFUSED_ZONE_IDS:
        return f"EKS takes no subnet in {ids[zone]}"
    return ""
