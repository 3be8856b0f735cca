"""Who asks, and whether the region is open to them."""

from __future__ import annotations

import boto3
from botocore.exceptions import UnknownRegionError

from account.checks.check import Outcome, Situation, failed, passed
from account.clients import explained

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
