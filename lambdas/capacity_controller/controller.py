"""Look, decide, write, act, until nobody else changed the state meanwhile.

The state is written BEFORE anything is done about it, under the condition that nobody wrote since
it was read. Of two invocations with different views one loses, looks again, and decides anew. The
write after acting has the same condition: who was overtaken while acting, and so may have acted on
an older view, looks again too. Notifications wait in the state until they are sent: who dies in
between leaves them to a later look.
"""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from draftworth.records.capacity import CapacityPlan
from lambdas.capacity_controller import acting, notices
from lambdas.capacity_controller.gathering import Clients, look, node_group
from lambdas.capacity_controller.settings import Settings
from lambdas.capacity_controller.state import Deployment, Notice, State
from lambdas.capacity_controller.step import SIZE_NOT_SET, Step, step
from lambdas.capacity_controller.store import StaleError, StateStore, Stored, error_code
from lambdas.capacity_controller.world import NodeGroup, World

MAX_ROUNDS = 12
# A notification that is this old was left by an invocation that died.
ORPHANED_AFTER_SECONDS = 600.0
# A size that EKS did not take for so long is worth a notification; being busy for minutes is not.
PATIENCE_SECONDS = 600.0
BUSY_PAUSE_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 0.5

Log = Callable[[Mapping[str, Any]], None]


class RestlessError(Exception):
    """The state changed during every round: other invocations are at work, a later look goes on."""


class NotZeroError(Exception):
    """The nodes could not be taken to zero in time; the message says how to do it by hand."""


@dataclass(frozen=True, kw_only=True)
class _Acted:
    """What a round did: whether the size was changed, and the error that kept it from changing."""

    size_set: bool = False
    error: Exception | None = None


class Controller:
    """Keeps one node group at the size that follows from the world; `clock` gives Unix seconds."""

    def __init__(
        self,
        *,
        clients: Clients,
        settings: Settings,
        log: Log,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clients = clients
        self._settings = settings
        self._log = log
        self.clock = clock
        self.sleep = sleep
        self.store = StateStore(s3=clients.s3, bucket=settings.results_bucket)

    def look(self, trigger: str, *, function_arn: str) -> bool:
        """Look at the world and do what follows; False where no deployment is known.

        Raises:
            ClientError, BotoCoreError: AWS failed; a later look can succeed.
            StateError: the state's object is broken.
            RestlessError: others keep changing the state.
        """
        for _ in range(MAX_ROUNDS):
            stored = self.store.read()
            deployment = stored.state.deployment
            if deployment is None:
                return False
            try:
                if self._round(stored, deployment, trigger, function_arn):
                    return True
            except StaleError:
                self.pause()
        raise RestlessError(f"the state changed {MAX_ROUNDS} times during {trigger}")

    def report(self, event: str, error: Exception) -> None:
        """Log a failure that does not end the invocation, with its traceback."""
        self._log(
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

    def stop_unknown(self, plan: CapacityPlan, why: str) -> None:
        """Take nodes to zero whose deadline and budget nobody knows: the state is lost.

        Raises:
            ClientError, BotoCoreError: AWS failed; a later look can succeed.
        """
        nodes = node_group(plan, self._clients, since=self.clock())
        if nodes.ownership != "ours" or nodes.desired == 0:
            self._let_go(nodes)
            return
        acting.set_size(plan, self._clients, 0)
        self._log({"level": "ERROR", "event": "stopped without a state", "text": why})
        acting.publish(notices.of_lost_state(plan, why), self._clients, self._settings)

    def ensure_zero(self, plan: CapacityPlan, *, until_unix_s: float) -> None:
        """Take the nodes to zero and see that EKS has taken it, whatever else it is busy with.

        Raises:
            NotZeroError: it did not until then.
        """
        while True:
            try:
                nodes = node_group(plan, self._clients, since=self.clock())
                if nodes.ownership != "ours" or nodes.desired == 0:
                    acting.let_go(nodes, self._clients)
                    return
                acting.set_size(plan, self._clients, 0)
            except (ClientError, BotoCoreError) as error:
                why = str(error)
                if self.clock() + BUSY_PAUSE_SECONDS > until_unix_s:
                    raise NotZeroError(why) from error
                self.sleep(BUSY_PAUSE_SECONDS)

    def _round(
        self, stored: Stored, deployment: Deployment, trigger: str, function_arn: str
    ) -> bool:
        """One look; True when nobody else wrote the state during it."""
        last = stored.state.decided
        since = last.since_unix_s if last else deployment.deployed_at_unix_s
        world = look(deployment.plan, self._clients, self._settings, since=since)
        now = self.clock()
        result = step(stored.state, deployment, world, now=now)
        if result.state != stored.state:
            stored = self.store.write(result.state, over=stored)
        self._tell(stored.state, result, world, trigger)
        acted = self._set_size(stored.state, result, world)
        if result.size == 0:
            self._let_go(world.nodes)
        scheduled = self._schedule(stored.state, result, function_arn)
        complaint = self._complaint(stored.state, acted, now)
        sent = self._send(stored.state, result.said, complaint, now)
        undisturbed = self._record(
            stored,
            acted,
            sent,
            complained=complaint is not None and complaint.id in sent,
            schedule_at_unix_s=scheduled,
        )
        if acted.error and error_code_of(acted.error) not in acting.BUSY:
            raise acted.error
        return undisturbed

    def _tell(self, state: State, result: Step, world: World, trigger: str) -> None:
        """The log: one line a decision; an unchanged world is silent."""
        deployment = state.deployment
        if deployment is None or not (result.is_new or result.decision.reason == "unknown"):
            return
        self._log(
            {
                "level": "INFO" if result.is_new else "WARNING",
                "event": "decision" if result.is_new else "not decided",
                "trigger": trigger,
                "experiment": deployment.plan.experiment,
                "job": deployment.plan.job_name,
                "desired": world.nodes.desired,
                "existing": world.nodes.existing,
                "size": result.size,
                "reason": result.decision.reason,
                "text": result.decision.text,
                "spent_usd": round(deployment.spent_usd, 2),
                "budget_usd": deployment.plan.budget_usd,
                "deadline_unix_s": result.schedule_at_unix_s,
            }
        )

    def _set_size(self, state: State, result: Step, world: World) -> _Acted:
        size, deployment = result.size, state.deployment
        if size is None or deployment is None or size == world.nodes.desired:
            return _Acted()
        try:
            acting.set_size(deployment.plan, self._clients, size)
        except (ClientError, BotoCoreError) as error:
            busy = error_code_of(error) in acting.BUSY
            level = "INFO" if busy else "ERROR"
            self._log({"level": level, "event": "size not set", "size": size, "error": str(error)})
            return _Acted(error=error)
        if not result.is_new:
            self._log({"level": "INFO", "event": "size set again", "size": size})
        return _Acted(size_set=True)

    def _let_go(self, nodes: NodeGroup) -> None:
        for failure in acting.let_go(nodes, self._clients):
            self._log({"level": "WARNING", "event": "drain not ended", "error": failure})

    def _schedule(self, state: State, result: Step, function_arn: str) -> float | None:
        """Bring the deadline's schedule up to date; what it is set to now."""
        wanted, current = result.schedule_at_unix_s, state.schedule_at_unix_s
        if wanted == current:
            return current
        try:
            if wanted is None:
                acting.unschedule_deadline(self._clients, self._settings)
            else:
                acting.schedule_deadline(
                    self._clients, self._settings, at_unix_s=wanted, function_arn=function_arn
                )
        except (ClientError, BotoCoreError) as error:
            # The next look tries again; until then the heartbeat sees the deadline pass.
            self._log({"level": "ERROR", "event": "schedule not set", "error": str(error)})
            return current
        return wanted

    def _record(
        self,
        stored: Stored,
        acted: _Acted,
        sent: set[str],
        *,
        complained: bool,
        schedule_at_unix_s: float | None,
    ) -> bool:
        """Remember what was done; True if nobody else wrote the state meanwhile."""
        undisturbed = True
        for _ in range(MAX_ROUNDS):
            state = stored.state
            following = replace(
                state,
                outbox=tuple(notice for notice in state.outbox if notice.id not in sent),
                problems=(*state.problems, *((SIZE_NOT_SET,) if complained else ())),
                # Whoever overtook this round may have set the schedule too: it is set again.
                schedule_at_unix_s=schedule_at_unix_s if undisturbed else None,
            )
            try:
                if following == state:
                    return undisturbed and not self._overtaken(stored, acted)
                self.store.write(following, over=stored)
            except StaleError:
                undisturbed = False
                self.pause()
                stored = self.store.read()
            else:
                return undisturbed
        raise RestlessError("the state changed at each attempt to write what was done")

    def _overtaken(self, stored: Stored, acted: _Acted) -> bool:
        """Whether somebody else wrote the state while the size was being set."""
        return acted.size_set and self.store.read().etag != stored.etag

    def _complaint(self, state: State, acted: _Acted, now: float) -> Notice | None:
        deployment, decided = state.deployment, state.decided
        if acted.error is None or deployment is None or decided is None or decided.size is None:
            return None
        if SIZE_NOT_SET in state.problems or now - decided.since_unix_s < PATIENCE_SECONDS:
            return None
        return notices.of_unset_size(deployment, decided.size, str(acted.error), now=now)

    def _send(
        self, state: State, said: tuple[Notice, ...], complaint: Notice | None, now: float
    ) -> set[str]:
        """Ids of the notifications that were sent: this round's, and those that were orphaned."""
        orphaned = [n for n in state.outbox if n.made_at_unix_s < now - ORPHANED_AFTER_SECONDS]
        sent = set()
        for notice in (*orphaned, *said, *([complaint] if complaint else [])):
            try:
                acting.publish(notice, self._clients, self._settings)
            except (ClientError, BotoCoreError) as error:
                self._log({"level": "ERROR", "event": "not notified", "error": str(error)})
            else:
                sent.add(notice.id)
        return sent


def error_code_of(error: Exception) -> str:
    """AWS's short name of an error, empty for one that is not AWS's answer."""
    return error_code(error) if isinstance(error, ClientError) else ""
