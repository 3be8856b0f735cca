"""Decides what is due while instances stay although zero nodes are desired, without calls to AWS.

Scale-in protection, somebody's lifecycle hook or a failed termination can keep an instance, which
is paid for. So the controller asks EKS for zero nodes again every half hour, sends a mail every
day, and another mail when the instances are gone.
"""

from dataclasses import dataclass, replace

from draftworth.records.controller_state import Deployment, Notification, Remaining
from lambdas.capacity_controller.decision import Decision, limits_reached
from lambdas.capacity_controller.node_group import NodeGroup
from lambdas.capacity_controller.notifications import Mail, of_mail, of_remaining

# Longer than EKS drains a node: a quarter of an hour, unless the drain is ended earlier.
MAIL_AFTER_SECONDS = 30 * 60
MAIL_EVERY_SECONDS = 24 * 3600
# How long after a request for zero nodes EKS gets the same request again. It should not be longer:
# without a new request, Auto Scaling may try only hours later to end an instance that was protected
# from scale-in, and a node costs more than the call to EKS. It should not be as short as the time
# between two heartbeats: while EKS handles a request, it refuses other changes, such as a deploy's.
ASK_AGAIN_SECONDS = 30 * 60


@dataclass(frozen=True, kw_only=True)
class Due:
    """What the controller must do because instances stay although zero nodes are desired.

    remaining: the record of these instances for the next state; None: there are none.
    asks_again: whether EKS must be asked for zero nodes again. mails: mails to send.
    """

    remaining: Remaining | None = None
    asks_again: bool = False
    mails: tuple[Notification, ...] = ()


def due(
    before: Remaining | None,
    deployment: Deployment,
    decision: Decision,
    nodes: NodeGroup,
    *,
    paid_seconds: float,
    now: float,
) -> Due:
    """Return which mails and requests are due, because instances stay at zero desired nodes.

    before: the record of remaining instances in the previous state; None: there were none.
    paid_seconds: the node time that was paid since the previous observation, in node-seconds. If
        the instances cannot be counted now, it counts the number that was last seen.
    """
    size = decision.desired_size
    if before is not None:
        before = replace(before, node_seconds=before.node_seconds + paid_seconds)
    if nodes.ownership == "foreign":
        return _of_foreign(before, deployment, decision, now)
    if size:
        return Due()
    if before is None:
        stay = size == 0 and deployment.node_time.instances
        return Due(remaining=_new(now) if stay else None)
    if nodes.instances == 0:
        if before.mailed_at_unix_s is None:
            return Due()
        return Due(mails=(of_remaining(Mail.NODES_GONE, deployment, before, nodes, now=now),))
    # If nothing can be decided now (`size` is None), the node group keeps its size. So if this is
    # zero, its instances still have to end.
    if size == 0 or nodes.desired_size == 0:
        return _of_staying(before, deployment, nodes, now)
    return Due(remaining=before)


def _of_staying(before: Remaining, deployment: Deployment, nodes: NodeGroup, now: float) -> Due:
    remaining, mails = before, tuple[Notification, ...]()
    asks_again = now - before.asked_at_unix_s >= ASK_AGAIN_SECONDS
    if asks_again:
        remaining = replace(remaining, asked_at_unix_s=now)
    if _mail_is_due(remaining, now, first_after_seconds=MAIL_AFTER_SECONDS):
        remaining = replace(remaining, mailed_at_unix_s=now)
        mails = (of_remaining(Mail.NODES_REMAIN, deployment, remaining, nodes, now=now),)
    return Due(remaining=remaining, asks_again=asks_again, mails=mails)


def _of_foreign(
    before: Remaining | None, deployment: Deployment, decision: Decision, now: float
) -> Due:
    """Return whether a mail is due because the node group has lost the plan's tags.

    Without the tags its instances are not observed. The mail says so, if nodes of this deployment
    existed there and should be gone. before: the record of remaining instances in the previous
    state; None: there were none.
    """
    should_be_gone = before is not None or any(limits_reached(deployment, now))
    if not should_be_gone or not deployment.node_time.instances:
        return Due(remaining=before)
    if (remaining := unseen(before, now=now)) is None:
        return Due(remaining=before)
    mail = of_mail(Mail.NODES_NOT_SEEN, deployment, error=decision.text, now=now)
    return Due(remaining=remaining, mails=(mail,))


def unseen(before: Remaining | None, *, now: float) -> Remaining | None:
    """Return the record for the next state if the mail NODES_NOT_SEEN is due; else None.

    The mail says that the controller cannot see whether instances remain. It is due at once, and
    then once per day. before: the record of remaining instances in the previous state; None: there
    was none.
    """
    record = before or _new(now)
    if not _mail_is_due(record, now, first_after_seconds=0.0):
        return None
    return replace(record, mailed_at_unix_s=now)


def _new(now: float) -> Remaining:
    return Remaining(since_unix_s=now, node_seconds=0.0, asked_at_unix_s=now)


def _mail_is_due(record: Remaining, now: float, *, first_after_seconds: float) -> bool:
    if record.mailed_at_unix_s is None:
        return now - record.since_unix_s >= first_after_seconds
    return now - record.mailed_at_unix_s >= MAIL_EVERY_SECONDS
