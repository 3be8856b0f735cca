"""`draftworth preflight --find` lists where the nodes can be bought now, cheapest first.

The command asks all regions in parallel, lists the questions that a region did not answer, and
buys nothing.
Exit code 0: an offer can be bought and used now; 1: no offer can.
"""

import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple, TypeVar

from draftworth import errors, terminal
from draftworth.account.checks import check, cluster_checks
from draftworth.account.checks.capacity_checks import ACCELERATOR, limit_vcpus, zones_that_offer
from draftworth.account.clients import Clients, Region, client
from draftworth.account.market import offers
from draftworth.account.market.offers import Need, Offer
from draftworth.account.printing import print_lines
from draftworth.experiment.aws import Price
from draftworth.planning.resolved import ResolvedNeuron

T = TypeVar("T")

# A person waits, so a region that has not answered after this many seconds is reported as unknown.
SECONDS = 60
_HEADINGS = ("", "USD in all\nbest", "\nworst", "\nbought", "\nzone", "USD/h\na node", "\nwhen")


class Unknown(NamedTuple):
    """A question that AWS did not answer about a region (`what`), and the reason."""

    region: str
    what: str
    reason: str


@dataclass(kw_only=True)
class Market:
    """What was found: offers, unanswered questions, and regions that offer the instance type."""

    offers: list[Offer] = field(default_factory=list)
    unknown: list[Unknown] = field(default_factory=list)
    regions: list[str] = field(default_factory=list)

    def attempt(self, region: str, what: str, call: Callable[[], T]) -> T | None:
        try:
            return call()
        except errors.DraftworthError as error:
            reason = str(error)
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            reason = f"the answer cannot be read: {error!r}"
        self.unknown.append(Unknown(region, what, reason))
        return None


def run(experiment: ResolvedNeuron, wanted: Collection[str]) -> int:
    """Print the offers in the regions `wanted` (empty: all regions); return the exit code."""
    need = Need.of(experiment)
    market = look(experiment, need, wanted, client)
    print_lines(market_lines(market, need))
    return 0 if any(not offer.hindrance for offer in market.offers) else 1


def look(
    experiment: ResolvedNeuron, need: Need, wanted: Collection[str], clients: Clients
) -> Market:
    """Return what the regions `wanted` offer for `need`; empty: all regions of the account.

    Regions that are not enabled for the account are not asked; `Market.unknown` names them.
    """
    states = check.region_states(experiment.spec.aws.region, clients)
    enabled = {name for name, state in states.items() if state in check.OPEN}
    names = sorted(enabled & set(wanted) if wanted else enabled)
    sys.stderr.write(f"asking {len(names)} regions, for {SECONDS} seconds at most\n")
    market = find(
        [Region(name=name, clients=clients) for name in names],
        Region(name=offers.PRICE_LIST_REGION, clients=clients, answers_for_all=True),
        need,
        datetime.now(UTC),
    )
    if closed := sorted(set(wanted or states) - enabled):
        reason = (
            f"not enabled for this account: {', '.join(closed)}; next: aws account enable-region "
            "--region-name REGION, where a region is wanted"
        )
        market.unknown.append(Unknown("others", "everything", reason))
    return market


def find(
    regions: Sequence[Region],
    price_list: Region,
    need: Need,
    now: datetime,
    *,
    seconds: float = SECONDS,
) -> Market:
    """Ask all `regions` in parallel what they offer for `need`, and return their answers as one.

    price_list: the region that is asked for the on-demand prices of all regions.
    seconds: regions that have not answered by then are in `Market.unknown`.
    """
    market, ends = Market(), time.monotonic() + seconds
    ask = partial(offers.on_demand_prices, price_list, need.instance_type, now.date())
    prices = market.attempt("all regions", "on-demand price", ask) or {}
    answers = _answers(regions, lambda region: look_into(region, need, now, prices), ends)
    for region in regions:
        if answer := answers.get(region.name):
            market.offers += answer.offers
            market.unknown += answer.unknown
            market.regions += answer.regions
        else:
            reason = f"no answer within {seconds:.0f} seconds"
            market.unknown.append(Unknown(region.name, "everything", reason))
    return market


def _answers(
    regions: Sequence[Region], look: Callable[[Region], Market], ends: float
) -> dict[str, Market]:
    """Call `look` for all regions in parallel, and return the results by the region's name.

    A region is missing if `look` has not returned before the monotonic clock reaches `ends`.
    """
    answers: dict[str, Market] = {}

    def keep(region: Region) -> None:
        answers[region.name] = look(region)

    # Daemon threads, so that a thread that still waits does not keep the program running.
    threads = [threading.Thread(target=keep, args=(r,), daemon=True) for r in regions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=max(0.0, ends - time.monotonic()))
    return dict(answers)


def look_into(region: Region, need: Need, now: datetime, prices: Mapping[str, Price]) -> Market:
    """Return one region's offers for `need`. prices: the on-demand prices, by region."""
    market = Market()
    kind = need.instance_type
    zones = market.attempt(region.name, "offerings", lambda: zones_that_offer(region, kind))
    if not zones:
        return market
    market.regions.append(region.name)
    ids = market.attempt(region.name, "zones", lambda: cluster_checks.zone_ids(region)) or {}
    offer = partial(offers.hourly_offer, need, region=region.name)
    listed = [*_blocks(market, region, need, now)]
    spot = market.attempt(region.name, "Spot", lambda: offers.spot_prices(region, kind, now)) or {}
    listed += (offer(price, kind="spot", zone=zone) for zone, price in spot.items())
    if on_demand := prices.get(region.name):
        listed += (offer(on_demand, kind="on_demand", zone=zone) for zone in zones)
    kinds = dict.fromkeys(offer.kind for offer in listed)
    short = {kind: _quota_problem(market, region, need, kind) for kind in kinds}
    market.offers += (
        replace(o, hindrance=o.hindrance or short[o.kind] or _zone_problem(o.zone, ids))
        for o in listed
    )
    return market


def _blocks(market: Market, region: Region, need: Need, now: datetime) -> Iterator[Offer]:
    what, ask = "Capacity Blocks", partial(offers.block_offerings, region, need, now)
    for offering in market.attempt(region.name, what, ask) or ():
        read = partial(offers.block_offer, offering, region.name, need, now)
        if offer := market.attempt(region.name, what, read):
            yield offer


def _quota_problem(market: Market, region: Region, need: Need, kind: str) -> str:
    quota = ACCELERATOR.get(kind)
    if quota is None:
        return ""
    limit = market.attempt(region.name, f"quota {quota}", lambda: limit_vcpus(region, quota))
    if limit is None:
        return "the quota is unknown"
    return f"quota {quota.code} is {limit} vCPU, {need.vcpus} needed" if limit < need.vcpus else ""


def _zone_problem(zone: str, ids: Mapping[str, str]) -> str:
    if ids and zone not in ids:
        return "no availability zone of this account: a Local Zone, or one not enabled"
    if ids.get(zone) in cluster_checks.REFUSED_ZONE_IDS:
        return f"EKS accepts no subnet in {ids[zone]}"
    return ""


def market_lines(market: Market, need: Need) -> Iterator[str]:
    """Yield lines: offers by price, unanswered questions, and YAML of the cheapest offers."""
    cheapest = sorted(market.offers, key=lambda offer: (offer.usd.worst, offer.usd.best))
    free = [offer for offer in cheapest if not offer.hindrance]
    hindered = [offer for offer in cheapest if offer.hindrance]
    yield (
        f"{need.nodes} x {need.instance_type} for {need.hours:.1f} h each, the best and "
        "the worst case of a first run (`draftworth plan` has the time line); whole "
        "prices in USD"
    )
    yield f"{need.instance_type} is offered in: {', '.join(sorted(market.regions)) or 'no region'}"
    use = [_row(number, offer, offer.use) for number, offer in enumerate(free, 1)]
    title = "can be bought now, cheapest first; nothing was bought:"
    yield from _table(title, "of the paid time the plan uses", use)
    numbered = enumerate(hindered, len(free) + 1)
    because = [_row(number, offer, offer.hindrance) for number, offer in numbered]
    yield from _table("cannot be used now:", "because", because)
    if market.unknown:
        yield from ("", "could not be asked:", *terminal.table_lines(sorted(market.unknown)))
    for kind in dict.fromkeys(offer.kind for offer in free):
        number, offer = next((n, o) for n, o in enumerate(free, start=1) if o.kind == kind)
        yield ""
        yield f"# {number}: the cheapest {kind}, to paste into the experiment"
        yield from (f"# {line}" for line in offer.purchase)
        yield from offers.yaml_lines(offer.paste)


def _table(title: str, last: str, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if rows:
        yield from ("", title)
        headings = (*_HEADINGS, f"\n{last}")
        yield from terminal.table_lines(rows, headings, numbers=(0, 1, 2, 5), ruled=True)


def _row(number: int, offer: Offer, remark: str) -> tuple[str, ...]:
    return (
        str(number),
        f"{offer.usd.best:,.2f}",
        f"{offer.usd.worst:,.2f}",
        offer.kind,
        offer.zone,
        f"{offer.price.usd_per_hour:.2f}",
        offer.when,
        remark,
    )
