"""What a check is given and what it answers; who asks, and whether the region is open to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import boto3
from botocore.exceptions import UnknownRegionError

from draftworth.account.clients import explained
from draftworth.account.scope import Scope


@dataclass(frozen=True)
class Outcome:
    """The answer of one check: how it is, what was found, what to do about it.

    warn: a deploy may work; the user should know before it. fail: a deploy or the run would fail,
    or cost money for nothing. paste: keys below `aws` that the experiment may
    take over as they are.
    """

    status: Literal["pass", "warn", "fail", "skip"]
    found: str
    next_step: str = ""
    paste: Mapping[str, Any] = field(default_factory=dict)


passed, warned = partial(Outcome, "pass"), partial(Outcome, "warn")
failed, skipped = partial(Outcome, "fail"), partial(Outcome, "skip")

# Runs a program: exit code and output of both streams, or None when there is no such program.
Runner = Callable[[tuple[str, ...]], tuple[int, str] | None]


@dataclass(frozen=True, kw_only=True)
class Situation(Scope):
    """All that checks look at: the experiment, the account, this machine, the time."""

    run: Runner
    root: Path
    container_engine: str = "docker"

    @property
    def zone(self) -> str:
        """Where all nodes are."""
        return self.experiment.spec.aws.availability_zone

    @property
    def nodes(self) -> int:
        """Accelerator nodes of the plan."""
        return self.experiment.placement.nodes


@dataclass(frozen=True, kw_only=True)
class Check:
    """A check by its name in the table. `asks_aws`: it is skipped when AWS cannot be asked."""

    name: str
    run: Callable[[Situation], Outcome]
    asks_aws: bool = True


# Where a partition's accounts can always be asked: a region that is not enabled for an account
# takes its credentials for invalid, which would look like a missing login.
HOME_REGIONS = {"aws": "us-east-1", "aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1"}
OPEN = ("opt-in-not-required", "opted-in")


def home_region(region: str) -> str:
    """The region to ask about the account itself; AwsError for a profile that does not exist."""
    with explained("read the AWS configuration", region=region):
        session = boto3.Session()
    try:
        partition = session.get_partition_for_region(region)
    except UnknownRegionError:
        return HOME_REGIONS["aws"]
    return HOME_REGIONS.get(partition, region)


def credentials(situation: Situation) -> Outcome:
    """AWS takes the credentials that boto3 finds."""
    home = home_region(situation.region)
    with explained("ask who you are"):
        identity = situation.clients("sts", home).get_caller_identity()
    return passed(f"account {identity['Account']} as {identity['Arn']}")


def region_enabled(situation: Situation) -> Outcome:
    """The region exists and the account has it switched on."""
    home, region = home_region(situation.region), situation.region
    with explained("list the account's regions"):
        regions = situation.clients("ec2", home).describe_regions(AllRegions=True)["Regions"]
    states = {entry["RegionName"]: entry.get("OptInStatus", "") for entry in regions}
    if region not in states:
        return failed(f"{region} is no region of this account", "correct aws.region")
    if states[region] not in OPEN:
        return failed(
            f"{region} is {states[region]} for this account",
            f"aws account enable-region --region-name {region}, and wait some minutes",
        )
    return passed(f"{region} is enabled")
