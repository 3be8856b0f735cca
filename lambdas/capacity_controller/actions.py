"""The controller's actions: size the node group, end drains, schedule the deadline."""

import contextlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime

from botocore.exceptions import ClientError

from draftworth.records.codec import dump_text
from draftworth.records.deployment import DEADLINE_SCHEDULE, CapacityPlan
from lambdas.capacity_controller.aws_clients import Clients
from lambdas.capacity_controller.node_group import NodeGroup
from lambdas.capacity_controller.settings import Settings
from lambdas.s3_document import error_code

DEADLINE_TRIGGER = "deadline"
# EKS adds this lifecycle hook to each managed node group's Auto Scaling group, to drain nodes.
DRAIN_HOOK = "Terminate-LC-Hook"
# EKS's error codes while the node group is changed already, or before it is active.
BUSY = {"ResourceInUseException", "InvalidRequestException"}


def set_desired_size(plan: CapacityPlan, clients: Clients, size: int) -> None:
    """Ask EKS for `size` nodes in the node group; 0 nodes keep a `maxSize` of 1, EKS's minimum."""
    clients.eks.update_nodegroup_config(
        clusterName=plan.cluster_name,
        nodegroupName=plan.nodegroup_name,
        scalingConfig={"minSize": 0, "maxSize": max(size, 1), "desiredSize": size},
    )


def empty_scaling_group(nodes: NodeGroup, clients: Clients) -> None:
    """Set the node group's Auto Scaling group to zero instances, without EKS.

    EKS refuses every change of a node group while it updates the group, and such an update can
    hang for hours (containers-roadmap #2204). The group's minimum is 0 already.
    """
    clients.autoscaling.set_desired_capacity(
        AutoScalingGroupName=nodes.auto_scaling_group, DesiredCapacity=0
    )


def end_drain(nodes: NodeGroup, clients: Clients, instance: str) -> None:
    """End the drain of a node that is not needed any more. instance: its EC2 instance id.

    EKS tries to evict the pods of such a node for up to a quarter of an hour. The node is paid for
    during that time, and nothing on it needs to be saved.
    """
    clients.autoscaling.complete_lifecycle_action(
        AutoScalingGroupName=nodes.auto_scaling_group,
        LifecycleHookName=DRAIN_HOOK,
        LifecycleActionResult="CONTINUE",
        InstanceId=instance,
    )


def schedule_deadline(
    plan: CapacityPlan, clients: Clients, settings: Settings, at_unix_s: float | None, arn: str
) -> None:
    """Schedule an invocation of the function `arn` at `at_unix_s`; None deletes the schedule.

    The schedule deletes itself after its invocation. The event of that invocation carries the plan,
    so that the deadline is kept even if the state cannot be read.
    """
    scheduler = clients.scheduler
    name = {"Name": DEADLINE_SCHEDULE, "GroupName": settings.schedule_group}
    if at_unix_s is None:
        with _ignored("ResourceNotFoundException"):
            scheduler.delete_schedule(**name)
        return
    request = {
        **name,
        "Description": "The accelerator nodes go to zero",
        "ScheduleExpression": f"at({datetime.fromtimestamp(at_unix_s, UTC):%Y-%m-%dT%H:%M:%S})",
        "ScheduleExpressionTimezone": "UTC",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {
            "Arn": arn,
            "RoleArn": settings.schedule_role_arn,
            "Input": json.dumps({"trigger": DEADLINE_TRIGGER, "plan": dump_text(plan)}),
        },
        "ActionAfterCompletion": "DELETE",
    }
    # If the schedule exists already, it is updated instead.
    with _ignored("ConflictException"):
        scheduler.create_schedule(**request)
        return
    scheduler.update_schedule(**request)


@contextlib.contextmanager
def _ignored(code: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        if error_code(error) != code:
            raise
