"""What stores: buckets, log groups, queues."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from botocore.exceptions import ClientError

from account.prices import GIB, monthly_usd
from account.remains.scope import (
    Finder,
    Remnant,
    Scope,
    Tags,
    from_millis,
    of_stack,
    pages,
    tag_list,
)
from draftworth.experiment.naming import PROJECT, STACK_PARTS

# Counting stops there: a bucket with more objects is reported without a size.
MOST_OBJECTS = 20_000
_CHECKPOINTS = "-checkpoints"
# CloudFormation cuts a stack's name inside a generated one, but not below this many characters.
_LEAST_OF_A_CUT_NAME = 20
_FUNCTION_LOGS = "/aws/lambda/"


def buckets(scope: Scope) -> Iterator[Remnant]:
    """Buckets of the experiment's stacks, also one that outlived its stack."""
    s3 = scope.client("s3")
    for bucket in s3.list_buckets()["Buckets"]:
        name = bucket["Name"]
        if scope.ours(name, lambda bucket: _bucket_tags(s3, bucket), name):
            gib = _bucket_gib(s3, name)
            yield Remnant(
                kind="bucket",
                id=name,
                name="more objects than are counted" if gib is None else f"{gib:.1f} GiB",
                created=bucket.get("CreationDate"),
                usd_per_month=None if gib is None else monthly_usd("bucket_gib", amount=gib),
                kept=_bucket_kept(scope, name),
                remove=scope.command(f"s3 rb --force s3://{name}"),
            )


def _bucket_tags(s3: Any, name: str) -> Tags:
    try:
        return tag_list(s3.get_bucket_tagging(Bucket=name)["TagSet"])
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in ("NoSuchTagSet", "NoSuchBucket"):
            return {}
        raise


def _bucket_gib(s3: Any, name: str) -> float | None:
    """Size now, where S3's own metric would be a day late; None above MOST_OBJECTS."""
    objects = pages(s3, "list_objects_v2", "Contents", Bucket=name)
    sizes = [entry["Size"] for entry in islice(objects, MOST_OBJECTS + 1)]
    return None if len(sizes) > MOST_OBJECTS else sum(sizes) / GIB


def _bucket_kept(scope: Scope, name: str) -> str:
    """CloudFormation's names hold the logical id, here of the one bucket that may be kept."""
    if scope.experiment.spec.aws.keep_checkpoints and _CHECKPOINTS in name:
        return "aws.keep_checkpoints is true"
    return ""


def log_groups(scope: Scope) -> Iterator[Remnant]:
    """Log groups under the cluster's names, those of the stacks, and those of functions."""
    logs, cluster = scope.client("logs"), scope.names.cluster
    by_cluster = [
        f"/aws/eks/{cluster}/",
        f"/aws/containerinsights/{cluster}/",
        f"/aws/otel/containerinsights/{cluster}/",
    ]
    for prefix in by_cluster:
        for group in _groups(scope, prefix):
            yield _log_group(scope, group)
    for group in _groups(scope, f"{PROJECT}-"):
        if scope.ours(group["logGroupName"], lambda arn: _log_tags(logs, arn), group["arn"]):
            yield _log_group(scope, group)
    for group in _groups(scope, f"{_FUNCTION_LOGS}{PROJECT}-"):
        if _of_function(scope, group["logGroupName"].removeprefix(_FUNCTION_LOGS)):
            yield _log_group(scope, group)


def _groups(scope: Scope, prefix: str) -> Iterator[dict[str, Any]]:
    return pages(
        scope.client("logs"), "describe_log_groups", "logGroups", logGroupNamePrefix=prefix
    )


def _log_tags(logs: Any, arn: str) -> Tags:
    tags: Tags = logs.list_tags_for_resource(resourceArn=arn.removesuffix(":*"))["tags"]
    return tags


def _of_function(scope: Scope, name: str) -> bool:
    """A group that Lambda made has no tags: its name is all there is, and may be cut."""
    stacks = [scope.names.stack(part) for part in STACK_PARTS]
    cut = {s[:n] for s in stacks for n in range(_LEAST_OF_A_CUT_NAME, len(s))}
    return of_stack(scope.names, name) or any(name.startswith(f"{start}-") for start in cut)


def _log_group(scope: Scope, group: dict[str, Any]) -> Remnant:
    name, gib = group["logGroupName"], group.get("storedBytes", 0) / GIB
    return Remnant(
        kind="log group",
        id=name,
        name=f"{gib:.2f} GiB",
        created=from_millis(group.get("creationTime")),
        usd_per_month=monthly_usd("log_gib", amount=gib),
        remove=scope.command(f"logs delete-log-group --log-group-name {name}"),
    )


def queues(scope: Scope) -> Iterator[Remnant]:
    """Queues of the experiment's stacks."""
    sqs = scope.client("sqs")
    for url in pages(sqs, "list_queues", "QueueUrls", QueueNamePrefix=f"{PROJECT}-"):
        name = url.rsplit("/", 1)[-1]
        if scope.ours(name, lambda queue: sqs.list_queue_tags(QueueUrl=queue).get("Tags", {}), url):
            yield Remnant(
                kind="queue",
                id=name,
                remove=scope.command(f"sqs delete-queue --queue-url {url}"),
            )


FINDERS = (
    Finder(looks_at="buckets", find=buckets, covers=("s3",)),
    Finder(looks_at="log groups", find=log_groups, covers=("logs:log-group",)),
    Finder(looks_at="queues", find=queues, covers=("sqs",)),
)
