"""Whether the accelerator nodes can be had: zone, quota, Capacity Block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from account.checks.check import Outcome, Situation, failed, passed, skipped, warned
from account.checks.quotas import ACCELERATOR, room
from account.region import Region
from account.terminal import utc_text
from draftworth.experiment.aws import CapacityBlock
from draftworth.records.deployment import BLOCK_MARGIN_SECONDS


def zone_offering(situation: Situation) -> Outcome:
    """The instance type is offered in the experiment's zone."""
    kind, zone = situation.experiment.spec.instance_type, situation.zone
    zones = zones_that_offer(situation.here, kind)
    if zone in zones:
        return passed(f"{kind} is offered in {zone}")
    if zones:
        return failed(
            f"{kind} is not offered in {zone}, but in {', '.join(zones)}",
            f"set aws.availability_zone to {' or '.join(zones)}",
        )
    return failed(
        f"{kind} is offered in no zone of {situation.region}",
        f"choose another region: `python -m draftworth preflight {situation.experiment.path} "
        "--find` looks through all of them",
    )


def zones_that_offer(region: Region, kind: str) -> list[str]:
    """Zones of the region that offer an instance type, in order."""
    offered_in = region.list_all(
        f"list the zones that offer {kind}",
        "ec2",
        "describe_instance_type_offerings",
        "InstanceTypeOfferings[].Location",
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": [kind]}],
    )
    return sorted(offered_in)


def vcpu_quota(situation: Situation) -> Outcome:
    """The quota has room for the planned nodes beside what runs already."""
    quota = ACCELERATOR.get(situation.experiment.spec.aws.capacity.kind)
    if quota is None:
        return passed("a Capacity Block counts against no vCPU quota")
    need = situation.experiment.spec.accelerator.vcpus * situation.nodes
    return room(situation, quota, need)


def capacity_block(situation: Situation) -> Outcome:
    """The Capacity Block is the experiment's: type, zone, count, and a window that fits."""
    capacity = situation.experiment.spec.aws.capacity
    if not isinstance(capacity, CapacityBlock):
        return skipped(f"aws.capacity is {capacity.kind}")
    answer = situation.here.ask(
        f"look at the Capacity Block {capacity.reservation_id}",
        "ec2",
        "describe_capacity_reservations",
        "InvalidCapacityReservationId",
        CapacityReservationIds=[capacity.reservation_id],
    )
    if not answer or not answer["CapacityReservations"]:
        return failed(
            f"there is no reservation {capacity.reservation_id} in {situation.region}",
            "correct aws.capacity.reservation_id, or buy a block: "
            "`aws ec2 describe-capacity-block-offerings` lists what there is",
        )
    block = answer["CapacityReservations"][0]
    mismatches = list(_mismatches(situation, block))
    if mismatches:
        return failed("; ".join(mismatches), "name another block, or change the experiment")
    return _window_outcome(situation, block)


# States of a block that comes or is there. The others (expired, cancelled, failed, payment-failed,
# unsupported) never give an instance any more.
USABLE_STATES = ("scheduled", "active", "payment-pending", "pending", "assessing", "delayed")


def _mismatches(situation: Situation, block: Mapping[str, Any]) -> Iterator[str]:
    """Why this block cannot serve the experiment at all."""
    experiment = situation.experiment
    if block.get("ReservationType") != "capacity-block":
        yield "it is an On-Demand Capacity Reservation, not a Capacity Block"
    if block["State"] not in USABLE_STATES:
        yield f"it is {block['State']}"
    if block["InstanceType"] != experiment.spec.instance_type:
        yield f"it holds {block['InstanceType']}, the plan needs {experiment.spec.instance_type}"
    if block["AvailabilityZone"] != experiment.spec.aws.availability_zone:
        yield (
            f"it is in {block['AvailabilityZone']}, aws.availability_zone is "
            f"{experiment.spec.aws.availability_zone}"
        )
    if block["TotalInstanceCount"] < situation.nodes:
        yield f"it holds {block['TotalInstanceCount']} instances, the plan needs {situation.nodes}"


def _window_outcome(situation: Situation, block: Mapping[str, Any]) -> Outcome:
    """The time between now and the block's end against the deadline, both from a deploy now."""
    start, last = block["StartDate"], block["EndDate"] - timedelta(seconds=BLOCK_MARGIN_SECONDS)
    deadline = situation.now + timedelta(minutes=situation.experiment.spec.aws.deadline_minutes)
    state = f"{block['State']}, {utc_text(start)} to {utc_text(block['EndDate'])}"
    if last <= situation.now:
        return failed(
            f"{state}: nodes may run until {utc_text(last)}, which is past", "buy another"
        )
    if deadline <= start:
        minutes = math.ceil((start - situation.now).total_seconds() / 60)
        return failed(
            f"{state}: a deploy now has its deadline at {utc_text(deadline)}, "
            "before the block starts",
            f"deploy later, or set aws.deadline_minutes to {minutes} and what the run takes",
        )
    usable = (min(deadline, last) - max(situation.now, start)).total_seconds() / 60
    found = f"{state}: {usable:.0f} minutes of nodes for a deploy now"
    return _window_warning(situation, block, found, cut=last < deadline) or passed(found)


def _window_warning(
    situation: Situation, block: Mapping[str, Any], found: str, *, cut: bool
) -> Outcome | None:
    if block["State"] not in ("active", "scheduled"):
        return warned(found, "wait until it is scheduled or active before you deploy")
    free, all_of_it = block["AvailableInstanceCount"], block["TotalInstanceCount"]
    if block["State"] == "active" and free < situation.nodes:
        return warned(
            f"{found}; {free} of {all_of_it} instances are free",
            "end what uses the block, unless it is this experiment's own nodes",
        )
    if cut:
        return warned(
            f"{found}; nodes go 40 minutes before the block ends, earlier than "
            f"aws.deadline_minutes {situation.experiment.spec.aws.deadline_minutes}",
            "make sure that the run fits: `python -m draftworth plan` has the time line",
        )
    return None
