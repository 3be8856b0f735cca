"""Whether the accelerator nodes can be had: zone, quota, Capacity Block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from account.checks.check import Outcome, Situation, failed, passed, skipped, warned
from account.clients import DeniedError, tags_of
from account.terminal import utc_text
from draftworth.experiment.aws import CapacityBlock
from draftworth.experiment.naming import EXPERIMENT_TAG
from draftworth.records.capacity import BLOCK_MARGIN_SECONDS

# Quotas of EC2 in vCPUs, code and name (Service Quotas; the code is the same in every region).
QUOTAS: Mapping[str, tuple[str, str]] = {
    "on_demand": ("L-2C3B7624", "Running On-Demand Trn instances"),
    "spot": ("L-6B0D517C", "All Trn Spot Instance Requests"),
}


def zone_offering(situation: Situation) -> Outcome:
    """The instance type is offered in the experiment's zone."""
    spec = situation.experiment.spec
    kind, zone = spec.instance_type, spec.aws.availability_zone
    offered_in = situation.list_all(
        f"list the zones that offer {kind}",
        "ec2",
        "describe_instance_type_offerings",
        "InstanceTypeOfferings[].Location",
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": [kind]}],
    )
    zones = sorted(offered_in)
    if zone in zones:
        return passed(f"{kind} is offered in {zone}")
    if zones:
        return failed(
            f"{kind} is not offered in {zone}, but in {', '.join(zones)}",
            f"set aws.availability_zone to {' or '.join(zones)}",
        )
    return failed(
        f"{kind} is offered in no zone of {situation.region}",
        "choose another region: `aws ec2 describe-instance-type-offerings --location-type "
        f"availability-zone --filters Name=instance-type,Values={kind} --region REGION` tells",
    )


def vcpu_quota(situation: Situation) -> Outcome:
    """The quota has room for the planned nodes beside what runs already."""
    kind = situation.experiment.spec.aws.capacity.kind
    if kind not in QUOTAS:
        return passed("a Capacity Block counts against no vCPU quota")
    code, name = QUOTAS[kind]
    need = situation.experiment.spec.accelerator.vcpus * situation.nodes
    limit = _quota_vcpus(situation, code, name)
    if limit < need:
        raise_it = _raise_quota(situation, code, need)
        return failed(f"{name} ({code}): {limit} vCPU, {need} needed", raise_it)
    try:
        used = _vcpus_in_use(situation, spot=kind == "spot")
    except DeniedError as error:
        return warned(
            f"{name} ({code}): {limit} vCPU, {need} needed; what is in use cannot be told: "
            f"{error.reason}",
            error.next_step,
        )
    found = f"{name} ({code}): {limit} vCPU, {used} in use, {need} needed"
    if limit - used < need:
        return failed(found, f"end what uses it, or {_raise_quota(situation, code, need + used)}")
    return passed(found)


def _quota_vcpus(situation: Situation, code: str, name: str) -> int:
    """The account's value; AWS's default where the account has none of its own."""
    doing, asked = f"read the quota {name!r}", {"ServiceCode": "ec2", "QuotaCode": code}
    service, missing = "service-quotas", "NoSuchResourceException"
    answer = situation.ask(doing, service, "get_service_quota", missing, **asked)
    answer = answer or situation.ask(doing, service, "get_aws_default_service_quota", **asked)
    return int(answer["Quota"]["Value"])


def _raise_quota(situation: Situation, code: str, vcpus: int) -> str:
    return (
        f"aws service-quotas request-service-quota-increase --region {situation.region} "
        f"--service-code ec2 --quota-code {code} --desired-value {vcpus} "
        "(takes hours to days)"
    )


def _vcpus_in_use(situation: Situation, *, spot: bool) -> int:
    """vCPUs of instances that count against the quota, without this experiment's own."""
    filters = [
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
        {"Name": "instance-type", "Values": ["trn*"]},
    ]
    instances = situation.list_all(
        "list running Trn instances",
        "ec2",
        "describe_instances",
        "Reservations[].Instances[]",
        Filters=filters,
    )
    vcpus = 0
    for instance in instances:
        others = tags_of(instance).get(EXPERIMENT_TAG) != situation.experiment.name
        if others and instance.get("InstanceLifecycle") == ("spot" if spot else None):
            options = instance.get("CpuOptions", {})
            vcpus += options.get("CoreCount", 0) * options.get("ThreadsPerCore", 1)
    return vcpus


def capacity_block(situation: Situation) -> Outcome:
    """The Capacity Block is the experiment's: type, zone, count, and a window that fits."""
    capacity = situation.experiment.spec.aws.capacity
    if not isinstance(capacity, CapacityBlock):
        return skipped(f"aws.capacity is {capacity.kind}")
    answer = situation.ask(
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
            "make sure that the run fits: `draftworth plan` has the time line",
        )
    return None
