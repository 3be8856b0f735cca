"""A Capacity Block as it is billed: whole and in advance, however much of it a run uses.

Amazon sells (EC2 User Guide, Capacity Blocks for ML) whole days, 1 to 14, then in steps of 7 days
up to 182, and the rest of the running day; and 1, 2, 4, 8 ... 64 instances. A block ends at 11:30
UTC.
"""

from __future__ import annotations

from dataclasses import dataclass

from draftworth.experiment.aws import CapacityBlock
from draftworth.planning.assumptions import Bounds
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.timeline import RunForecast
from draftworth.records.deployment import BLOCK_MARGIN_SECONDS

SHORTEST_HOURS = 24


@dataclass(frozen=True, kw_only=True)
class PaidBlock:
    """The block that an experiment's nodes run in.

    hours: its length; a day, the shortest, if the file leaves it out.
    instances: the smallest number that is sold and holds the `nodes`.
    """

    hours: float
    instances: int
    nodes: int
    usd_per_instance_hour: float

    @classmethod
    def of(cls, experiment: ResolvedNeuron, capacity: CapacityBlock) -> PaidBlock:
        nodes = experiment.placement.nodes
        return cls(
            hours=capacity.hours or SHORTEST_HOURS,
            instances=1 << (nodes - 1).bit_length(),
            nodes=nodes,
            usd_per_instance_hour=experiment.node_price.usd_per_hour,
        )

    @property
    def usd(self) -> float:
        return self.hours * self.instances * self.usd_per_instance_hour

    @property
    def usable_minutes(self) -> float:
        """Minutes from its start until EKS releases the nodes."""
        return self.hours * 60 - BLOCK_MARGIN_SECONDS / 60

    def idle_share(self, minutes: Bounds) -> Bounds:
        """Return the unused part of the block, 0 to 1, if each node runs for these minutes."""
        used = minutes.times(self.nodes / (self.hours * 60 * self.instances))
        return Bounds(max(0.0, 1 - used.best), max(0.0, 1 - used.worst))

    def further_runs(self, first: RunForecast, second: RunForecast) -> Bounds:
        """Count the whole runs on compiled graphs that fit after the first."""
        used, each = first.needed_minutes, second.unlimited.bounds(lambda run: run.end)
        left = Bounds(self.usable_minutes - used.best, self.usable_minutes - used.worst)
        return Bounds(max(0, left.best // each.best), max(0, left.worst // each.worst))


def free_slots(experiment: ResolvedNeuron, instances: int) -> int:
    """Count the free slots on so many nodes."""
    return instances * experiment.placement.slots_a_node - experiment.placement.held
