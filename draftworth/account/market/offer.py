"""What the plan needs, and what is offered for it: one type for each way of buying."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, ClassVar

import yaml

from draftworth.account.printing import utc_text
from draftworth.planning.assumptions import Bounds
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.timeline import forecast
from draftworth.records.deployment import BLOCK_MARGIN_SECONDS, CapacityKind


def yaml_lines(below_aws: Mapping[str, Any]) -> Iterator[str]:
    """The keys below `aws:` as lines of an experiment file."""
    text = yaml.safe_dump({"aws": dict(below_aws)}, sort_keys=False, width=1000)
    yield from text.splitlines()


def merged(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Several such mappings as one; a key of two that are mappings holds both."""
    whole: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            both = isinstance(value, Mapping) and isinstance(whole.get(key), Mapping)
            whole[key] = merged([whole[key], value]) if both else value
    return whole


@dataclass(frozen=True, kw_only=True)
class Need:
    """So many nodes of a type, for so many minutes each by the time line of a first run."""

    instance_type: str
    vcpus: int
    nodes: int
    minutes: Bounds

    @classmethod
    def of(cls, experiment: ResolvedNeuron) -> Need:
        """What the plan needs where neither deadline nor budget ends it."""
        return cls(
            instance_type=experiment.spec.instance_type,
            vcpus=experiment.spec.accelerator.vcpus * experiment.placement.nodes,
            nodes=experiment.placement.nodes,
            minutes=forecast(experiment).needed_minutes,
        )

    @property
    def hours(self) -> Bounds:
        """Of each node."""
        return self.minutes.times(1 / 60)


@dataclass(frozen=True, kw_only=True)
class Offer(ABC):
    """Nodes in a zone at a price.

    hindrance: why it cannot be bought or used now; empty where nothing is known to be in the way.
    """

    kind: ClassVar[CapacityKind]
    need: Need
    region: str
    zone: str
    usd_per_node_hour: float
    as_of: date
    source: str
    hindrance: str = ""

    @property
    def usd(self) -> Bounds:
        """What the plan would cost with it: here what its node hours cost."""
        return self.need.hours.times(self.need.nodes * self.usd_per_node_hour)

    @property
    @abstractmethod
    def when(self) -> str:
        """From when to when."""

    @property
    @abstractmethod
    def use(self) -> str:
        """What of the paid time the plan would use."""

    @property
    def capacity(self) -> Mapping[str, Any]:
        """`aws.capacity` of an experiment that takes it."""
        return {"kind": self.kind}

    @property
    def paste(self) -> Mapping[str, Any]:
        """Keys below `aws` of an experiment that takes it."""
        price = {
            "usd_per_hour": round(self.usd_per_node_hour, 4),
            "as_of": self.as_of,
            "source": self.source,
        }
        return {
            "region": self.region,
            "availability_zone": self.zone,
            "capacity": dict(self.capacity),
            "price": price,
        }


@dataclass(frozen=True, kw_only=True)
class WhileItRuns(Offer):
    """Paid while nodes run, if there are any: no price says whether there are."""

    when = "when there are nodes"
    use = "all of it"


@dataclass(frozen=True, kw_only=True)
class OnDemandOffer(WhileItRuns):
    """Nodes at the public price."""

    kind = "on_demand"


@dataclass(frozen=True, kw_only=True)
class SpotOffer(WhileItRuns):
    """Nodes at the Spot price, which may be taken back."""

    kind = "spot"


@dataclass(frozen=True, kw_only=True)
class BlockOffer(Offer):
    """A Capacity Block: paid whole and in advance."""

    kind = "capacity_block"
    offering_id: str
    start: datetime
    end: datetime
    fee_usd: float

    @property
    def usd(self) -> Bounds:
        """The fee, however much of the block is used."""
        return Bounds(self.fee_usd, self.fee_usd)

    @property
    def when(self) -> str:
        """The block's window."""
        return f"{utc_text(self.start)} to {utc_text(self.end)}"

    @property
    def hours(self) -> float:
        """Paid. From the dates: the offering's own number leaves out its odd minutes."""
        return (self.end - self.start).total_seconds() / 3600

    @property
    def usable_hours(self) -> float:
        """Hours until the nodes go, before the block's end."""
        return self.hours - BLOCK_MARGIN_SECONDS / 3600

    @property
    def use(self) -> str:
        """The plan's hours of the block's, and what is left for other runs."""
        usable, need = self.usable_hours, self.need.hours
        used = Bounds(min(need.best, usable), min(need.worst, usable))
        left = Bounds(usable - used.worst, usable - used.best)
        cut = ", cut by its end in the worst case" if need.worst > usable else ""
        free = f"{left:.1f} h free for more runs"
        return f"{used:.1f} of {self.hours:.1f} h{cut}; {free}"

    @property
    def capacity(self) -> Mapping[str, Any]:
        """The id comes with the purchase."""
        return {"kind": self.kind, "reservation_id": "cr-...", "hours": round(self.hours, 2)}
