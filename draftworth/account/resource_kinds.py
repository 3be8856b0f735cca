"""Kinds of AWS resources that an experiment leaves: how each is listed, recognised and priced."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any

from draftworth.account.checks.capacity_checks import USABLE_STATES
from draftworth.account.clients import listed, tags_of, tags_of_bucket
from draftworth.account.delete_assets import is_asset_bucket, stored_versions
from draftworth.account.printing import GIB, size_text, utc_text
from draftworth.account.scope import Scope, of_stack
from draftworth.experiment import naming, strict_model
from draftworth.planning.assumptions import HOURS_PER_MONTH, assumption_data

# One entry of a listing, as AWS returns it.
Entry = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """A resource of the experiment that still exists.

    usd_per_month: None if the price is not known.
    kept: the reason why it stays on purpose; empty for what should be gone.
    remove: the command that removes it, or what to wait for.
    """

    kind: str
    id: str
    remove: str
    name: str = ""
    created: datetime | None = None
    usd_per_month: float | None = 0.0
    kept: str = ""


class Kind(strict_model.StrictModel):
    """One kind of resource: how its resources are listed, recognised, priced and removed.

    Texts may have placeholders: `{project}`, `{assets}`, `{cluster}` and `{dashboard}` (`Names`);
    in `id`, `name` and `remove` also `{aws}` (`aws SERVICE --region REGION`) and the keys of the
    entry, which is one resource as AWS lists it. If AWS lists a string, such as an ARN, the entry
    has the keys `Ref` (the string) and `Name` (the string after its last colon or slash).

    lists: the service, boto3's name of the listing, and the JMESPath of the entries in its answer.
    asks: the arguments of the listing, one mapping per call. filters: names in `FILTERS` of EC2
        filters, one per call, instead of `asks`.
    ours: name in `OURS` of the function that recognises the experiment's entries.
    tags: the operation that reads a resource's tags (for `Scope.owns`), its argument, and the
        entry's key with the argument's value. Without `ours` and `tags` every listed resource
        counts as the experiment's.
    id, name: what is printed of a resource; if `name` is empty, its tag `Name` is printed.
    remove: the command that removes a resource, or what to wait for.
    created: the entry's key with the time of creation.
    usd: the name of a price in `assumptions.yaml`.
    amount: the entry's key with the number by which the price is multiplied.
    amend: name in `AMEND` of the function that completes each `Leftover` of this kind.
    covers: the ARN type (`service:type`) of this kind. It need not be looked up in AWS's index of
        tags, which still lists deleted resources for a while.
    """

    kind: str
    lists: tuple[str, str, str]
    remove: str
    asks: tuple[dict[str, str], ...] = ({},)
    filters: tuple[str, ...] = ()
    ours: str = ""
    tags: tuple[str, str, str] | None = None
    id: str = "{Name}"
    name: str = ""
    created: str = ""
    usd: str = ""
    amount: str = ""
    amend: str = ""
    covers: str = ""

    @property
    def looks_at(self) -> str:
        return f"{self.kind}es" if self.kind.endswith("s") else f"{self.kind}s"


@cache
def kinds() -> Sequence[Kind]:
    """Return every kind of resource in `resource_kinds.yaml`."""
    table = files("draftworth.account").joinpath("resource_kinds.yaml")
    return strict_model.read_yaml(list[Kind], table.read_text(encoding="utf-8"))


def monthly_usd(what: str, *, amount: float = 1) -> float | None:
    """Return US dollars per month for `amount` resources or GiB; None if no price is known.

    what: a name in `prices` of `assumptions.yaml`.
    """
    price = assumption_data().prices.get(what)
    return price.usd_per_month * amount if price else None


# A bucket with more versions of objects than this is reported without a size.
MOST_VERSIONS = 20_000
# Names of prices in `assumptions.yaml` by storage class; all others have the price of S3 Standard.
_PRICES = {"STANDARD_IA": "bucket_infrequent_gib"}
LAMBDA_KEEPS = "wait: Lambda gives it back by itself, up to some tens of minutes after its function"
# CloudFormation may cut a stack's name where it generates a resource's name from it, but keeps at
# least this many characters.
_MIN_CUT_LENGTH = 20
_FUNCTION_LOGS = "/aws/lambda/"

# The names and values of EC2's `Filters`, by the name that `Kind.filters` uses for them.
FILTERS: Mapping[str, Callable[[Scope], Mapping[str, Sequence[str]]]] = {
    "tagged": lambda scope: {f"tag:{naming.EXPERIMENT_TAG}": [scope.experiment.name]},
    "of cluster": lambda scope: {"tag-key": [f"kubernetes.io/cluster/{scope.names.cluster}"]},
    "of node groups": lambda scope: {"tag:eks:cluster-name": [scope.names.cluster]},
    # Everything in the experiment's VPCs is the experiment's, tagged or not.
    "in network": lambda scope: {"vpc-id": scope.vpc_ids},
    "tag entry": lambda scope: {"key": [naming.EXPERIMENT_TAG], "value": [scope.experiment.name]},
}


def _is_tagged(scope: Scope, entry: Entry) -> bool:
    return tags_of(entry).get(naming.EXPERIMENT_TAG) == scope.experiment.name


def _schedule_is_ours(scope: Scope, entry: Entry) -> bool:
    """Return whether an EventBridge schedule is the experiment's.

    A schedule in the group `default`, which all experiments share, is recognised by its own name;
    any other schedule by the tag or the name of its schedule group.
    """
    name, group = entry["Name"], entry["GroupName"]
    if group == "default":
        return of_stack(scope.names.stack, name)
    arn = entry["Arn"].rsplit("/", 1)[0].replace(":schedule/", ":schedule-group/")
    read_tags = scope.client("scheduler").list_tags_for_resource
    return scope.owns(group, lambda: tags_of(read_tags(ResourceArn=arn)))


def _reservation_is_ours(scope: Scope, entry: Entry) -> bool:
    """Return whether a capacity reservation is the experiment's and has not ended.

    It is the experiment's if it has the experiment's tag, or if the experiment file names it.
    """
    named = scope.experiment.spec.aws.capacity.reservation_id
    is_ours = _is_tagged(scope, entry) or entry["CapacityReservationId"] == named
    return is_ours and entry["State"] in USABLE_STATES


def _log_group_is_ours(scope: Scope, entry: Entry) -> bool:
    """Return whether a log group is the experiment's, which only its name can show.

    AWS services create log groups without tags. The name has the name of the cluster, or, if it is
    the log group of a Lambda function, the name of the stack, of which the end may be cut off.
    """
    name = entry["logGroupName"]
    if not name.startswith(_FUNCTION_LOGS):
        return f"/{scope.names.cluster}/" in name
    function = name.removeprefix(_FUNCTION_LOGS)
    stack = scope.names.stack
    cut = (stack[:length] for length in range(_MIN_CUT_LENGTH, len(stack)))
    return any(of_stack(name, function) for name in (stack, *cut))


def _has_our_assets(scope: Scope, entry: Entry) -> bool:
    if not is_asset_bucket(entry["Name"], scope.region):
        return False
    return any(stored_versions(scope.client("s3"), entry["Name"], scope.names.assets))


def _assets(scope: Scope, entry: Entry, leftover: Leftover) -> Leftover:
    versions = list(stored_versions(scope.client("s3"), entry["Name"], scope.names.assets))
    gib = sum(version.get("Size", 0) for version in versions) / GIB
    files = len({version["Key"] for version in versions})
    return replace(
        leftover,
        name=f"prompts and functions: {files} files, {len(versions)} versions",
        created=min(version["LastModified"] for version in versions),
        usd_per_month=monthly_usd("bucket_gib", amount=gib),
    )


def _instance_usd(scope: Scope, entry: Entry) -> float | None:
    price = scope.experiment.spec.aws.price
    if price is not None and entry["InstanceType"] == scope.experiment.spec.instance_type:
        return price.usd_per_hour * HOURS_PER_MONTH
    return monthly_usd(entry["InstanceType"])


def _reservation(scope: Scope, entry: Entry, leftover: Leftover) -> Leftover:
    if entry.get("ReservationType") == "capacity-block":
        end = entry.get("EndDate")
        until = f", ends {utc_text(end)}" if end else ""
        return replace(leftover, kept=f"bought and paid in advance{until}; cannot be cancelled")
    usd = _instance_usd(scope, entry)
    return replace(
        leftover, usd_per_month=None if usd is None else usd * entry["TotalInstanceCount"]
    )


def _interface(_: Scope, entry: Entry, leftover: Leftover) -> Leftover:
    description = entry.get("Description", "")
    held = description.startswith("AWS Lambda VPC ENI") and entry["Status"] == "in-use"
    name = f"{entry['Status']}, {description}".rstrip(", ")
    return replace(leftover, name=name, remove=LAMBDA_KEEPS if held else leftover.remove)


def _bucket(scope: Scope, entry: Entry, leftover: Leftover) -> Leftover:
    """Return `leftover`, completed with the bucket's size, its cost, and why it is kept.

    entry: the bucket as S3 lists it. The size is the sum over a listing of its objects in all their
    versions, because S3's own metric is a day late.
    """
    name = entry["Name"]
    leftover = replace(leftover, kept=_why_kept(scope, name))
    every_version = listed(scope.client("s3"), "list_object_versions", "Versions", Bucket=name)
    versions = list(islice(every_version, MOST_VERSIONS + 1))
    if len(versions) > MOST_VERSIONS:
        return replace(leftover, name="more objects than are counted", usd_per_month=None)
    sizes = Counter[str]()
    for version in versions:
        sizes[_PRICES.get(version.get("StorageClass", ""), "bucket_gib")] += version["Size"]
    usd = sum(monthly_usd(price, amount=size / GIB) or 0.0 for price, size in sizes.items())
    return replace(leftover, name=size_text(sizes.total()), usd_per_month=usd)


def _why_kept(scope: Scope, name: str) -> str:
    """Return why a bucket stays on purpose; empty if it should be gone."""
    s3, aws = scope.client("s3"), scope.experiment.spec.aws
    holds = tags_of_bucket(s3, name).get(naming.HOLDS_TAG)
    if name == aws.checkpoints_bucket:
        return "aws.checkpoints_bucket names it"
    if holds == naming.CHECKPOINTS and aws.keep_checkpoints:
        return "aws.keep_checkpoints is true"
    if holds != naming.RESULTS or not aws.keep_results:
        return ""
    runs = s3.list_objects_v2(Bucket=name, Prefix=naming.RUNS_PREFIX, MaxKeys=1)
    if "Contents" in runs:
        return f"aws.keep_results is true; its runs: draftworth report s3://{name}"
    return "aws.keep_results is true; it holds no run: of no use once its stack is gone"


def _log_group(_: Scope, entry: Entry, leftover: Leftover) -> Leftover:
    gib = entry.get("storedBytes", 0) / GIB
    created = datetime.fromtimestamp(entry["creationTime"] / 1000, tz=UTC)
    usd = monthly_usd("log_gib", amount=gib)
    return replace(leftover, name=f"{gib:.2f} GiB", created=created, usd_per_month=usd)


OURS: Mapping[str, Callable[[Scope, Entry], bool]] = {
    "stack": lambda scope, entry: (
        _is_tagged(scope, entry) or entry["StackName"] == scope.names.stack
    ),
    "assets": _has_our_assets,
    "schedule": _schedule_is_ours,
    "reservation": _reservation_is_ours,
    # Classic load balancers have `VPCId`, other resources `VpcId`.
    "in network": lambda scope, entry: (entry.get("VpcId") or entry.get("VPCId")) in scope.vpc_ids,
    "log group": _log_group_is_ours,
}
AMEND: Mapping[str, Callable[[Scope, Entry, Leftover], Leftover]] = {
    "instance": lambda scope, entry, leftover: replace(
        leftover,
        kind=f"{leftover.kind} {entry['InstanceType']}",
        usd_per_month=_instance_usd(scope, entry),
    ),
    "reservation": _reservation,
    "interface": _interface,
    "assets": _assets,
    "bucket": _bucket,
    "log group": _log_group,
}
