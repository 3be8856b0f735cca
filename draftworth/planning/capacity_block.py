"""The cost and the usable time of a Capacity Block, which is paid whole and in advance.

Amazon sells blocks of 1 to 14 days, or of up to 182 days in steps of 7, plus the rest of the
current day, with 1, 2, 4, 8, ... 64 instances. A block ends at 11:30 UTC. (EC2 User Guide, Capacity
Blocks for ML.)
"""

from __future__ import annotations

from dataclasses import dataclass

from draftworth.planning.assumptions import Bounds
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.timeline import RunForecast
from draftworth.records.deployment import BLOCK_MARGIN_SECONDS

SHORTEST_HOURS = 24


@dataclass(frozen=True, kw_only=True)
class PaidBlock:
    """The Capacity Block in which an experiment's nodes run.

    hours: the block's length; 24, the shortest length, if the experiment file leaves it out.
    nodes: the accelerator nodes that the experiment needs.
    instances: the instances of the block: the least number on sale that is not below `nodes`.
    """

    hours: float
    instances: int
    nodes: int
    usd_per_instance_hour: float

    @classmethod
    def of(cls, experiment: ResolvedNeuron) -> PaidBlock | None:
        """Return an experiment's block; None if its price is unknown or no block is used."""
        capacity, nodes = experiment.spec.aws.capacity, experiment.placement.nodes
        if not capacity.is_block or experiment.spec.aws.price is None:
            return None
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
        """Minutes from the start of the block until EKS begins to remove its nodes."""
        return self.hours * 60 - BLOCK_MARGIN_SECONDS / 60

    def idle_share(self, minutes: Bounds) -> Bounds:
        """Return the share of the paid time, 0 to 1, that is unused if each node runs `minutes`."""
        used = minutes.times(self.nodes / (self.hours * 60 * self.instances))
        return Bounds(max(0.0, 1 - used.best), max(0.0, 1 - used.worst))

    def further_runs(self, first: RunForecast, second: RunForecast) -> Bounds:
        """Return how many complete runs like `second` fit into the block after the run `first`."""
        used, each = first.needed_minutes, second.unlimited.bounds(lambda run: run.end)
        left = Bounds(self.usable_minutes - used.best, self.usable_minutes - used.worst)
        return Bounds(max(0, left.best // each.best), max(0, left.worst // each.worst))


def free_slots(experiment: ResolvedNeuron, instances: int) -> int:
    """Return how many more servers would have room on the devices of `instances` nodes."""
    return instances * experiment.placement.slots_per_node - experiment.placement.held
