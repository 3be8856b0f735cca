"""The Lambda handler of the capacity controller.

Events: custom resource requests of CloudFormation; events of S3 and Auto Scaling, from EventBridge;
heartbeat and deadline, from EventBridge Scheduler. All but CloudFormation's requests only trigger
a reconciliation. Environment variables: `settings.Settings`.

An exception ends the invocation, so that Lambda counts an error and tries again; the next heartbeat
reconciles anyway.
"""

import functools
import os
from collections.abc import Mapping
from typing import Any
from urllib.request import OpenerDirector

import boto3

from draftworth.records.codec import load_record
from draftworth.records.deployment import CapacityPlan
from draftworth.untrusted import one_line
from lambdas.capacity_controller import actions
from lambdas.capacity_controller.aws_clients import Clients
from lambdas.capacity_controller.cloudformation_response import send_response
from lambdas.capacity_controller.controller import Controller
from lambdas.capacity_controller.custom_resource import handle_request
from lambdas.capacity_controller.settings import load_settings
from lambdas.capacity_controller.without_state import keep_to_limits
from lambdas.runtime import CLIENT_CONFIG, Context, log_line


def handler(event: Mapping[str, Any], context: Context) -> None:
    """Handle one event; Lambda calls this function."""
    handle(event, context, controller=_controller())


def handle(
    event: Mapping[str, Any],
    context: Context,
    *,
    controller: Controller,
    opener: OpenerDirector | None = None,
) -> None:
    """Handle one event; `opener` sends the response to CloudFormation (None: urllib's default)."""
    arn = context.invoked_function_arn
    if "RequestType" not in event:
        _reconcile(event, arn, controller)
        return
    ends = controller.clock() + context.get_remaining_time_in_millis() / 1000
    error: str | None = None
    try:
        handle_request(event, controller, function_arn=arn, ends_unix_s=ends)
    except Exception as failure:  # noqa: BLE001 - CloudFormation must get a response
        controller.log_failure(f"CloudFormation {event['RequestType']} failed", failure)
        error = f"{type(failure).__name__}: {failure}"
    if not send_response(event, error=error, opener=opener):
        # This is only logged, because an exception would make Lambda deliver the event again.
        without_signature = str(event["ResponseURL"]).partition("?")[0][:100]
        why = f"{without_signature!r} is not CloudFormation's bucket; its answer is not sent"
        controller.log({"level": "ERROR", "event": "CloudFormation was not answered", "error": why})


def _reconcile(event: Mapping[str, Any], arn: str, controller: Controller) -> None:
    """Reconcile; if that fails or there is no state, apply the limits of the plan in the event.

    arn: the ARN of this function. The error of a failed reconciliation is raised at the end.
    """
    failure: Exception | None = None
    try:
        if controller.reconcile(trigger_of(event), function_arn=arn):
            return
    except Exception as error:  # noqa: BLE001 - raised below, after `keep_to_limits`
        failure = error
    if "plan" in event:  # true for events of the heartbeat and of the deadline's schedule
        plan = load_record(CapacityPlan, event["plan"])
        is_deadline = event.get("trigger") == actions.DEADLINE_TRIGGER
        keep_to_limits(controller, plan, failure, is_deadline=is_deadline)
    if failure:
        raise failure


def trigger_of(event: Mapping[str, Any]) -> str:
    """Describe what invoked the function, for the log."""
    name = event.get("trigger") or event.get("detail-type") or "unknown event"
    detail = event.get("detail")
    written = detail.get("object") if isinstance(detail, dict) else None
    return one_line(f"{name}: {written.get('key')}" if isinstance(written, dict) else str(name))


@functools.cache
def _controller() -> Controller:
    names = ("s3", "eks", "autoscaling", "ec2", "scheduler", "sns")
    clients: dict[str, Any] = {
        name: boto3.client(name, config=CLIENT_CONFIG)  # type: ignore[call-overload]
        for name in names
    }
    return Controller(clients=Clients(**clients), settings=load_settings(os.environ), log=log_line)
