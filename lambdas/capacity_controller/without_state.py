"""What the controller does while its state is missing or cannot be read.

It starts no node, and takes nodes to zero at the deadline and budget of the plan in the event.
"""

import contextlib

from botocore.exceptions import BotoCoreError, ClientError

from draftworth.records import controller_state
from draftworth.records.deployment import STATE_KEY, UNREADABLE_STATE_KEY, CapacityPlan
from draftworth.untrusted import TooLargeError
from lambdas.capacity_controller import notifications
from lambdas.capacity_controller.controller import BUSY_PAUSE_SECONDS, HOUR_SECONDS, Controller
from lambdas.capacity_controller.decision import Decision, decide_without_state
from lambdas.capacity_controller.node_group import NodeGroup, node_group
from lambdas.capacity_controller.observation import observe
from lambdas.capacity_controller.remaining_nodes import MAIL_AFTER_SECONDS, MAIL_EVERY_SECONDS
from lambdas.s3_document import DocumentError, read_object

# So many reads and the pauses between them take a minute: a shorter failure of S3 has no effect.
STATE_READS = 12
_NO_STATE = "none"


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
        _mail_about_remaining(controller, plan, nodes)
    else:
        end = _end(controller, plan, nodes, is_deadline=is_deadline)
    why = str(error or f"there is no {STATE_KEY}")
    lost = notifications.of_lost_state(plan, why, nodes, end, now=controller.clock())
    if end:
        controller.ask_for_zero(plan, nodes)
        event = "scaled to zero without a state"
        controller.log({"level": "ERROR", "event": event, "text": lost.text})
        controller.publish(lost)
    # Only the cases below need a mail: a missing state is normal before the first deploy, when the
    # size is 0, and the function's alarm reports failures of S3.
    elif isinstance(error, DocumentError):
        _mail_once(controller, lost, about=error.etag)
    elif nodes.desired_size != 0 and error is None:
        _mail_once(controller, lost, about=_NO_STATE)
    elif nodes.desired_size != 0 and nodes.modified_at_unix_s is None:
        controller.mail_at_most_every(HOUR_SECONDS, lost)


def _can_be_read(controller: Controller) -> bool:
    for _ in range(STATE_READS):
        with contextlib.suppress(Exception):
            controller.document.read()
            return True
        controller.sleep(BUSY_PAUSE_SECONDS)
    return False


def _mail_about_remaining(controller: Controller, plan: CapacityPlan, nodes: NodeGroup) -> None:
    """Report daily that instances exist although the node group's size is zero.

    The paid node time is unknown without a state, so it counts from the group's last change.
    """
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
    controller.mail_at_most_every(MAIL_EVERY_SECONDS, notification)


def _end(
    controller: Controller, plan: CapacityPlan, nodes: NodeGroup, *, is_deadline: bool
) -> Decision | None:
    """Return the decision that the nodes must go to zero; None if they stay.

    is_deadline: the event is of the deadline's schedule, which needs no observation. For other
        events, all nodes count as paid since the node group's last change.
    """
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
    """Return a deployment as if all `count` nodes had run since the node group's last change.

    since, now: the times of that change and of this observation, in Unix seconds.
    """
    return controller_state.Deployment(
        plan=plan,
        deployed_at_unix_s=since,
        node_time=controller_state.NodeTime(
            node_seconds=count * (now - since), instances=count, observed_at_unix_s=now
        ),
        servers=controller_state.ServerWait(nodes_since_unix_s=since),
    )


def _mail_once(
    controller: Controller, notification: controller_state.Notification, *, about: str
) -> None:
    """Send the mail about a lost state, unless the bucket records that it was sent.

    The record is the object UNREADABLE_STATE_KEY with the content `about`. If it cannot be read or
    written, the mail is sent once per hour.
    about: the ETag of the state that cannot be read; `none` if there is no state.
    """
    s3, bucket = controller.clients.s3, controller.settings.results_bucket
    try:
        if read_object(s3, bucket, UNREADABLE_STATE_KEY) == about.encode():
            return
        s3.put_object(Bucket=bucket, Key=UNREADABLE_STATE_KEY, Body=about.encode())
    except (ClientError, BotoCoreError, TooLargeError):
        controller.mail_at_most_every(HOUR_SECONDS, notification)
    else:
        controller.publish(notification)
