"""Observes AWS: staged models, runs, the Capacity Block, the node group.

What a decision can do without is `Unknown` where AWS fails. The node group is not such a part: its
error (ClientError or BotoCoreError) ends the invocation, and the next one observes again.
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
from lambdas.capacity_controller.observation import (
    CapacityBlock,
    Models,
    NoCapacityBlock,
    NodeGroup,
    Observation,
    Run,
    Unknown,
)
from lambdas.capacity_controller.problems import problems_of
from lambdas.capacity_controller.settings import Settings
from lambdas.s3_document import error_code, read_object

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_DRAINING = "Terminating:Wait"
_GONE = "Terminated"
_NO_BLOCK = {"InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId.Malformed"}

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Clients:
    """boto3 clients, for observing and for acting."""

    s3: S3Client
    eks: Any
    autoscaling: Any
    ec2: Any
    scheduler: Any
    sns: Any


def observe(
    plan: CapacityPlan, clients: Clients, settings: Settings, *, since: float
) -> Observation:
    """AWS as it is now. `since`: launches that failed before this time do not matter any more."""
    s3, results = clients.s3, settings.results_bucket
    return Observation(
        models=_or_unknown(lambda: _models(s3, settings.checkpoints_bucket, plan)),
        run=_or_unknown(lambda: _run(s3, results, plan.job_name)),
        stopped=_or_unknown(lambda: read_object(s3, results, STOP_KEY) is not None),
        block=None if plan.reservation_id is None else _or_unknown(lambda: _block(clients, plan)),
        nodes=node_group(plan, clients, since=since),
    )


def _or_unknown(observe_part: Callable[[], T]) -> T | Unknown:
    try:
        return observe_part()
    except (ClientError, BotoCoreError) as error:
        return Unknown(why=str(error))


def _models(s3: S3Client, bucket: str, plan: CapacityPlan) -> Models:
    found = {model: _ready(s3, bucket, model) for model in plan.models}
    ready = {model: marker for model, marker in found.items() if marker is not None}
    missing = [f"{m.model} at {m.revision}" for m in plan.models if m not in ready]
    if missing:
        return Models(staging="missing", text=", ".join(missing))
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
    data = read_object(s3, bucket, ready_key(model.model, model.revision))
    try:
        return None if data is None else load_record(ReadyModel, data)
    except RecordError:
        return None


def _run(s3: S3Client, bucket: str, job_name: str) -> Run:
    """The first of the Job's runs that is over. It may have several: one for each Job object.

    `run.json` is written last: its presence alone means that the run is over.
    """
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=f"{RUNS_FOLDER}/{job_name}-", Delimiter="/"
    )
    folders = [entry["Prefix"] for page in pages for entry in page.get("CommonPrefixes", [])]
    for folder in folders:
        data = read_object(s3, bucket, f"{folder}{RUN_FILE}")
        if data is None:
            continue
        run_id = folder.split("/")[-2]
        try:
            run = load_record(RunResult, data)
        except RecordError as error:
            text = f"its {RUN_FILE} cannot be read: {error}"
            return Run(state="failed", run_id=run_id, text=text)
        return Run(state=run.status, run_id=run_id, text=run.reason)
    return Run(state="begun" if folders else "none")


def _block(clients: Clients, plan: CapacityPlan) -> CapacityBlock | NoCapacityBlock:
    try:
        found = clients.ec2.describe_capacity_reservations(
            CapacityReservationIds=[plan.reservation_id]
        )["CapacityReservations"]
    except ClientError as error:
        if error_code(error) in _NO_BLOCK:
            why = f"there is no Capacity Block {plan.reservation_id}: {error}"
            return NoCapacityBlock(why=why)
        raise
    if not found:
        return NoCapacityBlock(why=f"there is no Capacity Block {plan.reservation_id}")
    reservation = found[0]
    if "StartDate" not in reservation or "EndDate" not in reservation:
        why = f"{plan.reservation_id} has no start or no end: no Capacity Block"
        return NoCapacityBlock(why=why)
    return CapacityBlock(
        state=reservation["State"],
        starts_at_unix_s=reservation["StartDate"].timestamp(),
        ends_at_unix_s=reservation["EndDate"].timestamp(),
    )


def node_group(plan: CapacityPlan, clients: Clients, *, since: float) -> NodeGroup:
    """The node group and its instances."""
    try:
        group = clients.eks.describe_nodegroup(
            clusterName=plan.cluster_name, nodegroupName=plan.nodegroup_name
        )["nodegroup"]
    except ClientError as error:
        if error_code(error) == "ResourceNotFoundException":
            return NodeGroup(ownership="missing")
        raise
    if not plan.nodegroup_tags.items() <= (group.get("tags") or {}).items():
        return NodeGroup(ownership="foreign")
    desired_size = group["scalingConfig"]["desiredSize"]
    names = [g["name"] for g in group.get("resources", {}).get("autoScalingGroups", [])]
    name = names[0] if names else ""
    instances = _instances(clients, name)
    return NodeGroup(
        ownership="ours",
        desired_size=desired_size,
        instances=sum(i["LifecycleState"] != _GONE for i in instances),
        draining=tuple(i["InstanceId"] for i in instances if i["LifecycleState"] == _DRAINING),
        auto_scaling_group=name,
        problems=problems_of(
            plan,
            issues=group.get("health", {}).get("issues", []),
            activities=_activities(clients, name) if desired_size > len(instances) else [],
            since=since,
        ),
    )


def _instances(clients: Clients, name: str) -> list[dict[str, Any]]:
    if not name:
        return []
    groups = clients.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])
    return [i for g in groups["AutoScalingGroups"] for i in g["Instances"]]


def _activities(clients: Clients, name: str) -> list[dict[str, Any]]:
    """The newest first. They explain missing nodes, and are not worth ending an invocation."""
    try:
        answer = clients.autoscaling.describe_scaling_activities(
            AutoScalingGroupName=name, MaxRecords=10
        )
    except (ClientError, BotoCoreError):
        return []
    return list(answer["Activities"])
