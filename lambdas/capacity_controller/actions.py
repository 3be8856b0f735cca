"""Changes AWS: the node group's size, waiting drains, the deadline's schedule, notifications.

Every function raises ClientError or BotoCoreError where AWS refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from draftworth.records.deployment import DEADLINE_SCHEDULE, CapacityPlan
from lambdas.capacity_controller.observation import NodeGroup
from lambdas.capacity_controller.observing import Clients
from lambdas.capacity_controller.settings import Settings
from lambdas.capacity_controller.state import Notification
from lambdas.s3_document import error_code

DEADLINE_EVENT = '{"trigger": "deadline"}'
# EKS puts this hook on the Auto Scaling group of every managed node group, to drain nodes first.
DRAIN_HOOK = "Terminate-LC-Hook"
# EKS is busy with the group: another change is under way, or it is not active yet.
BUSY = {"ResourceInUseException", "InvalidRequestException"}


def set_desired_size(plan: CapacityPlan, clients: Clients, size: int) -> None:
    """Ask for this many nodes; EKS takes no maximum below 1."""
    clients.eks.update_nodegroup_config(
        clusterName=plan.cluster_name,
        nodegroupName=plan.nodegroup_name,
        scalingConfig={"minSize": 0, "maxSize": max(size, 1), "desiredSize": size},
    )


def end_drain(nodes: NodeGroup, clients: Clients, instance: str) -> None:
    """End the drain of a node that is not needed any more.

    EKS tries to evict each pod of such a node for about a quarter of an hour, all of it where a
    disruption budget refuses. The node is paid for all the time, and there is nothing left on it to
    save.
    """
    clients.autoscaling.complete_lifecycle_action(
        AutoScalingGroupName=nodes.auto_scaling_group,
        LifecycleHookName=DRAIN_HOOK,
        LifecycleActionResult="CONTINUE",
        InstanceId=instance,
    )


def schedule_deadline(
    clients: Clients, settings: Settings, *, at_unix_s: float | None, function_arn: str
) -> None:
    """Have the function invoked once at this time; None: not any more.

    A schedule deletes itself when it has fired.
    """
    scheduler, missing = clients.scheduler, "ResourceNotFoundException"
    name = {"Name": DEADLINE_SCHEDULE, "GroupName": settings.schedule_group}
    if at_unix_s is None:
        _done(scheduler.delete_schedule, name, unless=missing)
        return
    request = {
        **name,
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
    updated = _done(scheduler.update_schedule, request, unless=missing)
    if not updated and not _done(scheduler.create_schedule, request, unless="ConflictException"):
        # Another invocation created it at this moment.
        scheduler.update_schedule(**request)


def _done(call: Callable[..., object], request: dict[str, Any], *, unless: str) -> bool:
    """False where AWS answers with this error."""
    try:
        call(**request)
    except ClientError as error:
        if error_code(error) != unless:
            raise
        return False
    return True


def publish(notification: Notification, clients: Clients, settings: Settings) -> None:
    """Send a notification to everybody who subscribed."""
    clients.sns.publish(
        TopicArn=settings.topic_arn, Subject=notification.subject, Message=notification.text
    )
