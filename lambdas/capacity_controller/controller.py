"""Reconcile: observe, decide, write, act, until no other invocation changed the state meanwhile.

The state is written BEFORE anything is done about it, under the condition that nobody wrote since
it was read. Of two invocations with different observations one gets a conflict and reconciles
again. The write after acting has the same condition: an invocation that was overtaken while acting,
and so may have acted on an older observation, reconciles again too. Notifications wait in the
state's outbox until they are sent: an invocation that dies in between leaves them to a later one.
"""

from __future__ import annotations

import functools
import random
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace

from botocore.exceptions import BotoCoreError, ClientError

from draftworth.records.capacity import STATE_KEY, CapacityPlan
from lambdas.capacity_controller import actions, notifications
from lambdas.capacity_controller.observation import NodeGroup
from lambdas.capacity_controller.observing import Clients, node_group, observe
from lambdas.capacity_controller.settings import Settings
from lambdas.capacity_controller.state import Deployment, Notification, State
from lambdas.capacity_controller.transition import SIZE_NOT_SET, Transition, transition
from lambdas.runtime import Log
from lambdas.s3_document import ConflictError, S3Document, Stored, error_code

MAX_ATTEMPTS = 12
# A notification that is this old was left by an invocation that died.
UNSENT_AFTER_SECONDS = 600.0
# EKS is busy for minutes at times; a size that it refuses for so long is worth a notification.
REPORT_REFUSED_SIZE_AFTER_SECONDS = 600.0
BUSY_PAUSE_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 0.5


class TooManyConflictsError(Exception):
    """Other invocations changed the state at each attempt; a later invocation reconciles."""


class NotZeroError(Exception):
    """The nodes could not be taken to zero in time; the message says why."""


@dataclass(kw_only=True)
class Controller:
    """Keeps one node group at the desired size; `clock` gives Unix seconds."""

    clients: Clients
    settings: Settings
    log: Log
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    @property
    def document(self) -> S3Document[State]:
        """The state, as it lies in the results bucket."""
        return S3Document(
            s3=self.clients.s3,
            bucket=self.settings.results_bucket,
            key=STATE_KEY,
            kind=State,
            repair="restore it, or delete it and deploy again with another `repetition`",
        )

    def reconcile(self, trigger: str, *, function_arn: str) -> bool:
        """Observe AWS and do what follows; False where no deployment is known.

        Raises:
            ClientError, BotoCoreError: AWS failed; a later invocation can succeed.
            DocumentError: the state cannot be read.
            TooManyConflictsError: other invocations keep changing the state.
        """
        for _ in range(MAX_ATTEMPTS):
            stored = self.document.read()
            if stored is None or stored.document.deployment is None:
                return False
            try:
                if self._reconcile_once(stored, stored.document.deployment, trigger, function_arn):
                    return True
            except ConflictError:
                self.pause()
        raise TooManyConflictsError(f"the state changed {MAX_ATTEMPTS} times during {trigger}")

    def log_failure(self, event: str, error: Exception) -> None:
        """Log a failure that does not end the invocation, with its traceback."""
        self.log(
            {
                "level": "ERROR",
                "event": event,
                "error": f"{type(error).__name__}: {error}",
                "traceback": "".join(traceback.format_exception(error)),
            }
        )

    def pause(self) -> None:
        """A moment of random length, so that two that collided do not collide again."""
        self.sleep(random.uniform(0, _LONGEST_PAUSE_SECONDS))  # noqa: S311 - no secret

    def scale_to_zero_without_state(self, plan: CapacityPlan, why: str) -> None:
        """Take nodes to zero whose deadline and budget are not known: the state is lost."""
        if self._is_at_zero(plan):
            return
        self.log({"level": "ERROR", "event": "scaled to zero without a state", "text": why})
        lost = notifications.of_lost_state(plan, why, now=self.clock())
        actions.publish(lost, self.clients, self.settings)

    def scale_to_zero(self, plan: CapacityPlan, *, until_unix_s: float) -> None:
        """Take the nodes to zero, and wait until EKS has accepted it; NotZeroError if not."""
        while True:
            try:
                if self._is_at_zero(plan):
                    return
            except (ClientError, BotoCoreError) as error:
                if self.clock() + BUSY_PAUSE_SECONDS > until_unix_s:
                    raise NotZeroError(str(error)) from error
                self.sleep(BUSY_PAUSE_SECONDS)

    def _is_at_zero(self, plan: CapacityPlan) -> bool:
        """Whether no nodes of ours are desired; if some are, this asks for none."""
        nodes = node_group(plan, self.clients, since=self.clock())
        if nodes.ownership == "ours" and nodes.desired_size:
            actions.set_desired_size(plan, self.clients, 0)
            return False
        self._end_drains(nodes)
        return True

    def _reconcile_once(
        self, stored: Stored[State], deployment: Deployment, trigger: str, function_arn: str
    ) -> bool:
        """True when no other invocation wrote the state meanwhile."""
        last = stored.document.last_decision
        since = last.since_unix_s if last else deployment.deployed_at_unix_s
        observation = observe(deployment.plan, self.clients, self.settings, since=since)
        now, nodes = self.clock(), observation.nodes
        step = transition(stored.document, deployment, observation, now=now)
        if step.state != stored.document:
            stored = self.document.write(step.state, over=stored)
        self._log_decision(step, nodes, trigger)
        resized, error = self._resize(step, nodes)
        if step.decision.desired_size == 0:
            self._end_drains(nodes)
        scheduled = self._schedule(step, function_arn)
        refused = self._refused_size(stored.document, error, now)
        sent = self._send(stored.document, (*step.notifications, *refused), now)
        undisturbed = self._record(
            stored,
            resized,
            sent,
            problems=tuple(SIZE_NOT_SET for one in refused if one.id in sent),
            schedule_at_unix_s=scheduled,
        )
        if error and error_code(error) not in actions.BUSY:
            raise error
        return undisturbed

    def _attempt(
        self, action: Callable[[], object], event: str, **fields: object
    ) -> Exception | None:
        """Do something that a later invocation can make up for; a failure is logged."""
        try:
            action()
        except (ClientError, BotoCoreError) as error:
            level = "INFO" if error_code(error) in actions.BUSY else "ERROR"
            self.log({"level": level, "event": event, **fields, "error": str(error)})
            return error
        return None

    def _log_decision(self, step: Transition, nodes: NodeGroup, trigger: str) -> None:
        """One line a decision; nothing where nothing changed."""
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
        """Whether the size was changed, and the error that kept it from changing."""
        size = step.decision.desired_size
        if size is None or size == nodes.desired_size:
            return False, None
        resize = functools.partial(
            actions.set_desired_size, step.deployment.plan, self.clients, size
        )
        error = self._attempt(resize, "size not set", desired_size=size)
        if error is None and not step.is_new:
            self.log({"level": "INFO", "event": "size set again", "desired_size": size})
        return error is None, error

    def _end_drains(self, nodes: NodeGroup) -> None:
        for instance in nodes.draining:
            end = functools.partial(actions.end_drain, nodes, self.clients, instance)
            self._attempt(end, "drain not ended", instance=instance)

    def _schedule(self, step: Transition, function_arn: str) -> float | None:
        """Bring the deadline's schedule up to date; what it is set to now.

        After a failure the next invocation tries again; the heartbeat sees the deadline pass.
        """
        wanted, current = step.schedule_at_unix_s, step.state.schedule_at_unix_s
        if wanted == current:
            return current
        error = self._attempt(
            lambda: actions.schedule_deadline(
                self.clients, self.settings, at_unix_s=wanted, function_arn=function_arn
            ),
            "schedule not set",
        )
        return wanted if error is None else current

    def _record(
        self,
        stored: Stored[State],
        resized: bool,  # noqa: FBT001
        sent: set[str],
        *,
        problems: tuple[str, ...],
        schedule_at_unix_s: float | None,
    ) -> bool:
        """Remember what was done; True if no other invocation wrote the state meanwhile."""
        undisturbed = True
        for _ in range(MAX_ATTEMPTS):
            state = stored.document
            following = replace(
                state,
                outbox=tuple(one for one in state.outbox if one.id not in sent),
                problems=(*state.problems, *problems),
                # An invocation that overtook this one may have set the schedule: it is set again.
                schedule_at_unix_s=schedule_at_unix_s if undisturbed else None,
            )
            try:
                if following != state:
                    self.document.write(following, over=stored)
                elif resized and self.document.read() != stored:
                    return False  # overtaken while the size was being set
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
        self, state: State, error: Exception | None, now: float
    ) -> tuple[Notification, ...]:
        """A notification, once, of a size that EKS refuses for long."""
        deployment, last = state.deployment, state.last_decision
        if not error or not deployment or not last or last.desired_size is None:
            return ()
        refused_seconds = now - last.since_unix_s
        if SIZE_NOT_SET in state.problems or refused_seconds < REPORT_REFUSED_SIZE_AFTER_SECONDS:
            return ()
        return (notifications.of_refused_size(deployment, last.desired_size, str(error), now=now),)

    def _send(self, state: State, new: tuple[Notification, ...], now: float) -> set[str]:
        """Send these, and those that another invocation left unsent; ids of what was sent."""
        left = [n for n in state.outbox if n.made_at_unix_s < now - UNSENT_AFTER_SECONDS]
        send = functools.partial(actions.publish, clients=self.clients, settings=self.settings)
        return {
            one.id
            for one in (*left, *new)
            if not self._attempt(functools.partial(send, one), "not notified")
        }
