"""Looks at AWS: staged models, runs, the Capacity Block, the node group.

What can stand in a decision as "not known" is caught here and said so; what a decision cannot do
without, the node group, is not: its error ends the invocation, and the next one looks again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from draftworth.records.capacity import STOP_KEY, CapacityPlan, ModelRef
from draftworth.records.codec import RecordError, load_record
from draftworth.records.results import RUN_FILE, RUNS_FOLDER, RunResult
from draftworth.records.staging import ReadyModel, ready_key, tokenizer_mismatch
from lambdas.capacity_controller.problems import problems_of
from lambdas.capacity_controller.settings import Settings
from lambdas.capacity_controller.store import error_code
from lambdas.capacity_controller.world import (
    Block,
    Models,
    NoBlock,
    NodeGroup,
    Ownership,
    Run,
    Unknown,
    World,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

LEAVING = "Terminating:Wait"
_GONE = "Terminated"
_NOT_FOUND = {"NoSuchKey", "404"}
_NO_BLOCK = {"InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId.Malformed"}

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Clients:
    """boto3 clients, for looking and for acting."""

    s3: S3Client
    eks: Any
    autoscaling: Any
    ec2: Any
    scheduler: Any
    sns: Any


def look(plan: CapacityPlan, clients: Clients, settings: Settings, *, since: float) -> World:
    """The world as it is. `since`: problems from before this time are of the past.

    Raises:
        ClientError, BotoCoreError: the node group could not be read.
    """
    s3 = clients.s3
    return World(
        models=_or_unknown(lambda: _models(s3, settings.checkpoints_bucket, plan)),
        run=_or_unknown(lambda: _run(s3, settings.results_bucket, plan.job_name)),
        stopped=_or_unknown(lambda: _get(s3, settings.results_bucket, STOP_KEY) is not None),
        block=None if plan.reservation_id is None else _or_unknown(lambda: _block(clients, plan)),
        nodes=node_group(plan, clients, since=since),
    )


def _or_unknown(find_out: Callable[[], T]) -> T | Unknown:
    try:
        return find_out()
    except (ClientError, BotoCoreError) as error:
        return Unknown(why=str(error))


def _get(s3: S3Client, bucket: str, key: str) -> bytes | None:
    try:
        return s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    except ClientError as error:
        if error_code(error) in _NOT_FOUND:
            return None
        raise


def _models(s3: S3Client, bucket: str, plan: CapacityPlan) -> Models:
    found = {model: _ready(s3, bucket, model) for model in plan.models}
    missing = [f"{m.model} at {m.revision}" for m, ready in found.items() if ready is None]
    if missing:
        return Models(staging="missing", text=", ".join(missing))
    ready = {model: value for model, value in found.items() if value is not None}
    for draft in plan.drafts:
        mismatch = tokenizer_mismatch(
            ready[plan.target],
            ready[draft.checkpoint],
            draft_may_lack_tokenizer=draft.vocabulary == "own_or_none",
        )
        if mismatch:
            return Models(staging="mismatch", text=mismatch)
    return Models(staging="ready")


def _ready(s3: S3Client, bucket: str, model: ModelRef) -> ReadyModel | None:
    """A marker that cannot be read is none: a half-written one must not start anything."""
    data = _get(s3, bucket, ready_key(model.model, model.revision))
    try:
        return None if data is None else load_record(ReadyModel, data)
    except RecordError:
        return None


def _run(s3: S3Client, bucket: str, job_name: str) -> Run:
    """The first of the Job's runs that is over. It may have several: one for each Job object."""
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=f"{RUNS_FOLDER}/{job_name}-", Delimiter="/"
    )
    folders = [entry["Prefix"] for page in pages for entry in page.get("CommonPrefixes", [])]
    for folder in folders:
        data = _get(s3, bucket, f"{folder}{RUN_FILE}")
        if data is not None:
            return _over(folder.rstrip("/").rpartition("/")[2], data)
    return Run(state="begun" if folders else "none")


def _over(run_id: str, data: bytes) -> Run:
    """`run.json` is written last: its presence alone means that the run is over."""
    try:
        run = load_record(RunResult, data)
    except RecordError as error:
        return Run(state="failed", run_id=run_id, text=f"its {RUN_FILE} cannot be read: {error}")
    return Run(state=run.status, run_id=run_id, text=run.reason)


def _block(clients: Clients, plan: CapacityPlan) -> Block | NoBlock:
    try:
        answer = clients.ec2.describe_capacity_reservations(
            CapacityReservationIds=[plan.reservation_id]
        )
    except ClientError as error:
        if error_code(error) in _NO_BLOCK:
            return NoBlock(why=f"there is no Capacity Block {plan.reservation_id}: {error}")
        raise
    found = answer["CapacityReservations"]
    if not found:
        return NoBlock(why=f"there is no Capacity Block {plan.reservation_id}")
    reservation = found[0]
    if "StartDate" not in reservation or "EndDate" not in reservation:
        return NoBlock(why=f"{plan.reservation_id} has no start or no end: no Capacity Block")
    return Block(
        state=reservation["State"],
        starts_at_unix_s=reservation["StartDate"].timestamp(),
        ends_at_unix_s=reservation["EndDate"].timestamp(),
    )


def node_group(plan: CapacityPlan, clients: Clients, *, since: float) -> NodeGroup:
    """The node group and its instances.

    Raises:
        ClientError, BotoCoreError: it could not be read.
    """
    try:
        group = clients.eks.describe_nodegroup(
            clusterName=plan.cluster_name, nodegroupName=plan.nodegroup_name
        )["nodegroup"]
    except ClientError as error:
        if error_code(error) == "ResourceNotFoundException":
            return NodeGroup(ownership="missing")
        raise
    if _ownership(plan, group.get("tags") or {}) == "foreign":
        return NodeGroup(ownership="foreign")
    return _own_group(plan, clients, group, since)


def _ownership(plan: CapacityPlan, tags: dict[str, str]) -> Ownership:
    return "ours" if plan.nodegroup_tags.items() <= tags.items() else "foreign"


def _own_group(
    plan: CapacityPlan, clients: Clients, group: dict[str, Any], since: float
) -> NodeGroup:
    desired = group["scalingConfig"]["desiredSize"]
    names = [g["name"] for g in group.get("resources", {}).get("autoScalingGroups", [])]
    name = names[0] if names else ""
    instances = _instances(clients, name)
    states = [instance["LifecycleState"] for instance in instances]
    activities = _activities(clients, name) if desired > len(instances) else []
    return NodeGroup(
        ownership="ours",
        desired=desired,
        existing=sum(state != _GONE for state in states),
        leaving=tuple(i["InstanceId"] for i in instances if i["LifecycleState"] == LEAVING),
        auto_scaling_group=name,
        problems=problems_of(
            plan,
            issues=group.get("health", {}).get("issues", []),
            activities=activities,
            since=since,
        ),
    )


def _instances(clients: Clients, name: str) -> list[dict[str, Any]]:
    if not name:
        return []
    groups = clients.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])
    found: list[dict[str, Any]] = [i for g in groups["AutoScalingGroups"] for i in g["Instances"]]
    return found


def _activities(clients: Clients, name: str) -> list[dict[str, Any]]:
    """The newest first. They explain a lack of nodes, and are not worth an invocation."""
    try:
        answer = clients.autoscaling.describe_scaling_activities(
            AutoScalingGroupName=name, MaxRecords=10
        )
    except (ClientError, BotoCoreError):
        return []
    found: list[dict[str, Any]] = answer["Activities"]
    return found
