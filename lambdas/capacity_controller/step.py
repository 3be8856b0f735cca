"""One step: state + world + time -> the next state, and what is to be done. No AWS here."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from lambdas.capacity_controller import notices
from lambdas.capacity_controller.decision import Decision, deadline_unix_s, decide
from lambdas.capacity_controller.state import Decided, Deployment, Ledger, Notice, State
from lambdas.capacity_controller.world import World

_MINUTE_SECONDS = 60
# A problem of the controller's own, beside those of the node group.
SIZE_NOT_SET = "size_not_set"


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one look leads to.

    state: the next one; equal to the one before when nothing is to be remembered.
    decision: what holds now.
    is_new: the decision's size or reason differs from the last one's.
    said: notifications that come of it; they are in the state's outbox too.
    schedule_at_unix_s: when the deadline's schedule must be set to; None: there must be none.
    """

    state: State
    decision: Decision
    is_new: bool
    said: tuple[Notice, ...]
    schedule_at_unix_s: float | None

    @property
    def size(self) -> int | None:
        """The size that the node group must get; None: it is left as it is."""
        return self.decision.size


def step(state: State, deployment: Deployment, world: World, *, now: float) -> Step:
    """What follows from a look at the world at this time."""
    asked_for = bool(state.decided and state.decided.size)
    ledger = deployment.ledger.observed(world.nodes.existing, asked_for=asked_for, now=now)
    lost = _nodes_lost(deployment.ledger, state, world)
    deployment = replace(deployment, ledger=ledger)
    decision = decide(deployment, state.status, world, now=now)
    decided, is_new = _decided(state, deployment, decision, now)
    if is_new and decision.size:
        # Node time counts from here, not from whenever the last node was seen.
        deployment = replace(deployment, ledger=replace(ledger, observed_at_unix_s=now))
    problems = _problems(state, decision, world)
    said = tuple(
        notices.dated(notice, now)
        for notice in _said(
            state, deployment, decision, world, is_new=is_new, lost=lost, problems=problems
        )
    )
    following = replace(
        state.with_deployment(deployment),
        decided=decided,
        problems=problems,
        outbox=(*state.outbox, *said),
    )
    return Step(
        state=following,
        decision=decision,
        is_new=is_new,
        said=said,
        schedule_at_unix_s=_schedule(state, deployment, decision, world, now),
    )


def _decided(
    state: State, deployment: Deployment, decision: Decision, now: float
) -> tuple[Decided | None, bool]:
    """What is remembered as the last decision, and whether that is a new one."""
    last = state.decided
    if decision.reason == "unknown":
        return last, False
    name = deployment.plan.job_name
    if last and (last.job_name, last.size, last.reason) == (name, decision.size, decision.reason):
        return last, False
    fresh = Decided(job_name=name, size=decision.size, reason=decision.reason, since_unix_s=now)
    return fresh, True


def _nodes_lost(ledger: Ledger, state: State, world: World) -> int:
    """Nodes that went although they were wanted; one that is replaced beforehand is not lost."""
    wanted = state.decided.size if state.decided and state.decided.size else 0
    before, after = min(ledger.nodes, wanted), min(world.nodes.existing, wanted)
    return max(before - after, 0)


def _problems(state: State, decision: Decision, world: World) -> tuple[str, ...]:
    """The kinds of problems that have been told of, until the nodes are there or not wanted."""
    if decision.reason == "unknown":
        return state.problems
    kept = tuple(
        kind
        for kind in state.problems
        if kind == SIZE_NOT_SET and world.nodes.desired != decision.size
    )
    if not decision.size or world.nodes.existing >= decision.size:
        return kept
    return tuple(dict.fromkeys((*state.problems, *(p.kind for p in world.nodes.problems))))


def _said(
    state: State,
    deployment: Deployment,
    decision: Decision,
    world: World,
    *,
    is_new: bool,
    lost: int,
    problems: tuple[str, ...],
) -> Iterator[Notice]:
    if is_new:
        yield notices.of_decision(deployment, decision, before=state.decided, world=world)
    if lost and decision.size:
        yield notices.of_lost_nodes(deployment, lost, world)
    for problem in world.nodes.problems:
        if problem.kind in problems and problem.kind not in state.problems:
            yield notices.of_problem(deployment, problem)


def _schedule(
    state: State, deployment: Deployment, decision: Decision, world: World, now: float
) -> float | None:
    """The deadline as a full minute, not before it: schedules are exact to a minute."""
    if decision.reason == "unknown":
        return state.schedule_at_unix_s
    end = deadline_unix_s(deployment, world)
    if state.status == "ended" or now >= end:
        return None
    return math.ceil(end / _MINUTE_SECONDS) * _MINUTE_SECONDS
