"""One transition: state + observation + time -> the next state, and what to do. No AWS here."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from lambdas.capacity_controller import notifications
from lambdas.capacity_controller.decision import Decision, deadline_unix_s, decide
from lambdas.capacity_controller.observation import Observation
from lambdas.capacity_controller.state import Deployment, LastDecision, Notification, State

_MINUTE_SECONDS = 60
# A problem of the controller's own, beside those of the node group.
SIZE_NOT_SET = "size_not_set"
NODES_NOT_SEEN = "nodes_not_seen"
NODES_REMAIN = "nodes_remain"
# A drain that nobody ends takes a quarter of an hour.
REMAIN_AFTER_SECONDS = 30 * 60
# Of notifications that cannot be sent; the state is read up to 1 MiB.
MAX_OUTBOX = 50
# What a limit that is reached later does not change. It is not looked at any more, either.
_RUN_OVER = {"complete", "failed"}
_LIMITS = {"deadline", "budget"}


@dataclass(frozen=True, kw_only=True)
class Transition:
    """What an observation leads to.

    state: the next one; equal to the one before when nothing is to be remembered.
    deployment: the state's current one.
    decision: what holds now.
    is_new: the decision's size or reason differs from the last one's.
    notifications: that come of it; they are in the state's outbox too.
    schedule_at_unix_s: when the deadline's schedule must be set to; None: there must be none.
    """

    state: State
    deployment: Deployment
    decision: Decision
    is_new: bool
    notifications: tuple[Notification, ...]
    schedule_at_unix_s: float | None


def transition(
    state: State, deployment: Deployment, observation: Observation, *, now: float
) -> Transition:
    """What follows from an observation at this time."""
    last, nodes = state.last_decision, observation.nodes
    lost = _nodes_lost(state, deployment, nodes.instances)
    were_desired = bool(last and last.desired_size)
    node_time = deployment.node_time.observed(
        nodes.instances, were_desired=were_desired, now=now, unseen=nodes.desired_size or 0
    )
    deployment = replace(deployment, node_time=node_time)
    decision = decide(deployment, state.status, observation, now=now)
    current, is_new = _current_decision(last, deployment, decision, now)
    if is_new and decision.desired_size:
        # Node time counts from here, not from whenever the last node was seen.
        deployment = replace(deployment, node_time=replace(node_time, observed_at_unix_s=now))
    problems = _problems(state, decision, observation, now)
    made: list[Notification] = []
    if is_new:
        made.append(
            notifications.of_decision(deployment, decision, observation, before=last, now=now)
        )
    if lost and decision.desired_size:
        made.append(notifications.of_lost_nodes(deployment, lost, observation, now=now))
    made += [
        notifications.of_problem(deployment, problem, now=now)
        for problem in nodes.problems
        if problem.kind in problems and problem.kind not in state.problems
    ]
    if NODES_REMAIN in problems and NODES_REMAIN not in state.problems:
        made.append(notifications.of_remaining_nodes(deployment, nodes, now=now))
    return Transition(
        state=replace(
            state.with_deployment(deployment),
            last_decision=current,
            problems=problems,
            outbox=(*state.outbox, *made)[-MAX_OUTBOX:],
        ),
        deployment=deployment,
        decision=decision,
        is_new=is_new,
        notifications=tuple(made),
        schedule_at_unix_s=_schedule(state, deployment, decision, observation, now),
    )


def _current_decision(
    last: LastDecision | None, deployment: Deployment, decision: Decision, now: float
) -> tuple[LastDecision | None, bool]:
    """What is remembered as the last decision, and whether that is a new one."""
    current = LastDecision(
        job_name=deployment.plan.job_name,
        desired_size=decision.desired_size,
        reason=decision.reason,
        since_unix_s=now,
    )
    if last and last.reason in _RUN_OVER and decision.reason in _LIMITS:
        over = replace(current, reason=last.reason)
        current = over if last.job_name == current.job_name else current
    same = last is not None and replace(last, since_unix_s=now) == current
    is_new = decision.reason != "unknown" and not same
    return (current if is_new else last), is_new


def _nodes_lost(state: State, deployment: Deployment, instances: int | None) -> int:
    """Nodes that went although they were desired; one that is replaced beforehand is not lost."""
    if instances is None:
        return 0
    desired = (state.last_decision.desired_size if state.last_decision else None) or 0
    return max(min(deployment.node_time.instances, desired) - min(instances, desired), 0)


def _problems(
    state: State, decision: Decision, observation: Observation, now: float
) -> tuple[str, ...]:
    """The kinds of problems that have been reported, until the nodes are there or not desired."""
    nodes, desired = observation.nodes, decision.desired_size
    if decision.reason == "unknown" or nodes.instances is None:
        return state.problems
    if not desired or nodes.instances >= desired:
        unset = SIZE_NOT_SET in state.problems and nodes.desired_size != desired
        remain = desired == 0 and nodes.instances and _zero_for_long(state, now)
        kinds = {SIZE_NOT_SET: unset, NODES_REMAIN: remain}
        return tuple(kind for kind, holds in kinds.items() if holds)
    return tuple(dict.fromkeys((*state.problems, *(p.kind for p in nodes.problems))))


def _zero_for_long(state: State, now: float) -> bool:
    last = state.last_decision
    return bool(last and last.desired_size == 0 and now - last.since_unix_s >= REMAIN_AFTER_SECONDS)


def _schedule(
    state: State, deployment: Deployment, decision: Decision, observation: Observation, now: float
) -> float | None:
    """The deadline as a full minute, not before it: schedules are exact to a minute."""
    if decision.reason == "unknown":
        return state.schedule_at_unix_s
    end = deadline_unix_s(deployment, observation)
    if state.status == "ended" or now >= end:
        return None
    return math.ceil(end / _MINUTE_SECONDS) * _MINUTE_SECONDS
