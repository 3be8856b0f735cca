"""Checks that the accelerator nodes can be started: zone, quota and Capacity Block."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from draftworth.account.checks.check import CheckResult, Situation, failed, passed, skipped, warned
from draftworth.account.clients import DeniedError, Region, tags_of
from draftworth.account.printing import utc_text
from draftworth.experiment import naming
from draftworth.records.deployment import BLOCK_MARGIN_SECONDS


@dataclass(frozen=True, kw_only=True)
class VcpuQuota:
    """A quota of Service Quotas: vCPUs of all instance types that match the pattern `family`.

    code, name: the quota's code and name in Service Quotas.
    spot: whether Spot Instances count against it; if not, On-Demand Instances do.
    """

    code: str
    name: str
    family: str
    spot: bool = False

    def __str__(self) -> str:
        return f"{self.name} ({self.code})"


# The quotas of accelerator nodes, by the kind of capacity; a Capacity Block counts against none.
ACCELERATOR: Mapping[str, VcpuQuota] = {
    "on_demand": VcpuQuota(
        code="L-2C3B7624", name="Running On-Demand Trn instances", family=r"trn"
    ),
    "spot": VcpuQuota(
        code="L-6B0D517C", name="All Trn Spot Instance Requests", family=r"trn", spot=True
    ),
}
STANDARD = VcpuQuota(
    code="L-1216C47A",
    name="Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    # The pattern leaves out inf, trn, hpc, dl and mac, which have their own quotas.
    family=r"([acdhimrtz]|im|is)\d",
)


def room(situation: Situation, quota: VcpuQuota, need: int) -> CheckResult:
    """Check that the quota allows `need` vCPUs in addition to those in use.

    If it is too small, the check fails; if the vCPUs in use cannot be counted, it warns.
    """
    limit = limit_vcpus(situation.here, quota)
    if limit < need:
        raise_it = _raise_quota(situation, quota, need)
        return failed(f"{quota}: {limit} vCPU, {need} needed", raise_it)
    try:
        used = _vcpus_in_use(situation, quota)
    except DeniedError as error:
        return warned(
            f"{quota}: {limit} vCPU, {need} needed; how many are in use is unknown: {error.reason}",
            error.next_step,
        )
    usage = f"{quota}: {limit} vCPU, {used} in use, {need} needed"
    if limit - used < need:
        return failed(usage, f"end what uses it, or {_raise_quota(situation, quota, need + used)}")
    return passed(usage)


def limit_vcpus(region: Region, quota: VcpuQuota) -> int:
    """Return the quota in vCPUs: the account's value, or AWS's default if the account has none."""
    doing, service = f"read the quota {quota.name!r}", "service-quotas"
    missing, arguments = "NoSuchResourceException", {"ServiceCode": "ec2", "QuotaCode": quota.code}
    answer = region.ask(doing, service, "get_service_quota", missing, **arguments)
    answer = answer or region.ask(doing, service, "get_aws_default_service_quota", **arguments)
    return int(answer["Quota"]["Value"])


def _raise_quota(situation: Situation, quota: VcpuQuota, vcpus: int) -> str:
    return (
        f"aws service-quotas request-service-quota-increase --region {situation.region} "
        f"--service-code ec2 --quota-code {quota.code} --desired-value {vcpus} "
        "(takes hours to days)"
    )


def _vcpus_in_use(situation: Situation, quota: VcpuQuota) -> int:
    """Return how many vCPUs count against the quota, without those of this experiment's nodes."""
    instances = situation.here.list_all(
        "list running instances",
        "ec2",
        "describe_instances",
        "Reservations[].Instances[]",
        Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}],
    )
    vcpus, lifecycle = 0, "spot" if quota.spot else None
    for instance in instances:
        is_foreign = tags_of(instance).get(naming.EXPERIMENT_TAG) != situation.experiment.name
        counts = re.match(quota.family, instance["InstanceType"])
        if is_foreign and counts and instance.get("InstanceLifecycle") == lifecycle:
            options = instance.get("CpuOptions", {})
            vcpus += options.get("CoreCount", 0) * options.get("ThreadsPerCore", 1)
    return vcpus


def zone_offering(situation: Situation) -> CheckResult:
    """Check that the instance type is offered in the experiment's zone."""
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
        f"choose another region: `draftworth preflight {situation.experiment.path} "
        "--find` looks through all of them",
    )


def zones_that_offer(region: Region, kind: str) -> list[str]:
    """Return the zones of the region that offer the instance type `kind`, sorted by name."""
    offered_in = region.list_all(
        f"list the zones that offer {kind}",
        "ec2",
        "describe_instance_type_offerings",
        "InstanceTypeOfferings[].Location",
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": [kind]}],
    )
    return sorted(offered_in)


def vcpu_quota(situation: Situation) -> CheckResult:
    """Check that the quota allows the planned nodes in addition to the running instances.

    On hold no node starts, so a quota that is too small is a warning. AWS may take days to raise
    it; what other checks of accelerators ask for is a line of the file, and fails on hold too.
    """
    aws = situation.experiment.spec.aws
    quota = ACCELERATOR.get(aws.capacity.kind)
    if quota is None:
        return passed("a Capacity Block counts against no vCPU quota")
    result = room(situation, quota, situation.experiment.spec.accelerator.vcpus * situation.nodes)
    if aws.hold and result.status == "fail":
        return warned(
            f"{result.observation}, but not on hold",
            f"before you deploy without aws.hold: {result.next_step}",
        )
    return result


def capacity_block(situation: Situation) -> CheckResult:
    """Check that the Capacity Block that the experiment names exists and fits the experiment.

    Compared are its state, instance type, zone, number of instances, and start and end. The check
    is skipped if the experiment names no block.
    """
    capacity = situation.experiment.spec.aws.capacity
    if capacity.reservation_id is None:
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
    return _window_result(situation, block)


# A Capacity Block in one of these states gives instances now or later. The other states are
# expired, cancelled, failed, payment-failed and unsupported.
USABLE_STATES = ("scheduled", "active", "payment-pending", "pending", "assessing", "delayed")


def _mismatches(situation: Situation, block: Mapping[str, Any]) -> Iterator[str]:
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


def _window_result(situation: Situation, block: Mapping[str, Any]) -> CheckResult:
    start, last = block["StartDate"], block["EndDate"] - timedelta(seconds=BLOCK_MARGIN_SECONDS)
    deadline = situation.now + timedelta(minutes=situation.experiment.spec.aws.deadline_minutes)
    state = f"{block['State']}, {utc_text(start)} to {utc_text(block['EndDate'])}"
    if last <= situation.now:
        return failed(
            f"{state}: nodes may run until {utc_text(last)}, which is past", "buy another block"
        )
    if deadline <= start:
        minutes = math.ceil((start - situation.now).total_seconds() / 60)
        return failed(
            f"{state}: a deploy now has its deadline at {utc_text(deadline)}, "
            "before the block starts",
            f"deploy later, or set aws.deadline_minutes to {minutes} and what the run takes",
        )
    usable = (min(deadline, last) - max(situation.now, start)).total_seconds() / 60
    window = f"{state}: {usable:.0f} minutes of nodes for a deploy now"
    if block["State"] not in ("active", "scheduled"):
        return warned(window, "wait until it is scheduled or active before you deploy")
    free, all_of_it = block["AvailableInstanceCount"], block["TotalInstanceCount"]
    if block["State"] == "active" and free < situation.nodes:
        return warned(
            f"{window}; {free} of {all_of_it} instances are free",
            "end what uses the block, unless it is this experiment's own nodes",
        )
    if last < deadline:
        return warned(
            f"{window}; nodes go 40 minutes before the block ends, earlier than "
            f"aws.deadline_minutes {situation.experiment.spec.aws.deadline_minutes}",
            "make sure that the run fits: `draftworth plan` has the time line",
        )
    return passed(window)
