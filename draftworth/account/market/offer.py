"""The nodes that the plan needs, and the offers for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import yaml

from draftworth.account.printing import utc_text
from draftworth.planning.assumptions import Bounds
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.timeline import forecast
from draftworth.records.deployment import BLOCK_MARGIN_SECONDS, CapacityKind


def yaml_lines(below_aws: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of `aws` as lines of an experiment file."""
    text = yaml.safe_dump({"aws": dict(below_aws)}, sort_keys=False, width=1000)
    yield from text.splitlines()


def merged(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge several mappings into one, nested mappings too."""
    whole: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            both = isinstance(value, Mapping) and isinstance(whole.get(key), Mapping)
            whole[key] = merged([whole[key], value]) if both else value
    return whole


@dataclass(frozen=True, kw_only=True)
class Need:
    """The nodes that the plan needs, and for how many minutes by a first run's time line."""

    instance_type: str
    vcpus: int
    nodes: int
    minutes: Bounds

    @classmethod
    def of(cls, experiment: ResolvedNeuron) -> Need:
        """Return what the plan needs if neither deadline nor budget ends it."""
        return cls(
            instance_type=experiment.spec.instance_type,
            vcpus=experiment.spec.accelerator.vcpus * experiment.placement.nodes,
            nodes=experiment.placement.nodes,
            minutes=forecast(experiment).needed_minutes,
        )

    @property
    def hours(self) -> Bounds:
        return self.minutes.times(1 / 60)


@dataclass(frozen=True, kw_only=True)
class Offer:
    """Nodes in a zone at a price by the hour, if EC2 has any: no price says so.

    hindrance: why it cannot be bought or used now; empty if no reason is known.
    """

    kind: CapacityKind
    need: Need
    region: str
    zone: str
    usd_per_node_hour: float
    as_of: date
    source: str
    hindrance: str = ""

    @property
    def usd(self) -> Bounds:
        """What the plan costs with this offer."""
        return self.need.hours.times(self.need.nodes * self.usd_per_node_hour)

    @property
    def when(self) -> str:
        return "when there are nodes"

    @property
    def use(self) -> str:
        """The part of the paid time that the plan uses."""
        return "all of it"

    @property
    def purchase(self) -> Sequence[str]:
        """Lines that say how to buy it; empty if a deploy does."""
        return ()

    @property
    def capacity(self) -> Mapping[str, Any]:
        return {"kind": self.kind}

    @property
    def paste(self) -> Mapping[str, Any]:
        """Keys for `aws` of an experiment that takes this offer."""
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
class BlockOffer(Offer):
    """A Capacity Block, which is paid in full in advance."""

    kind: CapacityKind = "capacity_block"
    offering_id: str
    start: datetime
    end: datetime
    fee_usd: float

    @property
    def usd(self) -> Bounds:
        return Bounds(self.fee_usd, self.fee_usd)

    @property
    def when(self) -> str:
        return f"{utc_text(self.start)} to {utc_text(self.end)}"

    @property
    def hours(self) -> float:
        """The paid hours, by the dates: the offering's own number leaves out odd minutes."""
        return (self.end - self.start).total_seconds() / 3600

    @property
    def usable_hours(self) -> float:
        """Hours until the nodes go, before the block's end."""
        return self.hours - BLOCK_MARGIN_SECONDS / 3600

    @property
    def use(self) -> str:
        usable, need = self.usable_hours, self.need.hours
        used = Bounds(min(need.best, usable), min(need.worst, usable))
        left = Bounds(usable - used.worst, usable - used.best)
        cut = ", cut by its end in the worst case" if need.worst > usable else ""
        free = f"{left:.1f} h free for more runs"
        return f"{used:.1f} of {self.hours:.1f} h{cut}; {free}"

    @property
    def purchase(self) -> Sequence[str]:
        command = (
            f"  aws ec2 purchase-capacity-block --region {self.region} --instance-platform "
            f"Linux/UNIX --capacity-block-offering-id {self.offering_id}"
        )
        return (
            "Buying takes the whole price at once and cannot be undone; then put in its id:",
            command,
        )

    @property
    def capacity(self) -> Mapping[str, Any]:
        return {"kind": self.kind, "reservation_id": "cr-...", "hours": round(self.hours, 2)}
