"""What tokens cost, and apart from it where a run's time and money went.

The cost of a million output tokens is that of serving: what a server costs that is up and busy. A
run pays for more: waiting, interruptions and idle time, from its own account of time.
"""

from __future__ import annotations

from dataclasses import dataclass

from draftworth.metrics.cost import nodes_usd_per_second
from draftworth.records.results import RunResult


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
