"""What a run cost beyond the tokens that it measured: waiting, interruptions and idle time, apart.

The cost of a million output tokens (`verdict`) is that of serving: what a server costs that is up
and busy. A run pays for more, and says so here, from its own account of time.
"""

from __future__ import annotations

from dataclasses import dataclass

from draftworth.analysis.verdict import SECONDS_PER_HOUR
from draftworth.records.results import RunResult


@dataclass(frozen=True, kw_only=True)
class RunCosts:
    """US dollars for all nodes of the placement, by what the time went into.

    From the run's first start to its end: the nodes come before it and go after it.
    """

    nodes: int
    usd_per_node_hour: float
    measuring_usd: float
    waiting_usd: float
    lost_usd: float
    idle_usd: float

    @property
    def total_usd(self) -> float:
        """All of it."""
        return self.measuring_usd + self.waiting_usd + self.lost_usd + self.idle_usd


def run_costs(run: RunResult) -> RunCosts | None:
    """Seconds x nodes x price; None for a run that rented nothing."""
    price = run.price
    if price is None:
        return None
    usd_per_second = price.nodes * price.usd_per_node_hour / SECONDS_PER_HOUR
    time = run.time
    return RunCosts(
        nodes=price.nodes,
        usd_per_node_hour=price.usd_per_node_hour,
        measuring_usd=time.measuring_s * usd_per_second,
        waiting_usd=time.waiting_s * usd_per_second,
        lost_usd=time.lost_s * usd_per_second,
        idle_usd=time.idle_s * usd_per_second,
    )
