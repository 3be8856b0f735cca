"""What was found, for a person: a table, cheapest first, and YAML to paste."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from account.market.find import Found
from account.market.offer import BlockOffer, Need, Offer
from account.pasting import yaml_lines
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
    """The whole answer."""
    offers = sorted(found.offers, key=lambda offer: (offer.usd.worst, offer.usd.best))
    free = [offer for offer in offers if not offer.hindrance]
    hindered = [offer for offer in offers if offer.hindrance]
    yield (
        f"{need.nodes} x {need.instance_type} for {need.hours.text(digits=1)} h each, the best and "
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
    """A table under its title, if it has rows; `last`: the heading of the last column."""
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
    """The cheapest of each way of buying, as keys of the experiment."""
    for kind in dict.fromkeys(offer.kind for offer in offers):
        number, offer = next((n, o) for n, o in enumerate(offers, start=1) if o.kind == kind)
        yield ""
        yield f"# {number}: the cheapest {kind}, to paste into the experiment"
        if isinstance(offer, BlockOffer):
            yield "# Buying takes the whole price at once and cannot be undone; then put in its id:"
            yield (
                f"#   aws ec2 purchase-capacity-block --region {offer.region} --instance-platform "
                f"Linux/UNIX --capacity-block-offering-id {offer.offering_id}"
            )
        yield from yaml_lines(offer.paste)
