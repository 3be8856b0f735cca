"""The controller's actions after a decision, and its response to CloudFormation.

Protocol: "CloudFormation custom resource request and response reference", CloudFormation User
Guide. The response is a PUT of at most 4096 bytes to a presigned URL; without a response,
CloudFormation waits for the resource's `ServiceTimeout` and then fails.
"""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Any
from urllib.request import OpenerDirector, Request, build_opener

from botocore.exceptions import ClientError

from draftworth.records.codec import dump_text
from draftworth.records.deployment import DEADLINE_SCHEDULE, CapacityPlan
from lambdas.capacity_controller.observation import NodeGroup
from lambdas.capacity_controller.observing import Clients
from lambdas.capacity_controller.settings import Settings
from lambdas.s3_document import error_code

DEADLINE_TRIGGER = "deadline"
# EKS adds this lifecycle hook to each managed node group's Auto Scaling group, to drain nodes.
DRAIN_HOOK = "Terminate-LC-Hook"
# EKS's error codes while another change of the group is in progress, or it is not active yet.
BUSY = {"ResourceInUseException", "InvalidRequestException"}


def set_desired_size(plan: CapacityPlan, clients: Clients, size: int) -> None:
    """Ask EKS for `size` nodes. EKS accepts no `maxSize` below 1."""
    clients.eks.update_nodegroup_config(
        clusterName=plan.cluster_name,
        nodegroupName=plan.nodegroup_name,
        scalingConfig={"minSize": 0, "maxSize": max(size, 1), "desiredSize": size},
    )


def end_drain(nodes: NodeGroup, clients: Clients, instance: str) -> None:
    """End the drain of a node that is not needed any more.

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


RESPONSE_ATTEMPTS = 3
RESPONSE_TIMEOUT_SECONDS = 10
MAX_REASON_CHARACTERS = 1000
# Domains of AWS's partitions: commercial and GovCloud, China, the European Sovereign Cloud.
_DOMAIN = r"amazonaws\.(?:com|com\.cn|eu)"
_VISIBLE = "[!-~]*"  # printable ASCII without spaces


def send_response(
    event: Mapping[str, Any], *, error: str | None, opener: OpenerDirector | None = None
) -> bool:
    """Tell CloudFormation how the request `event` ended; False: the URL is not CloudFormation's.

    error: why the request failed; None: it succeeded. opener: None stands for urllib's default.
    """
    url, stack_id = event["ResponseURL"], str(event["StackId"])
    if not is_cloudformations(url, stack_id):
        return False
    body = {
        "Status": "SUCCESS" if error is None else "FAILED",
        "Reason": (error or "done")[:MAX_REASON_CHARACTERS],
        "PhysicalResourceId": event.get("PhysicalResourceId")
        or f"{stack_id.split('/')[1]}/{event['LogicalResourceId']}",
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
    }
    data = json.dumps(body).encode()
    # The URL is signed for an empty Content-Type; urllib would set another one.
    request = Request(url, data=data, method="PUT", headers={"Content-Type": ""})  # noqa: S310 - https
    for left in reversed(range(RESPONSE_ATTEMPTS)):
        try:
            # urllib does not follow redirects of a PUT.
            (opener or build_opener()).open(request, timeout=RESPONSE_TIMEOUT_SECONDS).close()
        except (OSError, HTTPException):
            if not left:
                raise
        else:
            break
    return True


def is_cloudformations(url: object, stack_id: str) -> bool:
    """Return whether an https URL points to CloudFormation's own bucket in the stack's region.

    The bucket's name is documented ("Access CloudFormation using an interface endpoint",
    considerations). Every form of an S3 URL is accepted, but no port and no user name.
    """
    named = stack_id.split(":")  # arn:PARTITION:cloudformation:REGION:...
    if len(named) < 4 or not named[3] or not isinstance(url, str):
        return False
    region = re.escape(named[3])
    short = re.escape(named[3].replace("-", ""))
    bucket = f"cloudformation-custom-resource-response-{short}"
    endpoint = rf"s3(?:[.-]{region})?\.{_DOMAIN}"
    own = rf"https://(?:{bucket}\.{endpoint}/|{endpoint}/{bucket}/){_VISIBLE}"
    return re.fullmatch(own, url) is not None
