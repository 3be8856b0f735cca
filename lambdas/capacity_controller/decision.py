"""Decides how many accelerator nodes are desired now, and why, without calls to AWS.

Reasons that end a run are checked first and use as little of the observation as possible: deadline
and budget use none of it. `now` is a Unix time in seconds everywhere.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from draftworth.records.controller_state import Deployment, Status
from draftworth.records.deployment import BLOCK_MARGIN_SECONDS
from draftworth.records.servers import SELF_TEST_LIMIT_MINUTES
from lambdas.capacity_controller.observation import Observation
from lambdas.capacity_controller.reserved_block import CapacityBlock, NoCapacityBlock
from lambdas.capacity_controller.silent_pods import canary_is_silent
from lambdas.capacity_controller.unknown import Unknown

# The texts in `mails.toml`.
WORDS: Mapping[str, Any] = tomllib.loads(
    Path(__file__).with_name("mails.toml").read_text(encoding="utf-8")
)

# Mail subjects show these reasons with spaces instead of `_`. docs/troubleshooting.md has a row for
# each except `unknown`, which is only logged.
Reason = Literal[
    "ready",
    "ended",
    "stopped",
    "complete",
    "failed",
    "server_gave_up",
    "self_test_silent",
    "no_server_ready",
    "not_begun",
    "deadline",
    "budget",
    "no_block",
    "block_not_started",
    "block_over",
    "waiting_for_models",
    "staging_failed",
    "tokenizer_mismatch",
    "waiting_for_canary",
    "canary_failed",
    "on_hold",
    "no_node_group",
    "foreign_node_group",
    "unknown",
]
# A node is ready some minutes after its start, and the measuring Job's pod writes a file of its run
# as soon as it runs. If there is none after this much paid time per node, the pod cannot run: it
# lacks its image or memory.
BEGIN_WITHIN_NODE_SECONDS = 45 * 60
# Paid time per node in which a server's pod must report its self-test. The test takes seconds if
# all is well, `SELF_TEST_LIMIT_MINUTES` at most. Before it, the node starts (10 minutes at most, as
# `draftworth plan` assumes) and pulls the image (8 minutes). A pod that has reported nothing by
# then has no container: a device, a volume or the image is missing.
SELF_TEST_WITHIN_NODE_SECONDS = 30 * 60
# If zero nodes would be decided for one of these reasons, running nodes of a Capacity Block stay:
# they are paid for, and another deploy can solve the problem.
_KEPT_IN_A_BLOCK: frozenset[Reason] = frozenset(
    {
        "server_gave_up",
        "failed",
        "self_test_silent",
        "not_begun",
        "no_server_ready",
        "waiting_for_models",
        "staging_failed",
        "tokenizer_mismatch",
        "waiting_for_canary",
        "canary_failed",
    }
)
_BLOCK_NOT_STARTED = {"scheduled", "pending", "payment-pending", "assessing", "delayed"}


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The number of nodes that the node group must have, and why.

    desired_size: the number of nodes; None: the node group is left as it is.
    text: the reason in words, for a person.
    last_lines: the end of the log of the server or canary that failed; empty for other reasons.
    """

    desired_size: int | None
    reason: Reason
    text: str
    last_lines: tuple[str, ...] = ()


def decide(
    deployment: Deployment, status: Status, observation: Observation, *, now: float
) -> Decision:
    """Decide how many nodes the node group must have at the time `now`, and why.

    The first reason against nodes decides. Without such a reason, all nodes of the plan are
    desired; but if a part of the observation failed, the node group stays as it is. A plan on hold
    has no nodes in any case: nodes of an earlier deploy go, even if nothing is known.
    deployment: the plan, and what was paid so far. status: `ended`: the stack is being deleted.
    """
    decision = _by_observation(deployment, status, observation, now)
    if deployment.plan.hold and observation.nodes.ownership == "ours":
        return replace(decision, desired_size=0)
    return decision


def _by_observation(
    deployment: Deployment, status: Status, observation: Observation, now: float
) -> Decision:
    for decision in _reasons_against(deployment, status, observation, now):
        return _kept_in_a_block(decision, observation, now)
    unknowns = [part.why for part in vars(observation).values() if isinstance(part, Unknown)]
    if unknowns:
        return Decision(desired_size=None, reason="unknown", text="; ".join(unknowns))
    if deployment.plan.hold:
        return _decided(0, "on_hold")
    nodes = deployment.plan.nodes
    size = f"{nodes} accelerator node{'s' if nodes > 1 else ''}"
    until = utc(deadline_unix_s(deployment, observation))
    return _decided(nodes, "ready", size=size, until=until)


def decide_without_state(
    deployment: Deployment, observation: Observation, *, now: float
) -> Decision | None:
    """Decide whether nodes go to zero, for a deployment of which only the plan is known.

    None: the nodes stay. The reports of canaries and servers are not used, because they may be of
    an older deploy.
    """
    reasons = (
        *_stopped(observation),
        *_complete(observation),
        *_failed(observation),
        *limits_reached(deployment, now),
        *_no_block_now(observation, now),
    )
    kept = _kept_in_a_block(reasons[0], observation, now) if reasons else None
    return kept if kept and kept.desired_size is not None else None


def deadline_unix_s(deployment: Deployment, observation: Observation) -> float:
    """Return the experiment's deadline, or the end of a Capacity Block's nodes if it is sooner."""
    deadline = deployment.own_deadline_unix_s
    if isinstance(observation.block, CapacityBlock):
        return min(deadline, observation.block.ends_at_unix_s - BLOCK_MARGIN_SECONDS)
    return deadline


def utc(unix_s: float) -> str:
    """Format a time as `2026-11-21 10:20 UTC`."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _reasons_against(
    deployment: Deployment, status: Status, observation: Observation, now: float
) -> Iterator[Decision]:
    """Yield a decision for each reason why no nodes should start or run, the strongest first."""
    yield from _without_a_node_group(deployment, observation)
    if status == "ended":
        yield _decided(0, "ended")
    yield from _stopped(observation)
    yield from _complete(observation)
    yield from _server_gave_up(deployment, observation)
    yield from _failed(observation)
    yield from limits_reached(deployment, now)
    yield from _self_test_silent(deployment, observation)
    yield from _not_begun(deployment, observation)
    yield from _no_server_ready(deployment, observation)
    yield from _no_block_now(observation, now)
    yield from _not_staged(observation)
    yield from _not_tried(deployment, observation, now)


def _kept_in_a_block(decision: Decision, observation: Observation, now: float) -> Decision:
    block = observation.block
    # A node group of size 0 stays at 0, in a Capacity Block too.
    if decision.reason not in _KEPT_IN_A_BLOCK or not observation.nodes.desired_size:
        return decision
    if isinstance(block, Unknown):  # EKS and EC2 end the block's nodes in any case
        return replace(decision, desired_size=None)
    if not isinstance(block, CapacityBlock) or any(_outside_the_block(block, now)):
        return decision
    until = utc(block.ends_at_unix_s - BLOCK_MARGIN_SECONDS)
    text = f"{decision.text}. The Capacity Block is paid for: its nodes stay until {until}"
    return replace(decision, desired_size=None, text=text)


def _without_a_node_group(deployment: Deployment, observation: Observation) -> Iterator[Decision]:
    plan, ownership = deployment.plan, observation.nodes.ownership
    if ownership == "missing":
        yield _decided(None, "no_node_group", plan=plan)
    if ownership == "foreign":
        wanted = ", ".join(f"{k}={v}" for k, v in plan.nodegroup_tags.items())
        yield _decided(None, "foreign_node_group", plan=plan, wanted=wanted)


def _stopped(observation: Observation) -> Iterator[Decision]:
    if observation.stopped is True:
        yield _decided(0, "stopped")


def _complete(observation: Observation) -> Iterator[Decision]:
    run = observation.run
    if not isinstance(run, Unknown) and run.state == "complete":
        yield _decided(0, "complete", run=run)


def _failed(observation: Observation) -> Iterator[Decision]:
    run = observation.run
    if not isinstance(run, Unknown) and run.state == "failed":
        yield _decided(0, "failed", run=run)


def _server_gave_up(deployment: Deployment, observation: Observation) -> Iterator[Decision]:
    """Yield the decision for zero nodes if a server was given up: it will not be started again.

    The decision quotes the end of that server's log.
    """
    if deployment.servers.gave_up:
        servers = observation.servers
        lines = () if isinstance(servers, Unknown) else servers.last_lines
        yield replace(_zero("server_gave_up", deployment.servers.gave_up), last_lines=lines)


def limits_reached(deployment: Deployment, now: float) -> Iterator[Decision]:
    """Yield the decision for zero nodes for each limit that is reached: the deadline, the budget.

    A Capacity Block is paid in advance, so the budget does not end its nodes. A plan on hold has no
    limits, because it has no nodes: however late a canary succeeds, it is still observed.
    """
    plan, deadline = deployment.plan, deployment.own_deadline_unix_s
    if plan.hold:
        return
    if now >= deadline:
        yield _decided(0, "deadline", deadline=utc(deadline), plan=plan)
    if plan.reservation_id is None and deployment.spent_usd >= plan.budget_usd:
        yield _decided(0, "budget", usd=deployment.spent_usd, plan=plan)


def _self_test_silent(deployment: Deployment, observation: Observation) -> Iterator[Decision]:
    """Yield the decision for zero nodes if no server's pod has ended its self-test in time.

    The limit is `SELF_TEST_WITHIN_NODE_SECONDS` of paid time. A measured result counts as the ended
    self-test of a server that cannot report its state. After the first self-test only the longer
    limit of `_no_server_ready` holds, because one of two nodes may wait for capacity while the
    other is paid for. Nodes that existed before the deploy have only that longer limit too: a
    server that the deploy left unchanged may still compile there.
    """
    plan, waited = deployment.plan, deployment.without_server_seconds
    servers, run = observation.servers, observation.run
    if isinstance(servers, Unknown) or isinstance(run, Unknown):
        return
    if servers.is_tested or run.measured_at_unix_s is not None:
        return
    if deployment.servers.nodes_since_unix_s < deployment.deployed_at_unix_s:
        return
    if waited >= SELF_TEST_WITHIN_NODE_SECONDS * plan.nodes:
        limit = SELF_TEST_LIMIT_MINUTES
        yield _decided(0, "self_test_silent", minutes=waited / 60, limit=limit)


def _not_begun(deployment: Deployment, observation: Observation) -> Iterator[Decision]:
    plan, paid, run = deployment.plan, deployment.node_time.node_seconds, observation.run
    if isinstance(run, Unknown) or run.state != "none":
        return
    if paid >= BEGIN_WITHIN_NODE_SECONDS * plan.nodes:
        yield _decided(0, "not_begun", minutes=paid / 60, plan=plan)


def _no_server_ready(deployment: Deployment, observation: Observation) -> Iterator[Decision]:
    """Yield the decision for zero nodes if no server is ready after `startup_minutes` per node."""
    plan, waited = deployment.plan, deployment.without_server_seconds
    if isinstance(observation.servers, Unknown) or isinstance(observation.run, Unknown):
        return
    if waited >= plan.startup_minutes * 60 * deployment.plan.nodes:
        yield _decided(0, "no_server_ready", minutes=waited / 60, plan=plan)


def _no_block_now(observation: Observation, now: float) -> Iterator[Decision]:
    if isinstance(observation.block, NoCapacityBlock):
        yield _zero("no_block", observation.block.why)
    if isinstance(observation.block, CapacityBlock):
        yield from _outside_the_block(observation.block, now)


def _outside_the_block(block: CapacityBlock, now: float) -> Iterator[Decision]:
    start, end = block.starts_at_unix_s, block.ends_at_unix_s
    if now >= end - BLOCK_MARGIN_SECONDS:
        minutes = BLOCK_MARGIN_SECONDS // 60
        yield _zero(
            "block_over",
            f"the Capacity Block ends at {utc(end)}; "
            f"EKS takes its nodes away {minutes} minutes before",
        )
    elif block.state in _BLOCK_NOT_STARTED or (block.state == "active" and now < start):
        yield _zero("block_not_started", f"the Capacity Block is {block.state} until {utc(start)}")
    elif block.state != "active":
        yield _zero("block_over", f"the Capacity Block is {block.state}")


def _not_staged(observation: Observation) -> Iterator[Decision]:
    models = observation.models
    if isinstance(models, Unknown) or models.staging == "ready":
        return
    if models.staging == "unreadable" and observation.nodes.desired_size:
        yield Decision(desired_size=None, reason="unknown", text=models.text)
    if models.staging == "failed":
        yield _zero("staging_failed", models.text)
    if models.staging == "mismatch":
        yield _zero("tokenizer_mismatch", models.text)
    yield _zero("waiting_for_models", f"not staged yet: {models.text}")


def _not_tried(deployment: Deployment, observation: Observation, now: float) -> Iterator[Decision]:
    """Yield the decision that no nodes may start, until all canaries have succeeded.

    Nodes that exist stay until a canary fails or is silent for too long.
    """
    canaries, nodes_up = observation.canaries, observation.nodes.desired_size
    if isinstance(canaries, Unknown) or canaries.state == "ok":
        return
    if canaries.state == "failed":
        yield replace(_zero("canary_failed", canaries.text), last_lines=canaries.last_lines)
    if canaries.state == "unreadable" and nodes_up:
        yield Decision(desired_size=None, reason="unknown", text=canaries.text)
    waiting = _zero("waiting_for_canary", f"not tried on a CPU node yet: {canaries.text}")
    patient = canaries.state == "missing" and not canary_is_silent(deployment, observation, now)
    yield replace(waiting, desired_size=None) if patient and nodes_up else waiting


def _decided(desired_size: int | None, reason: Reason, **values: object) -> Decision:
    text = WORDS["reasons"][reason].format(**values)
    return Decision(desired_size=desired_size, reason=reason, text=text)


def _zero(reason: Reason, text: str) -> Decision:
    return Decision(desired_size=0, reason=reason, text=text)
