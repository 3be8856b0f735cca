"""Changes AWS: the node group's size, what holds up its nodes' end, the schedule, notifications."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from draftworth.records.capacity import CapacityPlan
from lambdas.capacity_controller.gathering import Clients
from lambdas.capacity_controller.settings import Settings
from lambdas.capacity_controller.state import Notice
from lambdas.capacity_controller.store import error_code
from lambdas.capacity_controller.world import NodeGroup

SCHEDULE_NAME = "deadline"
DEADLINE_EVENT = '{"trigger": "deadline"}'
# EKS puts this hook on the Auto Scaling group of every managed node group, to drain nodes first.
DRAIN_HOOK = "Terminate-LC-Hook"
# EKS is busy with the group: another change is under way, or it is not active yet.
BUSY = {"ResourceInUseException", "InvalidRequestException"}
_NO_SCHEDULE = "ResourceNotFoundException"


def set_size(plan: CapacityPlan, clients: Clients, size: int) -> None:
    """Ask for this many nodes; EKS takes no maximum below 1.

    Raises:
        ClientError, BotoCoreError: EKS did not take it.
    """
    clients.eks.update_nodegroup_config(
        clusterName=plan.cluster_name,
        nodegroupName=plan.nodegroup_name,
        scalingConfig={"minSize": 0, "maxSize": max(size, 1), "desiredSize": size},
    )


def let_go(nodes: NodeGroup, clients: Clients) -> list[str]:
    """End the drain of nodes that nobody needs any more; what could not be ended, in words.

    EKS tries to evict each pod of a node that leaves, and waits for a quarter of an hour where a
    disruption budget refuses, as the servers' budgets always do. The node is paid for all the time,
    and there is nothing left on it to save.
    """
    failures = []
    for instance in nodes.leaving:
        try:
            clients.autoscaling.complete_lifecycle_action(
                AutoScalingGroupName=nodes.auto_scaling_group,
                LifecycleHookName=DRAIN_HOOK,
                LifecycleActionResult="CONTINUE",
                InstanceId=instance,
            )
        except (ClientError, BotoCoreError) as error:
            failures.append(f"{instance}: {error}")
    return failures


def schedule_deadline(
    clients: Clients, settings: Settings, *, at_unix_s: float, function_arn: str
) -> None:
    """Have the function invoked at this time, once."""
    request: dict[str, Any] = {
        "Name": SCHEDULE_NAME,
        "GroupName": settings.schedule_group,
        "Description": "The accelerator nodes go to zero",
        "ScheduleExpression": f"at({datetime.fromtimestamp(at_unix_s, UTC):%Y-%m-%dT%H:%M:%S})",
        "ScheduleExpressionTimezone": "UTC",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {
            "Arn": function_arn,
            "RoleArn": settings.schedule_role_arn,
            "Input": DEADLINE_EVENT,
        },
        "ActionAfterCompletion": "DELETE",
    }
    try:
        clients.scheduler.update_schedule(**request)
    except ClientError as error:
        if error_code(error) != _NO_SCHEDULE:
            raise
        _create_schedule(clients, request)


def _create_schedule(clients: Clients, request: dict[str, Any]) -> None:
    try:
        clients.scheduler.create_schedule(**request)
    except ClientError as error:
        if error_code(error) != "ConflictException":
            raise
        # Another invocation created it at this moment.
        clients.scheduler.update_schedule(**request)


def unschedule_deadline(clients: Clients, settings: Settings) -> None:
    """Remove the schedule, if it is still there: it deletes itself once it has fired."""
    try:
        clients.scheduler.delete_schedule(Name=SCHEDULE_NAME, GroupName=settings.schedule_group)
    except ClientError as error:
        if error_code(error) != _NO_SCHEDULE:
            raise


def publish(notice: Notice, clients: Clients, settings: Settings) -> None:
    """Send a notification to everybody who subscribed."""
    clients.sns.publish(TopicArn=settings.topic_arn, Subject=notice.subject, Message=notice.text)
