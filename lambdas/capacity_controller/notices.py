"""The notifications: what was decided, why, what it has cost, and what can be done about it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from draftworth.records.capacity import STATE_KEY, CapacityPlan
from lambdas.capacity_controller.decision import Decision, Reason, deadline_unix_s, utc
from lambdas.capacity_controller.state import Decided, Deployment, Notice
from lambdas.capacity_controller.world import Problem, World

# Amazon SNS: "must be less than 100 characters long", ASCII, no line breaks.
MAX_SUBJECT_CHARACTERS = 99
_RUN_AGAIN = "To measure again, raise `repetition` in the experiment and deploy."
_NEXT: Mapping[Reason, str] = {
    "ready": "Next: nothing. The nodes start, the servers compile or load, the run begins.",
    "ended": "Next: nothing.",
    "stopped": "Next: delete the object control/stop of the results bucket to go on.",
    "complete": f"Next: read the report. {_RUN_AGAIN}",
    "failed": f"Next: read run.json and the Job's log. {_RUN_AGAIN}",
    "not_begun": "Next: see why the Job's pod does not start or ends at once: "
    f"kubectl -n draftworth describe pods. {_RUN_AGAIN}",
    "deadline": "Next: raise aws.deadline_minutes and deploy; it counts from the first deploy of "
    "this Job. A run whose run.json does not say failed by then goes on where it stopped.",
    "budget": "Next: raise aws.budget_usd and deploy. A run whose run.json does not say failed by "
    "then goes on where it stopped.",
    "no_block": "Next: name the reservation of an active Capacity Block in the experiment and "
    "deploy; `python -m draftworth preflight EXPERIMENT` looks it up.",
    "block_not_started": "Next: nothing. The nodes start with the block.",
    "block_over": "Next: name another Capacity Block in the experiment and deploy, or extend this "
    "one: what counts is its end when the function looks.",
    "waiting_for_models": "Next: nothing, if the staging Jobs run: kubectl -n draftworth get jobs",
    "no_node_group": "Next: deploy the cluster stack; a deploy that replaces the node group ends "
    "this by itself.",
    "foreign_node_group": "Next: give the experiment another name.",
}


def of_decision(
    deployment: Deployment, decision: Decision, *, before: Decided | None, world: World
) -> Notice:
    """A decision, size and reason."""
    plan = deployment.plan
    was = "-" if before is None or before.size is None else before.size
    size = "unchanged" if decision.size is None else decision.size
    lines = [
        f"Accelerator nodes of {plan.experiment}: {was} -> {size}",
        f"Reason: {decision.text}",
        _NEXT.get(decision.reason, ""),
        "",
        *_facts(deployment, deadline_unix_s(deployment, world)),
    ]
    subject = f"draftworth {plan.experiment}: {size} nodes, {decision.reason.replace('_', ' ')}"
    return _notice(subject, lines)


def of_problem(deployment: Deployment, problem: Problem) -> Notice:
    """Nodes that were asked for do not come."""
    plan = deployment.plan
    lines = [
        f"The accelerator nodes of {plan.experiment} do not come: {problem.text}",
        "",
        *_facts(deployment, deployment.own_deadline_unix_s),
    ]
    return _notice(f"draftworth {plan.experiment}: {problem.kind.replace('_', ' ')}", lines)


def of_lost_nodes(deployment: Deployment, lost: int, world: World) -> Notice:
    """Nodes went although they were wanted."""
    plan = deployment.plan
    lines = [
        f"{plan.experiment} lost {lost} of {plan.nodes} accelerator nodes:",
        "a Spot interruption, or an instance that failed.",
        "Auto Scaling starts another one as soon as there is capacity;",
        "the run goes on at the next block that is not measured yet.",
        f"Next: nothing. The reason is in the activity history of {world.nodes.auto_scaling_group}",
        "",
        *_facts(deployment, deadline_unix_s(deployment, world)),
    ]
    return _notice(f"draftworth {plan.experiment}: {lost} accelerator node(s) lost", lines)


def of_unset_size(deployment: Deployment, size: int, error: str, *, now: float) -> Notice:
    """The node group does not take its size."""
    plan = deployment.plan
    lines = [
        f"The accelerator nodes of {plan.experiment} should be {size}, but EKS does not take it:",
        error,
        "It is tried again at every look. Until then what runs is paid for. By hand:",
        set_size_command(deployment, size),
    ]
    return dated(_notice(f"draftworth {plan.experiment}: size {size} could not be set", lines), now)


def of_lost_state(plan: CapacityPlan, why: str) -> Notice:
    """Nodes were up, and nobody knew until when."""
    lines = [
        f"The accelerator nodes of {plan.experiment} go to zero: {why}.",
        "Without it nobody knows their deadline and what they have cost.",
        f"Next: see that there is no object {STATE_KEY}, raise `repetition`, deploy.",
    ]
    return _notice(f"draftworth {plan.experiment}: 0 nodes, state lost", lines)


def set_size_command(deployment: Deployment, size: int) -> str:
    """What sets the size by hand."""
    plan = deployment.plan
    return (
        f"aws eks update-nodegroup-config --cluster-name {plan.cluster_name} "
        f"--nodegroup-name {plan.nodegroup_name} "
        f"--scaling-config minSize=0,maxSize={max(size, 1)},desiredSize={size}"
    )


def dated(notice: Notice, now: float) -> Notice:
    """With the time it was made, which makes its id its own."""
    identity = f"{notice.subject}{notice.text}{now}".encode()
    return replace(notice, id=hashlib.sha256(identity).hexdigest()[:16], made_at_unix_s=now)


def _facts(deployment: Deployment, deadline: float) -> list[str]:
    plan = deployment.plan
    price = f"{plan.price_usd_per_node_hour:.2f} USD a node and hour, price of {plan.price_as_of}"
    bought = f"{plan.instance_type}, {plan.capacity}, {plan.availability_zone}"
    return [
        f"Spent on accelerator nodes: {deployment.spent_usd:.2f} USD of {plan.budget_usd:.2f} USD",
        f"Price: {price}",
        f"Deadline: {utc(deadline)}",
        f"Job: {plan.job_name}",
        f"Node group: {plan.cluster_name}/{plan.nodegroup_name}, {bought}",
    ]


def _notice(subject: str, lines: list[str]) -> Notice:
    return Notice(
        id="",
        subject=subject[:MAX_SUBJECT_CHARACTERS],
        text="\n".join(lines),
        made_at_unix_s=0.0,
    )
