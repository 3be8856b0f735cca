"""Quotas of EC2 in vCPUs: what the account may run of a family, and what runs already."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from account.checks.check import Outcome, Situation, failed, passed, warned
from account.clients import DeniedError, tags_of
from account.region import Region
from draftworth.experiment.naming import EXPERIMENT_TAG


@dataclass(frozen=True, kw_only=True)
class VcpuQuota:
    """A quota by its code and name in Service Quotas; the code is the same in every region.

    types: names of instance types as EC2's filter takes them; family: those of them that count.
    """

    code: str
    name: str
    types: tuple[str, ...]
    family: str
    spot: bool = False

    def __str__(self) -> str:
        return f"{self.name} ({self.code})"


# How accelerator nodes are bought, where that counts against a quota.
ACCELERATOR: Mapping[str, VcpuQuota] = {
    "on_demand": VcpuQuota(
        code="L-2C3B7624", name="Running On-Demand Trn instances", types=("trn*",), family=r"trn"
    ),
    "spot": VcpuQuota(
        code="L-6B0D517C",
        name="All Trn Spot Instance Requests",
        types=("trn*",),
        family=r"trn",
        spot=True,
    ),
}
STANDARD = VcpuQuota(
    code="L-1216C47A",
    name="Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    types=tuple(f"{letter}*" for letter in "acdhimrtz"),
    # Not inf, trn, hpc, dl or mac, which have quotas of their own.
    family=r"([acdhimrtz]|im|is)\d",
)


def room(situation: Situation, quota: VcpuQuota, need: int) -> Outcome:
    """Whether the quota has room for so many vCPUs beside what runs already."""
    limit = limit_vcpus(situation.here, quota)
    if limit < need:
        raise_it = _raise_quota(situation, quota, need)
        return failed(f"{quota}: {limit} vCPU, {need} needed", raise_it)
    try:
        used = _vcpus_in_use(situation, quota)
    except DeniedError as error:
        return warned(
            f"{quota}: {limit} vCPU, {need} needed; what is in use cannot be told: {error.reason}",
            error.next_step,
        )
    found = f"{quota}: {limit} vCPU, {used} in use, {need} needed"
    if limit - used < need:
        return failed(found, f"end what uses it, or {_raise_quota(situation, quota, need + used)}")
    return passed(found)


def limit_vcpus(region: Region, quota: VcpuQuota) -> int:
    """The account's value; AWS's default where the account has none of its own."""
    doing, service = f"read the quota {quota.name!r}", "service-quotas"
    missing, asked = "NoSuchResourceException", {"ServiceCode": "ec2", "QuotaCode": quota.code}
    answer = region.ask(doing, service, "get_service_quota", missing, **asked)
    answer = answer or region.ask(doing, service, "get_aws_default_service_quota", **asked)
    return int(answer["Quota"]["Value"])


def _raise_quota(situation: Situation, quota: VcpuQuota, vcpus: int) -> str:
    return (
        f"aws service-quotas request-service-quota-increase --region {situation.region} "
        f"--service-code ec2 --quota-code {quota.code} --desired-value {vcpus} "
        "(takes hours to days)"
    )


def _vcpus_in_use(situation: Situation, quota: VcpuQuota) -> int:
    """vCPUs of instances that count against the quota, without this experiment's own."""
    filters = [
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
        {"Name": "instance-type", "Values": list(quota.types)},
    ]
    instances = situation.here.list_all(
        "list running instances",
        "ec2",
        "describe_instances",
        "Reservations[].Instances[]",
        Filters=filters,
    )
    vcpus, lifecycle = 0, "spot" if quota.spot else None
    for instance in instances:
        others = tags_of(instance).get(EXPERIMENT_TAG) != situation.experiment.name
        counts = re.match(quota.family, instance["InstanceType"])
        if others and counts and instance.get("InstanceLifecycle") == lifecycle:
            options = instance.get("CpuOptions", {})
            vcpus += options.get("CoreCount", 0) * options.get("ThreadsPerCore", 1)
    return vcpus
