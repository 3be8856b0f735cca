"""Reconciles the node group: observes AWS, decides its size, writes the state, then acts.

The new state is written BEFORE the controller acts, on the condition that no other invocation has
written since this one read. If two invocations observe different things, one gets a conflict and
reconciles again. The write after acting has the same condition: if another invocation wrote while
this one acted, perhaps on an older observation, this one reconciles again too. Notifications wait
in the state's outbox until sent: if an invocation dies before that, a later one sends them.

Deadline and budget follow from the state alone. Once either is reached, only the node group is
observed, and the nodes go to zero even if the state cannot be written. If the state cannot be
read, `without_state` decides.
"""

import functools
import random
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from botocore.exceptions import BotoCoreError, ClientError

from draftworth.records.controller_state import Deployment, Notification, State
from draftworth.records.deployment import HEARTBEAT_MINUTES, STATE_KEY, CapacityPlan
from lambdas.capacity_controller import actions
from lambdas.capacity_controller.aws_clients import Clients
from lambdas.capacity_controller.decision import limits_reached
from lambdas.capacity_controller.node_group import NodeGroup, node_group
from lambdas.capacity_controller.notifications import Mail, of_mail
from lambdas.capacity_controller.observation import Observation, observe
from lambdas.capacity_controller.remaining_nodes import unseen
from lambdas.capacity_controller.settings import Settings
from lambdas.capacity_controller.transition import Transition, transition
from lambdas.runtime import Log
from lambdas.s3_document import ConflictError, DocumentError, S3Document, Stored, error_code

MAX_ATTEMPTS = 12
# A notification that waits longer than this was left by an invocation that died.
UNSENT_AFTER_SECONDS = 600.0
# EKS may refuse a size for some minutes because it is busy; a longer refusal is reported.
REPORT_REFUSED_SIZE_AFTER_SECONDS = 600.0
BUSY_PAUSE_SECONDS = 5.0
HOUR_SECONDS = 3600.0
# A state with times further than this in the future is refused; clocks in AWS differ by
# milliseconds.
MAX_CLOCK_DIFFERENCE_SECONDS = 3600.0
_LONGEST_PAUSE_SECONDS = 0.5


class TooManyConflictsError(Exception):
    """Other invocations changed the state at each attempt; a later invocation will reconcile."""


class NotZeroError(Exception):
    """The nodes could not be taken to zero in time; the message says why."""


@dataclass(kw_only=True)
class Controller:
    """Keeps one node group at the size that `transition` decides.

    log: writes one entry into the function's log. clock: returns Unix seconds. sleep: waits for a
        number of seconds.
    """

    clients: Clients
    settings: Settings
    log: Log
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    @property
    def document(self) -> S3Document[State]:
        return S3Document(
            s3=self.clients.s3,
            bucket=self.settings.results_bucket,
            key=STATE_KEY,
            kind=State,
            repair="restore it, or delete it and deploy again with another `rerun`",
        )

    def reconcile(self, trigger: str, *, function_arn: str) -> bool:
        """Observe AWS, decide and act; return False if there is no state with a deployment.

        After any error but DocumentError (S3 has no valid state) a later invocation can succeed.
        trigger: what invoked the function, in words for the log.
        function_arn: the function that the schedule of the deadline invokes.
        """
        for _ in range(MAX_ATTEMPTS):
            stored = self.document.read()
            deployment = stored.document.deployment if stored else None
            if stored is None or deployment is None:
                return False
            self._check_not_from_the_future(stored, deployment)
            try:
                if self._reconcile_once(stored, deployment, trigger, function_arn):
                    return True
            except ConflictError:
                self.pause()
        if deployment and any(limits_reached(deployment, self.clock())):
            self._is_at_zero(deployment.plan)  # asks for zero nodes, although no write succeeded
        raise TooManyConflictsError(f"the state changed {MAX_ATTEMPTS} times during {trigger}")

    def log_failure(self, event: str, error: Exception) -> None:
        self.log(
            {
                "level": "ERROR",
                "event": event,
                "error": f"{type(error).__name__}: {error}",
                "traceback": "".join(traceback.format_exception(error)),
            }
        )

    def pause(self) -> None:
        """Wait for a random time, so that two invocations that collided do not collide again."""
        self.sleep(random.uniform(0, _LONGEST_PAUSE_SECONDS))  # noqa: S311 - no secret

    def mail_at_most_every(self, seconds: float, notification: Notification) -> None:
        """Send a mail about once per hour or day, although it cannot be recorded as sent.

        It is sent only in the first HEARTBEAT_MINUTES of a period, in which one heartbeat falls.
        seconds: the length of a period: 3600, which begins at each full hour, or 24 x 3600, which
            begins at midnight UTC.
        """
        if self.clock() % seconds < HEARTBEAT_MINUTES * 60:
            self.publish(notification)

    def publish(self, notification: Notification) -> None:
        self.clients.sns.publish(
            TopicArn=self.settings.topic_arn,
            Subject=notification.subject,
            Message=notification.text,
        )

    def scale_to_zero(self, plan: CapacityPlan, *, until_unix_s: float) -> None:
        """Ask for zero nodes until EKS shows that size; raise NotZeroError after `until_unix_s`."""
        while True:
            failure: Exception | None = None
            try:
                if self._is_at_zero(plan):
                    return
            except (ClientError, BotoCoreError) as error:
                failure = error
            if self.clock() + BUSY_PAUSE_SECONDS > until_unix_s:
                raise NotZeroError(str(failure or "EKS still shows nodes")) from failure
            self.sleep(BUSY_PAUSE_SECONDS)

    def ask_for_zero(self, plan: CapacityPlan, nodes: NodeGroup) -> None:
        """Ask EKS for zero nodes; if it refuses, empty the Auto Scaling group and raise its error.

        The error is raised even if the group was emptied, because EKS may restore its own size at
        the end of its update: zero is asked for until EKS shows it.
        """
        try:
            actions.set_desired_size(plan, self.clients, 0)
        except (ClientError, BotoCoreError):
            empty = functools.partial(actions.empty_scaling_group, nodes, self.clients)
            if self._attempt(empty, "Auto Scaling group not emptied") is None:
                name = nodes.auto_scaling_group
                self.log({"level": "WARNING", "event": "Auto Scaling group emptied", "name": name})
            raise

    def _is_at_zero(self, plan: CapacityPlan) -> bool:
        """Return whether our node group has size 0 or does not exist; else ask EKS for 0 nodes."""
        nodes = node_group(plan, self.clients, since=self.clock())
        if nodes.ownership == "ours" and nodes.desired_size != 0:
            self.ask_for_zero(plan, nodes)
            return False
        self.end_drains(nodes)
        return True

    def _reconcile_once(
        self, stored: Stored[State], deployment: Deployment, trigger: str, function_arn: str
    ) -> bool:
        observation = self._observe(stored, deployment)
        now, nodes = self.clock(), observation.nodes
        step = transition(stored.document, deployment, observation, now=now)
        if step.state != stored.document:
            try:
                stored = self.document.write(step.state, over=stored)
            except (ClientError, BotoCoreError, DocumentError):
                if step.decision.desired_size == 0:
                    self._resize(step, nodes)  # zero nodes, although the state was not written
                raise
        self._log_decision(step, nodes, trigger)
        resized, error = self._resize(step, nodes)
        resized = resized or self._ask_again(step, nodes)
        if step.decision.desired_size == 0:
            self.end_drains(nodes)
        scheduled = self._schedule(step, function_arn)
        refused = self._refused_size(step, error, now)
        stored, left = self._claim_left_over(stored, now)
        sent = self._send((*left, *step.notifications, *refused))
        problems = tuple(Mail.SIZE_NOT_SET for one in refused if one.id in sent)
        undisturbed = self._record(
            stored, sent, resized=resized, problems=problems, schedule_at_unix_s=scheduled
        )
        if error and error_code(error) not in actions.BUSY:
            raise error
        return undisturbed

    def _check_not_from_the_future(self, stored: Stored[State], deployment: Deployment) -> None:
        """Raise DocumentError if the state has times in the future: its deadline would be too late.

        stored: the state as it was read. deployment: the state's current deployment.
        """
        latest = max(deployment.deployed_at_unix_s, deployment.node_time.observed_at_unix_s)
        if latest > self.clock() + MAX_CLOCK_DIFFERENCE_SECONDS:
            raise DocumentError(
                f"{self.document.key} is from the future; {self.document.repair}", etag=stored.etag
            )

    def _observe(self, stored: Stored[State], deployment: Deployment) -> Observation:
        now, last, time_so_far = self.clock(), stored.document.last_decision, deployment.node_time
        counted = time_so_far.observed(time_so_far.instances, were_desired=False, now=now)
        deployment = replace(deployment, node_time=counted)
        over = any(limits_reached(deployment, now))
        since = last.since_unix_s if last else deployment.deployed_at_unix_s
        try:
            return observe(deployment, self.clients, self.settings, since=since, nodes_alone=over)
        except Exception as error:
            if over:
                self._report_nodes_not_seen(stored, deployment, error)
            raise

    def _report_nodes_not_seen(
        self, stored: Stored[State], deployment: Deployment, error: Exception
    ) -> None:
        """Send a daily mail that nodes may still run, but their node group cannot be read.

        error: why it cannot be read. No mail is sent if zero nodes were decided and the last
        observation showed that none was left. If the state cannot be written, the mail is hourly.
        """
        state, now = stored.document, self.clock()
        last = state.last_decision
        at_zero = last and last.desired_size == 0 and not deployment.node_time.instances
        remaining = None if at_zero else unseen(state.remaining, now=now)
        if remaining is None:
            return
        mail = of_mail(Mail.NODES_NOT_SEEN, deployment, error=str(error), now=now)
        try:
            self.document.write(replace(state, remaining=remaining), over=stored)
        except (ClientError, BotoCoreError, DocumentError):
            self.mail_at_most_every(HOUR_SECONDS, mail)
        else:
            self._send((mail,))

    def _attempt(
        self, action: Callable[[], object], event: str, **fields: object
    ) -> Exception | None:
        try:
            action()
        except (ClientError, BotoCoreError) as error:
            level = "INFO" if error_code(error) in actions.BUSY else "ERROR"
            self.log({"level": level, "event": event, **fields, "error": str(error)})
            return error
        return None

    def _log_decision(self, step: Transition, nodes: NodeGroup, trigger: str) -> None:
        deployment, decision = step.deployment, step.decision
        if not step.is_new and decision.reason != "unknown":
            return
        self.log(
            {
                "level": "INFO" if step.is_new else "WARNING",
                "event": "decision" if step.is_new else "not decided",
                "trigger": trigger,
                "experiment": deployment.plan.experiment,
                "job": deployment.plan.job_name,
                "size_before": nodes.desired_size,
                "instances": nodes.instances,
                "desired_size": decision.desired_size,
                "reason": decision.reason,
                "text": decision.text,
                "spent_usd": round(deployment.spent_usd, 2),
                "budget_usd": deployment.plan.budget_usd,
                "deadline_unix_s": step.schedule_at_unix_s,
            }
        )

    def _resize(self, step: Transition, nodes: NodeGroup) -> tuple[bool, Exception | None]:
        size = step.decision.desired_size
        if size is None or size == nodes.desired_size:
            return False, None
        error = self._attempt(self._setting(step, nodes, size), "size not set", desired_size=size)
        if error is None and not step.is_new:
            self.log({"level": "INFO", "event": "size set again", "desired_size": size})
        return error is None, error

    def _ask_again(self, step: Transition, nodes: NodeGroup) -> bool:
        """Ask EKS for zero nodes again, if instances stay; return whether EKS accepted that.

        Only a node group that has size 0 already is asked again. AWS does not document whether EKS
        accepts a size that the group already has, so a refusal is only logged.
        """
        if not step.asks_again or nodes.desired_size != 0:
            return False
        return self._attempt(self._setting(step, nodes, 0), "zero not asked for again") is None

    def _setting(self, step: Transition, nodes: NodeGroup, size: int) -> Callable[[], None]:
        plan = step.deployment.plan
        if size == 0:
            return functools.partial(self.ask_for_zero, plan, nodes)
        return functools.partial(actions.set_desired_size, plan, self.clients, size)

    def end_drains(self, nodes: NodeGroup) -> None:
        for instance in nodes.draining:
            end = functools.partial(actions.end_drain, nodes, self.clients, instance)
            self._attempt(end, "drain not ended", instance=instance)

    def _schedule(self, step: Transition, function_arn: str) -> float | None:
        wanted, current = step.schedule_at_unix_s, step.state.schedule_at_unix_s
        if wanted == current:
            return current
        schedule = functools.partial(
            actions.schedule_deadline, step.deployment.plan, self.clients, self.settings
        )
        # If the schedule cannot be set, the next invocation tries again. The deadline is kept even
        # then, because the invocation by each heartbeat checks it too.
        error = self._attempt(lambda: schedule(wanted, function_arn), "schedule not set")
        return wanted if error is None else current

    def _record(
        self,
        stored: Stored[State],
        sent: set[str],
        *,
        resized: bool,
        problems: tuple[str, ...],
        schedule_at_unix_s: float | None,
    ) -> bool:
        undisturbed = True
        for _ in range(MAX_ATTEMPTS):
            state = stored.document
            following = replace(
                state,
                outbox=tuple(one for one in state.outbox if one.id not in sent),
                problems=(*state.problems, *problems),
                # If another invocation wrote, it may have changed the schedule; with None the next
                # reconciliation sets it again.
                schedule_at_unix_s=schedule_at_unix_s if undisturbed else None,
            )
            try:
                if following != state:
                    self.document.write(following, over=stored)
                elif resized and self.document.read() != stored:
                    return False  # another invocation wrote meanwhile
            except ConflictError:
                undisturbed = False
                self.pause()
                if (again := self.document.read()) is None:
                    return False
                stored = again
            else:
                return undisturbed
        raise TooManyConflictsError("the state changed at each attempt to write what was done")

    def _refused_size(
        self, step: Transition, error: Exception | None, now: float
    ) -> tuple[Notification, ...]:
        state, size = step.state, step.decision.desired_size
        last, is_reported = state.last_decision, Mail.SIZE_NOT_SET in state.problems
        if not error or not last or size is None or is_reported:
            return ()
        if now - last.since_unix_s < REPORT_REFUSED_SIZE_AFTER_SECONDS:
            return ()
        mail, why = Mail.SIZE_NOT_SET, str(error)
        return (of_mail(mail, step.deployment, number=size, error=why, now=now),)

    def _claim_left_over(
        self, stored: Stored[State], now: float
    ) -> tuple[Stored[State], tuple[Notification, ...]]:
        # The new `made_at_unix_s` is written before the notifications are sent. In the other order
        # each heartbeat would send them again while the state cannot be written.
        state = stored.document
        claimed = tuple(
            replace(n, made_at_unix_s=now) if n.made_at_unix_s < now - UNSENT_AFTER_SECONDS else n
            for n in state.outbox
        )
        if claimed == state.outbox:
            return stored, ()
        left = tuple(n for n in claimed if n not in state.outbox)
        return self.document.write(replace(state, outbox=claimed), over=stored), left

    def _send(self, notifications: Iterable[Notification]) -> set[str]:
        sent = set()
        for one in notifications:
            if self._attempt(functools.partial(self.publish, one), "not notified") is None:
                sent.add(one.id)
        return sent
