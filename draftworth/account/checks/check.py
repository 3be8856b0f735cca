"""The input and the result of a check, and the two checks that all others depend on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import boto3
from botocore.exceptions import UnknownRegionError

from draftworth.account.clients import Clients, Region, explained
from draftworth.account.scope import Scope


@dataclass(frozen=True)
class CheckResult:
    """The result of one check: its status, what it observed, and what to do about it.

    status: `fail`: the deploy or the run would fail or waste money; `warn`: a person should look.
    paste: keys and values that can be copied unchanged into `aws` of the experiment file.
    """

    status: Literal["pass", "warn", "fail", "skip"]
    observation: str
    next_step: str = ""
    paste: Mapping[str, Any] = field(default_factory=dict)


passed, warned = partial(CheckResult, "pass"), partial(CheckResult, "warn")
failed, skipped = partial(CheckResult, "fail"), partial(CheckResult, "skip")

# Runs a program; returns its exit code and its standard output with the standard error after it,
# or None if there is no such program.
Runner = Callable[[tuple[str, ...]], tuple[int, str] | None]


@dataclass(frozen=True, kw_only=True)
class Situation(Scope):
    """The input of all checks: the experiment, the account, the time and this machine.

    root: the root folder of the repository on this machine.
    """

    run: Runner
    root: Path
    container_engine: str = "docker"

    @property
    def zone(self) -> str:
        return self.experiment.spec.aws.availability_zone

    @property
    def nodes(self) -> int:
        return self.experiment.placement.nodes


@dataclass(frozen=True, kw_only=True)
class Check:
    """A check and its name.

    asks_aws: whether it calls AWS; if so, it is skipped when the check of the credentials or of the
        region has failed.
    """

    name: str
    run: Callable[[Situation], CheckResult]
    asks_aws: bool = True


# By partition, a region that is enabled for every account. A region that is not enabled answers
# that the credentials are invalid, which would look like a missing login.
HOME_REGIONS = {"aws": "us-east-1", "aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1"}
OPEN = ("opt-in-not-required", "opted-in")


def home_region(region: str, clients: Clients) -> Region:
    """Return a region that is always enabled, in the partition (such as `aws-cn`) of `region`.

    Raises AwsError if this machine's AWS configuration cannot be read.
    """
    with explained("read the AWS configuration", region=region):
        session = boto3.Session()
    try:
        partition = session.get_partition_for_region(region)
    except UnknownRegionError:
        partition = "aws"
    name = HOME_REGIONS.get(partition, region)
    return Region(name=name, clients=clients, answers_for_all=True)


def identity(scope: Scope) -> Mapping[str, str]:
    """Return `Account` and `Arn` of boto3's credentials; raise AwsError if AWS refuses them."""
    home = home_region(scope.region, scope.clients)
    answer: Mapping[str, str] = home.ask("ask who you are", "sts", "get_caller_identity")
    return answer


def region_states(region: str, clients: Clients) -> dict[str, str]:
    """Return EC2's opt-in status of each region of the partition; raise AwsError if EC2 refuses."""
    home, doing = home_region(region, clients), "list the account's regions"
    regions = home.list_all(doing, "ec2", "describe_regions", "Regions", AllRegions=True)
    return {entry["RegionName"]: entry.get("OptInStatus", "") for entry in regions}


def stacks(scope: Scope) -> list[Mapping[str, Any]]:
    """Return all stacks of the region, of any experiment or none; raise AwsError if AWS refuses."""
    return scope.here.list_all("list the stacks", "cloudformation", "describe_stacks", "Stacks")


def credentials(situation: Situation) -> CheckResult:
    """Check that AWS accepts the credentials that boto3 finds."""
    account = identity(situation)
    return passed(f"account {account['Account']} as {account['Arn']}")


def region_enabled(situation: Situation) -> CheckResult:
    """Check that the region exists and is enabled for the account."""
    region = situation.region
    states = region_states(region, situation.clients)
    if region not in states:
        return failed(f"{region} is no region of this account", "correct aws.region")
    if states[region] not in OPEN:
        return failed(
            f"{region} is {states[region]} for this account",
            f"aws account enable-region --region-name {region}, and wait some minutes",
        )
    return passed(f"{region} is enabled")
