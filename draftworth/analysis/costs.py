"""What tokens cost, and apart from it where a run's time and money went.

The cost of a million output tokens is that of serving: what a server costs that is up and busy. A
run pays for more: waiting, interruptions and idle time, from its own account of time.
"""

from __future__ import annotations

from dataclasses import dataclass

from draftworth.records.results import Price, RunResult

SECONDS_PER_HOUR = 3600.0


def usd_per_million_tokens(
    price: Price | None, variant: str, throughput_token_per_s: float | None
) -> float | None:
    """US dollars for a million output tokens of a slot that decodes at this throughput."""
    usd_per_second = slot_usd_per_second(price, variant)
    if usd_per_second is None or not throughput_token_per_s:
        return None
    return usd_per_second / throughput_token_per_s * 1e6


def slot_usd_per_second(price: Price | None, variant: str) -> float | None:
    """US dollars a second of a variant's part of a node; None where it has no price."""
    share = price.node_shares.get(variant) if price else None
    if price is None or share is None:
        return None
    return price.usd_per_node_hour * share / SECONDS_PER_HOUR


def nodes_usd_per_second(price: Price | None) -> float | None:
    """US dollars a second of all nodes; None without a price."""
    return None if price is None else price.nodes * price.usd_per_node_hour / SECONDS_PER_HOUR


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a run's time, and what all nodes cost meanwhile; None without a price."""

    name: str
    seconds: float
    usd: float | None


def run_parts(run: RunResult) -> tuple[Part, ...]:
    """What a run's time went into, from its first start to its end; together all of it.

    The minutes that nodes are up before the first start and after the end are not in it.
    """
    usd_per_second = nodes_usd_per_second(run.price)
    return tuple(
        Part(
            name=name.removesuffix("_s"),
            seconds=seconds,
            usd=None if usd_per_second is None else seconds * usd_per_second,
        )
        for name, seconds in vars(run.time).items()
    )


def total(parts: tuple[Part, ...]) -> Part:
    """The sum of all parts."""
    paid = [part.usd for part in parts if part.usd is not None]
    return Part(
        name="total", seconds=sum(part.seconds for part in parts), usd=sum(paid) if paid else None
    )
