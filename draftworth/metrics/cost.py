"""US dollars of tokens, slots and nodes, from the price of a run."""

from draftworth.records.results import Price

SECONDS_PER_HOUR = 3600.0


def usd_per_million_tokens(
    price: Price | None, variant: str, throughput_token_per_s: float | None
) -> float | None:
    """Return US dollars for a million output tokens of a slot with this throughput."""
    usd_per_second = slot_usd_per_second(price, variant)
    if usd_per_second is None or not throughput_token_per_s:
        return None
    return usd_per_second / throughput_token_per_s * 1e6


def slot_usd_per_second(price: Price | None, variant: str) -> float | None:
    """Return US dollars a second of a variant's part of a node; None without a price."""
    share = price.node_shares.get(variant) if price else None
    if price is None or share is None:
        return None
    return price.usd_per_node_hour * share / SECONDS_PER_HOUR


def nodes_usd_per_second(price: Price | None) -> float | None:
    """Return US dollars a second of all nodes; None without a price."""
    return None if price is None else price.nodes * price.usd_per_node_hour / SECONDS_PER_HOUR
