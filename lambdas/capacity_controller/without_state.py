"""What holds where the controller's state is not there or cannot be read.

The heartbeat and the deadline's schedule carry the plan, which is the last one known. Nothing
starts by it. Nodes that are up stay up, so that an unreadable object ends no run; they go at the
deadline, where their cost reaches the budget, and where a run is over, a Capacity Block ends or
somebody stops them (decision record 5).
"""

from __future__ import annotations

import contextlib

from botocore.exceptions import BotoCoreError, ClientError

from draftworth.records.deployment import STATE_KEY, TOLD_KEY, CapacityPlan
from draftworth.untrusted import TooLargeError
from lambdas.capacity_controller import actions, notifications
from lambdas.capacity_controller.controller import BUSY_PAUSE_SECONDS, Controller
from lambdas.capacity_controller.decision import Decision, decide_without_state
from lambdas.capacity_controller.observation import NodeGroup
from lambdas.capacity_controller.observing import node_group, observe
from lambdas.capacity_controller.state import Deployment, NodeTime, Notification, ServerWait
from lambdas.s3_document import DocumentError, read_object

# A minute: a state that cannot be read for so long is not one read that fails.
STATE_READS = 12
_NO_STATE = "none"


def keep_to_limits(
    controller: Controller, plan: CapacityPlan, error: Exception | None, *, is_deadline: bool
) -> None:
    """Take nodes to zero that have reached a limit, and tell once that the state is lost.

    error: why there was no decision; None: there is no state.
    is_deadline: the deadline's schedule has fired.
    """
    if error and not isinstance(error, DocumentError) and _can_be_read(controller):
        return  # what failed is for the next invocation
    nodes, end = node_group(plan, controller.clients, since=controller.clock()), None
    if nodes.ownership != "ours":
        return
    if nodes.desired_size == 0:
        controller.end_drains(nodes)
    else:
        end = _end(controller, plan, nodes, is_deadline=is_deadline)
    why = str(error or f"there is no {STATE_KEY}")
    lost = notifications.of_lost_state(plan, why, nodes, end, now=controller.clock())
    if end is None:
        _tell(controller, lost, nodes, error)
    else:
        actions.set_desired_size(plan, controller.clients, 0)
        event = "scaled to zero without a state"
        controller.log({"level": "ERROR", "event": event, "text": lost.text})
        actions.publish(lost, controller.clients, controller.settings)


def _tell(
    controller: Controller, lost: Notification, nodes: NodeGroup, error: Exception | None
) -> None:
    """Tell of a state that cannot be read, and of nodes that are up without one.

    Before the first deploy there is none, and where S3 fails for now, the function's alarm tells.
    """
    if isinstance(error, DocumentError):
        _tell_once(controller, lost, about=error.etag)
    elif nodes.desired_size != 0 and error is None:
        _tell_once(controller, lost, about=_NO_STATE)
    elif nodes.desired_size != 0 and nodes.modified_at_unix_s is None:
        controller.tell_hourly(lost)


def _can_be_read(controller: Controller) -> bool:
    """Whether the state can be read within a minute."""
    for _ in range(STATE_READS):
        with contextlib.suppress(Exception):
            controller.document.read()
            return True
        controller.sleep(BUSY_PAUSE_SECONDS)
    return False


def _end(
    controller: Controller, plan: CapacityPlan, nodes: NodeGroup, *, is_deadline: bool
) -> Decision | None:
    """Why nodes that are up must go; None: they stay."""
    if is_deadline:
        return Decision(desired_size=0, reason="deadline", text="their deadline has come")
    now = controller.clock()
    deployment = _deployment(plan, nodes, now)
    observation = observe(deployment, controller.clients, controller.settings, since=now)
    return decide_without_state(deployment, observation, now=now)


def _deployment(plan: CapacityPlan, nodes: NodeGroup, now: float) -> Deployment:
    """The deployment as far as the node group tells: it began, and all its nodes came up, when the
    group was last changed."""
    since = min(nodes.modified_at_unix_s or now, now)
    count = max(nodes.instances or 0, nodes.desired_size or plan.nodes)
    return Deployment(
        plan=plan,
        deployed_at_unix_s=since,
        node_time=NodeTime(
            node_seconds=count * (now - since), instances=count, observed_at_unix_s=now
        ),
        servers=ServerWait(nodes_since_unix_s=since),
    )


def _tell_once(controller: Controller, notification: Notification, *, about: str) -> None:
    """Tell of a state that was not told of before; that is remembered beside it."""
    s3, bucket = controller.clients.s3, controller.settings.results_bucket
    try:
        if read_object(s3, bucket, TOLD_KEY) == about.encode():
            return
        s3.put_object(Bucket=bucket, Key=TOLD_KEY, Body=about.encode())
    except (ClientError, BotoCoreError, TooLargeError):
        controller.tell_hourly(notification)
    else:
        actions.publish(notification, controller.clients, controller.settings)
