"""A Capacity Block as it is billed: whole and in advance, whatever a run makes of it.

What is sold (Amazon EC2 User Guide, Capacity Blocks for ML): whole days, 1 to 14, then 7 days more
at a time up to 182; what is left of a running day is sold too. 1, 2, 4, 8 ... 64 instances. A block
ends at 11:30 UTC.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from draftworth.experiment.aws import CapacityBlock
from draftworth.planning.bounds import Bounds
from draftworth.planning.phases import Schedule
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.timeline import Forecast
from draftworth.records.deployment import BLOCK_MARGIN_SECONDS

SHORTEST_HOURS = 24


@dataclass(frozen=True, kw_only=True)
class PaidBlock:
    """The block that an experiment's nodes run in.

    hours: it was bought for; the shortest that is sold where the file does not say.
    instances: in it, at least; `nodes` of them are used.
    """

    hours: float
    instances: int
    nodes: int
    usd_per_instance_hour: float

    @classmethod
    def of(cls, experiment: ResolvedNeuron, capacity: CapacityBlock) -> PaidBlock:
        """The smallest block that holds the nodes, for the hours that the file gives."""
        nodes = experiment.placement.nodes
        return cls(
            hours=capacity.hours or SHORTEST_HOURS,
            instances=1 << (nodes - 1).bit_length(),
            nodes=nodes,
            usd_per_instance_hour=experiment.node_price.usd_per_hour,
        )

    @property
    def usd(self) -> float:
        """What it costs, paid in advance."""
        return self.hours * self.instances * self.usd_per_instance_hour

    @property
    def usable_minutes(self) -> float:
        """From its start until EKS releases the nodes."""
        return self.hours * 60 - BLOCK_MARGIN_SECONDS / 60

    def idle_share(self, minutes: Bounds) -> Bounds:
        """The part of what was paid that nodes of so many minutes each leave unused, 0 to 1."""
        paid = self.hours * 60 * self.instances
        best, worst = (
            max(0.0, 1 - used * self.nodes / paid) for used in (minutes.best, minutes.worst)
        )
        return Bounds(best, worst)

    def further_runs(self, first: Forecast, second: Forecast) -> Bounds:
        """Whole runs on compiled graphs that fit after the first, one deploy after the other."""
        each = second.unlimited.bounds(_until_released)
        left = first.needed_minutes
        best, worst = (
            math.floor(max(0.0, self.usable_minutes - used) / long)
            for used, long in ((left.best, each.best), (left.worst, each.worst))
        )
        return Bounds(best, worst)


def free_slots(experiment: ResolvedNeuron, instances: int) -> int:
    """Variants that would find a slot beside those there are, on as many nodes."""
    return instances * experiment.placement.slots_a_node - experiment.placement.held


def _until_released(schedule: Schedule) -> float:
    return max(span.end for span in schedule.spans.values())
