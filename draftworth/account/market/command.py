"""`draftworth preflight --find` lists where the nodes can be bought now, cheapest first.

Reads only. Exit code 0: something can be bought; 1: nothing that was found can.
"""

import sys
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime

from draftworth.account.checks.check import OPEN, region_states
from draftworth.account.clients import Clients, Region, client
from draftworth.account.market.find import SECONDS, Found, Unknown, find
from draftworth.account.market.offer import Need, Offer, yaml_lines
from draftworth.account.market.prices import PRICE_LIST_REGION
from draftworth.account.printing import print_lines
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.terminal import table_lines

_HEADINGS = (
    "",
    "USD in all\nbest",
    "\nworst",
    "\nbought",
    "\nzone",
    "USD/h\na node",
    "\nwhen",
)


def found_lines(found: Found, need: Need) -> Iterator[str]:
    """Yield the offers as text."""
    offers = sorted(found.offers, key=lambda offer: (offer.usd.worst, offer.usd.best))
    free = [offer for offer in offers if not offer.hindrance]
    hindered = [offer for offer in offers if offer.hindrance]
    yield (
        f"{need.nodes} x {need.instance_type} for {need.hours:.1f} h each, the best and "
        "the worst case of a first run (`python -m draftworth plan` has the time line); whole "
        "prices in USD"
    )
    yield f"{need.instance_type} is offered in: {', '.join(sorted(found.regions)) or 'no region'}"
    use = [_row(number, offer, offer.use) for number, offer in enumerate(free, 1)]
    title = "can be bought now, cheapest first; nothing was bought:"
    yield from _table(title, "of the paid time the plan uses", use)
    numbered = enumerate(hindered, len(free) + 1)
    because = [_row(number, offer, offer.hindrance) for number, offer in numbered]
    yield from _table("cannot be used now:", "because", because)
    if found.unknown:
        rows = sorted((u.region, u.what, u.reason) for u in found.unknown)
        yield from ("", "could not be asked:", *table_lines(rows))
    yield from _paste_lines(free)


def _table(title: str, last: str, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if rows:
        yield from ("", title)
        headings = (*_HEADINGS, f"\n{last}")
        yield from table_lines(rows, headings, numbers=(0, 1, 2, 5), ruled=True)


def _row(number: int, offer: Offer, remark: str) -> tuple[str, ...]:
    return (
        str(number),
        f"{offer.usd.best:,.2f}",
        f"{offer.usd.worst:,.2f}",
        offer.kind,
        offer.zone,
        f"{offer.usd_per_node_hour:.2f}",
        offer.when,
        remark,
    )


def _paste_lines(offers: Sequence[Offer]) -> Iterator[str]:
    """Yield the cheapest offer of each kind, as keys of the experiment."""
    for kind in dict.fromkeys(offer.kind for offer in offers):
        number, offer = next((n, o) for n, o in enumerate(offers, start=1) if o.kind == kind)
        yield ""
        yield f"# {number}: the cheapest {kind}, to paste into the experiment"
        yield from (f"# {line}" for line in offer.purchase)
        yield from yaml_lines(offer.paste)


def run(experiment: ResolvedNeuron, wanted: Collection[str]) -> int:
    """Look through the account's regions, or the wanted ones, and print the offers."""
    need = Need.of(experiment)
    found = look(experiment, need, wanted, client)
    print_lines(found_lines(found, need))
    return 0 if any(not offer.hindrance for offer in found.offers) else 1


def look(
    experiment: ResolvedNeuron, need: Need, wanted: Collection[str], clients: Clients
) -> Found:
    """Find what the regions offer; a wanted region that is not enabled becomes unknown.

    Raises:
        AwsError: the account's regions cannot be listed.
    """
    states = region_states(experiment.spec.aws.region, clients)
    enabled = {name for name, state in states.items() if state in OPEN}
    names = sorted(enabled & set(wanted) if wanted else enabled)
    sys.stderr.write(f"asking {len(names)} regions, for {SECONDS} seconds at most\n")
    found = find(
        [Region(name=name, clients=clients) for name in names],
        Region(name=PRICE_LIST_REGION, clients=clients, answers_for_all=True),
        need,
        datetime.now(UTC),
    )
    if closed := sorted(set(wanted or states) - enabled):
        reason = (
            f"not enabled for this account: {', '.join(closed)}; next: aws account enable-region "
            "--region-name REGION, where a region is wanted"
        )
        found.unknown.append(Unknown(region="others", what="everything", reason=reason))
    return found
