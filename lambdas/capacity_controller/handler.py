"""The Lambda handler of the capacity controller.

Events: custom resource requests of CloudFormation; events of S3 and Auto Scaling, from EventBridge;
heartbeat and deadline, from EventBridge Scheduler. All but CloudFormation's requests only trigger
a reconciliation. Environment variables: `settings.Settings`.

An exception ends the invocation, so that Lambda counts an error and tries again; the next heartbeat
reconciles anyway.
"""

import contextlib
import functools
import os
from collections.abc import Mapping
from typing import Any
from urllib.request import OpenerDirector

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from draftworth.records import controller_state
from draftworth.records.codec import load_record
from draftworth.records.deployment import STATE_KEY, TOLD_KEY, CapacityPlan
from draftworth.untrusted import TooLargeError, one_line
from lambdas.capacity_controller import actions, notifications
from lambdas.capacity_controller.controller import BUSY_PAUSE_SECONDS, HOUR_SECONDS, Controller
from lambdas.capacity_controller.custom_resource import handle_request
from lambdas.capacity_controller.decision import Decision, decide_without_state
from lambdas.capacity_controller.observation import NodeGroup
from lambdas.capacity_controller.observing import Clients, node_group, observe
from lambdas.capacity_controller.remaining import MAIL_AFTER_SECONDS, MAIL_EVERY_SECONDS
from lambdas.capacity_controller.settings import load_settings
from lambdas.runtime import CLIENT_CONFIG, Context, log_line
from lambdas.s3_document import DocumentError, read_object

# These reads and the pauses between them take a minute: a shorter failure of S3 has no effect.
STATE_READS = 12
_NO_STATE = "none"


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
    if not actions.send_response(event, error=error, opener=opener):
        # An exception would make Lambda deliver the event again.
        without_signature = str(event["ResponseURL"]).partition("?")[0][:100]
        why = f"{without_signature!r} is not CloudFormation's bucket; its answer is not sent"
        controller.log({"level": "ERROR", "event": "CloudFormation was not answered", "error": why})


def _reconcile(event: Mapping[str, Any], arn: str, controller: Controller) -> None:
    """Reconcile; if the state is missing or unusable, apply the limits of the plan in the event."""
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


def keep_to_limits(
    controller: Controller, plan: CapacityPlan, error: Exception | None, *, is_deadline: bool
) -> None:
    """Apply the limits of the last known plan, as the state is missing or cannot be read.

    No node is started. Nodes that run stay, so that an unreadable object ends no run; they go to
    zero when a limit is reached, the run or the Capacity Block ends, or somebody stops them
    (decision record 5). That the state is lost is reported once.

    error: why the reconciliation failed; None: there is no state.
    is_deadline: the deadline's schedule has fired.
    """
    if error and not isinstance(error, DocumentError) and _can_be_read(controller):
        return  # the next invocation can decide
    nodes, end = node_group(plan, controller.clients, since=controller.clock()), None
    if nodes.ownership != "ours":
        return
    if nodes.desired_size == 0:
        controller.end_drains(nodes)
        _tell_of_remaining(controller, plan, nodes)
    else:
        end = _end(controller, plan, nodes, is_deadline=is_deadline)
    why = str(error or f"there is no {STATE_KEY}")
    lost = notifications.of_lost_state(plan, why, nodes, end, now=controller.clock())
    if end:
        actions.set_desired_size(plan, controller.clients, 0)
        event = "scaled to zero without a state"
        controller.log({"level": "ERROR", "event": event, "text": lost.text})
        controller.publish(lost)
    # No state is normal before the first deploy. The function's alarm reports failures of S3.
    elif isinstance(error, DocumentError):
        _tell_once(controller, lost, about=error.etag)
    elif nodes.desired_size != 0 and error is None:
        _tell_once(controller, lost, about=_NO_STATE)
    elif nodes.desired_size != 0 and nodes.modified_at_unix_s is None:
        controller.tell_every(HOUR_SECONDS, lost)


def _can_be_read(controller: Controller) -> bool:
    for _ in range(STATE_READS):
        with contextlib.suppress(Exception):
            controller.document.read()
            return True
        controller.sleep(BUSY_PAUSE_SECONDS)
    return False


def _tell_of_remaining(controller: Controller, plan: CapacityPlan, nodes: NodeGroup) -> None:
    """Report every day that instances stay at size zero, from when the group was last changed."""
    now, since = controller.clock(), nodes.modified_at_unix_s
    if not nodes.instances or since is None or now - since < MAIL_AFTER_SECONDS:
        return
    deployment = _assumed_deployment(plan, nodes.instances, since, now)
    remaining = controller_state.Remaining(
        since_unix_s=since,
        node_seconds=deployment.node_time.node_seconds,
        asked_at_unix_s=since,
    )
    mail = notifications.Mail.NODES_REMAIN
    notification = notifications.of_remaining(mail, deployment, remaining, nodes, now=now)
    controller.tell_every(MAIL_EVERY_SECONDS, notification)


def _end(
    controller: Controller, plan: CapacityPlan, nodes: NodeGroup, *, is_deadline: bool
) -> Decision | None:
    """Return why nodes that are up must go to zero; None if they stay."""
    if is_deadline:
        return Decision(desired_size=0, reason="deadline", text="their deadline has passed")
    now = controller.clock()
    since = min(nodes.modified_at_unix_s or now, now)
    count = max(nodes.instances or 0, nodes.desired_size or plan.nodes)
    deployment = _assumed_deployment(plan, count, since, now)
    observation = observe(deployment, controller.clients, controller.settings, since=now)
    return decide_without_state(deployment, observation, now=now)


def _assumed_deployment(
    plan: CapacityPlan, count: int, since: float, now: float
) -> controller_state.Deployment:
    """Return a deployment that began, with all its nodes, when the group was last changed."""
    return controller_state.Deployment(
        plan=plan,
        deployed_at_unix_s=since,
        node_time=controller_state.NodeTime(
            node_seconds=count * (now - since), instances=count, observed_at_unix_s=now
        ),
        servers=controller_state.ServerWait(nodes_since_unix_s=since),
    )


def _tell_once(
    controller: Controller, notification: controller_state.Notification, *, about: str
) -> None:
    """Report a lost state, unless the object TOLD_KEY says that the last report was about it.

    about: the ETag of a state that cannot be read; `none` if there is no state.
    """
    s3, bucket = controller.clients.s3, controller.settings.results_bucket
    try:
        if read_object(s3, bucket, TOLD_KEY) == about.encode():
            return
        s3.put_object(Bucket=bucket, Key=TOLD_KEY, Body=about.encode())
    except (ClientError, BotoCoreError, TooLargeError):
        controller.tell_every(HOUR_SECONDS, notification)
    else:
        controller.publish(notification)
