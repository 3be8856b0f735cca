"""Asks all regions at once what they offer, and notes what could not be asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from draftworth.account.checks.capacity import ACCELERATOR, limit_vcpus, zones_that_offer
from draftworth.account.checks.cluster import REFUSED_ZONE_IDS, zone_ids
from draftworth.account.clients import AwsError, Region
from draftworth.account.market.offer import BlockOffer, Need, Offer
from draftworth.account.market.prices import (
    ON_DEMAND_SOURCE,
    block_offer,
    offerings,
    on_demand_prices,
    spot_prices,
)
from draftworth.errors import DraftworthError

T = TypeVar("T")

# A person waits: a region that has not answered by then is reported as unknown.
SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """A question that a region did not answer, and the reason."""

    region: str
    what: str
    reason: str


@dataclass(kw_only=True)
class Found:
    """The offers, the unanswered questions, and the regions that offer the instance type at all."""

    offers: list[Offer] = field(default_factory=list)
    unknown: list[Unknown] = field(default_factory=list)
    regions: list[str] = field(default_factory=list)

    def attempt(self, region: str, what: str, call: Callable[[], T]) -> T | None:
        """Return the result of a call; if it fails, note the reason and return None."""
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
    """Ask all regions at once; a region that does not answer in time is noted as unknown."""
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
    """Return the answers that came before the monotonic clock reached `ends`, by region."""
    answers: dict[str, Found] = {}

    def keep(region: Region) -> None:
        answers[region.name] = look(region)

    # Daemon threads: one that still waits for a region does not keep the program alive.
    threads = [threading.Thread(target=keep, args=(r,), daemon=True) for r in regions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=max(0.0, ends - time.monotonic()))
    return dict(answers)


def look_into(region: Region, need: Need, now: datetime, prices: Mapping[str, float]) -> Found:
    """Return what one region offers."""
    found = Found()
    zones = found.attempt(
        region.name, "offerings", lambda: zones_that_offer(region, need.instance_type)
    )
    if not zones:
        return found
    found.regions.append(region.name)
    ids = found.attempt(region.name, "zones", lambda: zone_ids(region)) or {}
    offers: list[Offer] = [*_blocks(found, region, need, now)]
    offers += found.attempt(region.name, "Spot", lambda: _spot(region, need, now)) or ()
    if region.name in prices:
        offers += (
            Offer(
                kind="on_demand",
                need=need,
                region=region.name,
                zone=zone,
                usd_per_node_hour=prices[region.name],
                as_of=now.date(),
                source=ON_DEMAND_SOURCE,
            )
            for zone in zones
        )
    kinds = dict.fromkeys(offer.kind for offer in offers)
    short = {kind: _quota_problem(found, region, need, kind) for kind in kinds}
    found.offers += (
        replace(o, hindrance=o.hindrance or short[o.kind] or _zone_problem(o.zone, ids))
        for o in offers
    )
    return found


def _blocks(found: Found, region: Region, need: Need, now: datetime) -> Iterator[BlockOffer]:
    """Yield the blocks that can be read; the others are noted as unknown."""
    what = "Capacity Blocks"
    for offering in found.attempt(region.name, what, lambda: offerings(region, need, now)) or ():
        read = partial(block_offer, offering, region.name, need, now)
        if offer := found.attempt(region.name, what, read):
            yield offer


def _spot(region: Region, need: Need, now: datetime) -> list[Offer]:
    return [
        Offer(
            kind="spot",
            need=need,
            region=region.name,
            zone=zone,
            usd_per_node_hour=price.now,
            as_of=now.date(),
            source=price.source,
        )
        for zone, price in spot_prices(region, need.instance_type, now).items()
    ]


def _quota_problem(found: Found, region: Region, need: Need, kind: str) -> str:
    """Say why the quota of this kind of capacity is too small; empty if it is not."""
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
        return f"EKS accepts no subnet in {ids[zone]}"
    return ""
