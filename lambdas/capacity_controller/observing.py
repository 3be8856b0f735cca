"""Observes AWS: staged models, canaries, servers, runs, the Capacity Block, the node group.

What a decision can do without is `Unknown` where it cannot be read, whatever the reason: other
programs write those objects, and none of them may end the function that limits what is spent. The
node group is not such a part: without knowing whose it is nothing can be done. Its error ends the
invocation, and the next one observes again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import ClientError

from draftworth.records.deployment import STOP_KEY, CapacityPlan
from draftworth.untrusted import one_line
from lambdas.capacity_controller.objects import canaries_of, models_of, run_of, servers_of
from lambdas.capacity_controller.observation import (
    CapacityBlock,
    NoCapacityBlock,
    NodeGroup,
    Observation,
    Unknown,
)
from lambdas.capacity_controller.problems import problems_of
from lambdas.capacity_controller.settings import Settings
from lambdas.capacity_controller.state import Deployment
from lambdas.s3_document import error_code, read_object

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_NOT_LOOKED_AT = Unknown(why="not looked at: a limit is reached")
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
    deployment: Deployment, clients: Clients, settings: Settings, *, since: float
) -> Observation:
    """AWS as it is now. `since`: launches that failed before this time do not matter any more."""
    plan, deployed = deployment.plan, deployment.deployed_at_unix_s
    s3, results = clients.s3, settings.results_bucket
    checkpoints = settings.checkpoints_bucket
    return Observation(
        models=_or_unknown(lambda: models_of(s3, checkpoints, plan, since=deployed)),
        canaries=_or_unknown(lambda: canaries_of(s3, results, plan, since=deployed)),
        servers=_or_unknown(lambda: servers_of(s3, results, plan.servers, since=deployed)),
        run=_or_unknown(lambda: run_of(s3, results, plan.job_name)),
        stopped=_or_unknown(lambda: read_object(s3, results, STOP_KEY) is not None),
        block=None if plan.reservation_id is None else _or_unknown(lambda: _block(clients, plan)),
        nodes=node_group(plan, clients, since=since),
    )


def observe_nodes(plan: CapacityPlan, clients: Clients, *, since: float) -> Observation:
    """The node group alone: enough where a limit is reached, whatever the rest would say."""
    return Observation(
        models=_NOT_LOOKED_AT,
        canaries=_NOT_LOOKED_AT,
        servers=_NOT_LOOKED_AT,
        run=_NOT_LOOKED_AT,
        stopped=_NOT_LOOKED_AT,
        block=None if plan.reservation_id is None else _NOT_LOOKED_AT,
        nodes=node_group(plan, clients, since=since),
    )


def _or_unknown(observe_part: Callable[[], T]) -> T | Unknown:
    try:
        return observe_part()
    except Exception as error:  # noqa: BLE001 - nothing that others wrote ends the function
        return Unknown(why=one_line(str(error) or type(error).__name__))


def _or_else(default: T, observe_part: Callable[[], T]) -> T:
    found = _or_unknown(observe_part)
    return default if isinstance(found, Unknown) else found


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
        instances=reservation.get("TotalInstanceCount", plan.nodes),
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
        # Whether its instances were started for this experiment, its tags do not say.
        return NodeGroup(ownership="foreign", instances=None)
    desired_size = _or_else(None, lambda: int(group["scalingConfig"]["desiredSize"]))
    name = _or_else("", lambda: str(group["resources"]["autoScalingGroups"][0]["name"]))
    states = _or_else(None, lambda: _lifecycle_states(clients, name))
    instances = None if states is None else sum(state != _GONE for state in states.values())
    missing = instances is not None and (desired_size or 0) > instances
    return NodeGroup(
        ownership="ours",
        desired_size=desired_size,
        instances=instances,
        draining=tuple(i for i, state in (states or {}).items() if state == _DRAINING),
        auto_scaling_group=name,
        modified_at_unix_s=_or_else(None, lambda: float(group["modifiedAt"].timestamp())),
        # They explain missing nodes, and are not worth ending an invocation.
        problems=_or_else(
            (),
            lambda: problems_of(
                plan,
                issues=group.get("health", {}).get("issues", []),
                activities=_or_else([], lambda: _activities(clients, name)) if missing else [],
                since=since,
            ),
        ),
    )


def _lifecycle_states(clients: Clients, name: str) -> dict[str, str]:
    """Of each instance of the group, by its id; raises where there is no such group."""
    answer = clients.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])
    (group,) = answer["AutoScalingGroups"]
    return {i["InstanceId"]: i["LifecycleState"] for i in group["Instances"]}


def _activities(clients: Clients, name: str) -> list[dict[str, Any]]:
    """The newest first."""
    answer = clients.autoscaling.describe_scaling_activities(
        AutoScalingGroupName=name, MaxRecords=10
    )
    return list(answer["Activities"])
