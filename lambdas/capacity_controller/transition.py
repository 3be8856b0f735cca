"""Computes the controller's next state from its state and an observation, without calls to AWS.

`now` is a Unix time in seconds everywhere.
"""

import math
from dataclasses import dataclass, replace

from draftworth.records.controller_state import Deployment, LastDecision, Notification, State
from lambdas.capacity_controller.decision import (
    Decision,
    deadline_unix_s,
    decide,
)
from lambdas.capacity_controller.notifications import Mail, of_decision, of_mail, of_problem
from lambdas.capacity_controller.observation import Observation
from lambdas.capacity_controller.remaining_nodes import due
from lambdas.capacity_controller.reserved_block import CapacityBlock
from lambdas.capacity_controller.silent_pods import (
    canary_is_silent,
    job_is_silent,
    staging_is_silent,
)
from lambdas.capacity_controller.unknown import Unknown

_MINUTE_SECONDS = 60
# How many unsent notifications the state keeps. With more of them it could exceed 1 MiB, and larger
# states are not read.
MAX_OUTBOX = 50
# If the last decision has one of these reasons, it keeps this reason when a limit is reached later.
_RUN_OVER = {"complete", "failed", "server_gave_up"}
_LIMITS = {"deadline", "budget"}


@dataclass(frozen=True, kw_only=True)
class Transition:
    """The next state, and what the controller must do.

    state: the next state; equal to the previous state if nothing changed.
    deployment: the current deployment of that state, with the node time paid until now.
    is_new: whether `decision` has another Job, size or reason than the last decision; false for the
        reason `unknown`.
    asks_again: whether EKS is asked for zero nodes again, because instances still exist.
    notifications: new notifications, which are in the state's outbox too.
    schedule_at_unix_s: the time for the deadline's schedule; None: there must be no schedule.
    """

    state: State
    deployment: Deployment
    decision: Decision
    is_new: bool
    asks_again: bool
    notifications: tuple[Notification, ...]
    schedule_at_unix_s: float | None


def transition(
    state: State, deployment: Deployment, observation: Observation, *, now: float
) -> Transition:
    """Return the next state, and what the controller must do, from what was observed at `now`.

    state: the state that was read from S3. deployment: the current deployment of that state.
    """
    last, nodes = state.last_decision, observation.nodes
    were_desired = (last.desired_size if last else None) or 0
    lost = _nodes_lost(deployment, nodes.instances, of=were_desired)
    paid_before_seconds = deployment.node_time.node_seconds
    deployment = _observed(deployment, observation, were_desired=bool(were_desired), now=now)
    paid_seconds = deployment.node_time.node_seconds - paid_before_seconds
    decision = decide(deployment, state.status, observation, now=now)
    current, is_new = _current_decision(last, deployment, decision, now)
    if is_new and decision.desired_size:
        # Nodes are asked for now, so paid node time counts from now, not from the last observation.
        # The time in which a server must become ready begins anew too, unless the Job's nodes exist
        # already, as when the node group only lacked the plan's tags for a while.
        counted = replace(deployment.node_time, observed_at_unix_s=now)
        deployment = replace(deployment, node_time=counted)
        another_job = last is None or last.job_name != deployment.plan.job_name
        if another_job or not counted.instances:
            deployment = deployment.with_whole_allowance()
    problems = _problems(state, deployment, decision, observation, now)
    made: list[Notification] = []
    if is_new:
        made.append(of_decision(deployment, decision, observation, before=last, now=now))
    if lost and decision.desired_size:
        made.append(of_mail(Mail.LOST_NODES, deployment, observation, number=lost, now=now))
    new = set(problems) - set(state.problems)
    made += [of_problem(deployment, one, now=now) for one in nodes.problems if one.kind in new]
    made += [of_mail(one, deployment, observation, now=now) for one in Mail if one in new]
    stay = due(state.remaining, deployment, decision, nodes, paid_seconds=paid_seconds, now=now)
    made += stay.mails
    return Transition(
        state=replace(
            state.with_deployment(deployment),
            last_decision=current,
            problems=problems,
            remaining=stay.remaining,
            outbox=(*state.outbox, *made)[-MAX_OUTBOX:],
        ),
        deployment=deployment,
        decision=decision,
        is_new=is_new,
        asks_again=stay.asks_again,
        notifications=tuple(made),
        schedule_at_unix_s=_schedule(state, deployment, decision, observation, now),
    )


def _current_decision(
    last: LastDecision | None, deployment: Deployment, decision: Decision, now: float
) -> tuple[LastDecision | None, bool]:
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


def _observed(
    deployment: Deployment, observation: Observation, *, were_desired: bool, now: float
) -> Deployment:
    nodes, block = observation.nodes, observation.block
    node_time = deployment.node_time.observed(
        nodes.instances, were_desired=were_desired, now=now, unseen=nodes.desired_size or 0
    )
    whole_block = deployment.block_node_seconds
    if isinstance(block, CapacityBlock):
        whole_block = (block.ends_at_unix_s - block.starts_at_unix_s) * block.instances
    gone = _nodes_lost(deployment, nodes.instances, of=deployment.plan.nodes)
    servers, wait = observation.servers, deployment.servers
    if gone:
        wait = replace(wait, nodes_since_unix_s=max(wait.nodes_since_unix_s, now))
    healthy = None
    if not isinstance(servers, Unknown):
        healthy = servers.healthy_since_unix_s
        wait = replace(wait, gave_up=wait.gave_up or servers.gave_up)
    seen = replace(deployment, node_time=node_time, servers=wait, block_node_seconds=whole_block)
    ready = healthy is not None and healthy >= wait.nodes_since_unix_s
    measured = None if isinstance(observation.run, Unknown) else observation.run.measured_at_unix_s
    # A result proves that a server was ready when it was written, not that one is ready now.
    was_ready = measured is not None and measured > deployment.node_time.observed_at_unix_s
    # Nodes that ended because they were no longer desired are not lost.
    lost = gone and were_desired
    return seen.with_whole_allowance() if lost or ready or was_ready else seen


def _nodes_lost(deployment: Deployment, instances: int | None, *, of: int) -> int:
    """Return how many of the `of` nodes that should exist were lost since the last observation.

    Nodes beyond `of` are not counted: a node that was replaced before it ended is not lost.
    instances: the number now; None: it is unknown, so no node counts as lost.
    """
    if instances is None:
        return 0
    return max(min(deployment.node_time.instances, of) - min(instances, of), 0)


def _problems(
    state: State,
    deployment: Deployment,
    decision: Decision,
    observation: Observation,
    now: float,
) -> tuple[str, ...]:
    nodes, desired = observation.nodes, decision.desired_size
    if decision.reason == "unknown" or nodes.instances is None:
        return state.problems
    if not desired or nodes.instances >= desired:
        waiting = decision.reason == "waiting_for_canary"
        kinds: dict[str, object] = {
            Mail.SIZE_NOT_SET: Mail.SIZE_NOT_SET in state.problems
            and nodes.desired_size != desired,
            Mail.MORE_NODES: desired and nodes.instances > desired,
            Mail.CANARY_SILENT: waiting and canary_is_silent(deployment, observation, now),
            Mail.STAGING_SILENT: decision.reason == "waiting_for_models"
            and staging_is_silent(deployment, observation, now),
            Mail.JOB_SILENT: desired and job_is_silent(observation, now),
        }
        return tuple(kind for kind, holds in kinds.items() if holds)
    return tuple(dict.fromkeys((*state.problems, *(p.kind for p in nodes.problems))))


def _schedule(
    state: State, deployment: Deployment, decision: Decision, observation: Observation, now: float
) -> float | None:
    """Return the Unix time for the deadline's schedule, rounded up to a full minute.

    None: there must be no schedule, because the deadline has passed or the stack is deleted.
    Without a decision the schedule stays as it is.
    """
    if decision.reason == "unknown":
        return state.schedule_at_unix_s
    end = deadline_unix_s(deployment, observation)
    if state.status == "ended" or now >= end:
        return None
    return math.ceil(end / _MINUTE_SECONDS) * _MINUTE_SECONDS
