"""Observes the accelerator node group: its size, its instances, and why nodes are missing."""

from dataclasses import dataclass
from typing import Any, Literal

from botocore.exceptions import ClientError

from draftworth.records.deployment import CapacityPlan
from lambdas.capacity_controller.aws_clients import Clients
from lambdas.capacity_controller.launch_failures import Problem, problems_of
from lambdas.capacity_controller.unknown import or_default
from lambdas.s3_document import error_code

_DRAINING = "Terminating:Wait"
_GONE = "Terminated"


@dataclass(frozen=True, kw_only=True)
class NodeGroup:
    """The accelerator node group.

    ownership: `foreign`: the group lacks the plan's tags. `missing`: there is no such group.
    desired_size: the size that EKS was last asked for; None: unknown.
    instances: number of instances that exist and are paid for; None: it cannot be observed.
    instance_ids: the ids of these instances, as far as they can be observed.
    draining: ids of instances that EKS drains before they are terminated.
    modified_at_unix_s: when the group was last changed, as EKS says; None: unknown.
    """

    ownership: Literal["ours", "foreign", "missing"]
    desired_size: int | None = 0
    instances: int | None = 0
    instance_ids: tuple[str, ...] = ()
    draining: tuple[str, ...] = ()
    auto_scaling_group: str = ""
    modified_at_unix_s: float | None = None
    problems: tuple[Problem, ...] = ()


def node_group(plan: CapacityPlan, clients: Clients, *, since: float) -> NodeGroup:
    """Observe the node group and its instances; raise boto3's error if EKS cannot be asked.

    since: failed launches of nodes before this Unix time are ignored.
    """
    try:
        group = clients.eks.describe_nodegroup(
            clusterName=plan.cluster_name, nodegroupName=plan.nodegroup_name
        )["nodegroup"]
    except ClientError as error:
        if error_code(error) == "ResourceNotFoundException":
            return NodeGroup(ownership="missing")
        raise
    if not plan.nodegroup_tags.items() <= (group.get("tags") or {}).items():
        # Without our tags it is unknown whether its instances were started for this experiment.
        return NodeGroup(ownership="foreign", instances=None)
    desired_size = or_default(None, lambda: int(group["scalingConfig"]["desiredSize"]))
    name = or_default("", lambda: str(group["resources"]["autoScalingGroups"][0]["name"]))
    states = or_default(None, lambda: _lifecycle_states(clients, name))
    there = tuple(i for i, state in (states or {}).items() if state != _GONE)
    instances = None if states is None else len(there)
    activities: list[dict[str, Any]] = []
    if instances is not None and (desired_size or 0) > instances:
        history = clients.autoscaling.describe_scaling_activities
        activities = or_default(
            [], lambda: history(AutoScalingGroupName=name, MaxRecords=10)["Activities"]
        )
    return NodeGroup(
        ownership="ours",
        desired_size=desired_size,
        instances=instances,
        instance_ids=there,
        draining=tuple(i for i, state in (states or {}).items() if state == _DRAINING),
        auto_scaling_group=name,
        modified_at_unix_s=or_default(None, lambda: float(group["modifiedAt"].timestamp())),
        # Problems only explain missing nodes, so an error here must not end the invocation.
        problems=or_default(
            (),
            lambda: problems_of(
                issues=group.get("health", {}).get("issues", []),
                activities=activities,
                since=since,
            ),
        ),
    )


def _lifecycle_states(clients: Clients, name: str) -> dict[str, str]:
    answer = clients.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])
    (group,) = answer["AutoScalingGroups"]
    return {i["InstanceId"]: i["LifecycleState"] for i in group["Instances"]}
