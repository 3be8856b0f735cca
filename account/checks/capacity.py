"""Whether the accelerator nodes can be had: zone, quota, Capacity Block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from account.checks.check import Outcome, Situation, failed, passed, skipped, warned
from account.clients import DeniedError, tags_of
from draftworth.experiment.aws import CapacityBlock
from draftworth.experiment.naming import EXPERIMENT_TAG
from draftworth.records.capacity import BLOCK_MARGIN_SECONDS

_FAMILY = "trn"


@dataclass(frozen=True, kw_only=True)
class Quota:
    """A quota of EC2, in vCPUs (Service Quotas; the code is the same in every region)."""

    code: str
    name: str
    spot: bool


QUOTAS: Mapping[str, Quota] = {
    "on_demand": Quota(code="L-2C3B7624", name="Running On-Demand Trn instances", spot=False),
    "spot": Quota(code="L-6B0D517C", name="All Trn Spot Instance Requests", spot=True),
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
    quota = QUOTAS.get(situation.experiment.spec.aws.capacity.kind)
    if quota is None:
        return passed("a Capacity Block counts against no vCPU quota")
    need = situation.experiment.spec.accelerator.vcpus * situation.nodes
    limit = _quota_vcpus(situation, quota)
    raise_it = _raise_quota(situation, quota, need)
    if limit < need:
        return failed(f"{quota.name} ({quota.code}): {limit} vCPU, {need} needed", raise_it)
    try:
        used = _vcpus_in_use(situation, spot=quota.spot)
    except DeniedError as error:
        return warned(
            f"{quota.name} ({quota.code}): {limit} vCPU, {need} needed; what is in use cannot be "
            f"told: {error.reason}",
            error.next_step,
        )
    found = f"{quota.name} ({quota.code}): {limit} vCPU, {used} in use, {need} needed"
    if limit - used < need:
        raise_it = _raise_quota(situation, quota, need + used)
        return failed(found, f"end what uses it, or {raise_it}")
    return passed(found)


def _quota_vcpus(situation: Situation, quota: Quota) -> int:
    """The account's value; AWS's default where the account has none of its own."""
    doing, asked = f"read the quota {quota.name!r}", {"ServiceCode": "ec2", "QuotaCode": quota.code}
    service, missing = "service-quotas", "NoSuchResourceException"
    answer = situation.ask(doing, service, "get_service_quota", missing, **asked)
    answer = answer or situation.ask(doing, service, "get_aws_default_service_quota", **asked)
    return int(answer["Quota"]["Value"])


def _raise_quota(situation: Situation, quota: Quota, vcpus: int) -> str:
    return (
        f"aws service-quotas request-service-quota-increase --region {situation.region} "
        f"--service-code ec2 --quota-code {quota.code} --desired-value {vcpus} "
        "(takes hours to days)"
    )


def _vcpus_in_use(situation: Situation, *, spot: bool) -> int:
    """vCPUs of instances that count against the quota, without this experiment's own."""
    filters = [
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
        {"Name": "instance-type", "Values": [f"{_FAMILY}*"]},
    ]
    instances = situation.list_all(
        "list running Trn instances",
        "ec2",
        "describe_instances",
        "Reservations[].Instances[]",
        Filters=filters,
    )
    lifecycle = "spot" if spot else None
    return sum(
        _vcpus(instance)
        for instance in instances
        if instance.get("InstanceLifecycle") == lifecycle
        and tags_of(instance).get(EXPERIMENT_TAG) != situation.experiment.name
    )


def _vcpus(instance: Mapping[str, Any]) -> int:
    options = instance.get("CpuOptions", {})
    return int(options.get("CoreCount", 0)) * int(options.get("ThreadsPerCore", 1))


def capacity_block(situation: Situation) -> Outcome:
    """The Capacity Block is the experiment's: type, zone, count, and a window that fits."""
    capacity = situation.experiment.spec.aws.capacity
    if not isinstance(capacity, CapacityBlock):
        return skipped(f"aws.capacity is {capacity.kind}")
    block = _describe_block(situation, capacity.reservation_id)
    if block is None:
        return failed(
            f"there is no reservation {capacity.reservation_id} in {situation.region}",
            "correct aws.capacity.reservation_id, or buy a block: "
            "`aws ec2 describe-capacity-block-offerings` lists what there is",
        )
    mismatches = list(_mismatches(situation, block))
    if mismatches:
        return failed("; ".join(mismatches), "name another block, or change the experiment")
    return _window_outcome(situation, block)


def _describe_block(situation: Situation, reservation_id: str) -> Mapping[str, Any] | None:
    answer = situation.ask(
        f"look at the Capacity Block {reservation_id}",
        "ec2",
        "describe_capacity_reservations",
        "InvalidCapacityReservationId",
        CapacityReservationIds=[reservation_id],
    )
    return next(iter(answer["CapacityReservations"]), None) if answer else None


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
    state = f"{block['State']}, {_utc(start)} to {_utc(block['EndDate'])}"
    if last <= situation.now:
        return failed(f"{state}: nodes may run until {_utc(last)}, which is past", "buy another")
    if deadline <= start:
        minutes = math.ceil((start - situation.now).total_seconds() / 60)
        return failed(
            f"{state}: a deploy now has its deadline at {_utc(deadline)}, before the block starts",
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


def _utc(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
