"""Writes notifications: a decision or problem, its reason, the cost so far and the next step."""

import hashlib
from collections.abc import Iterator, Mapping
from enum import StrEnum

from draftworth.records.deployment import STATE_KEY, CapacityPlan, size_command
from draftworth.records.findings import REPORT_FOLDER, REPORT_PAGE
from draftworth.untrusted import one_line
from lambdas.capacity_controller.decision import (
    CANARY_SILENT_AFTER_SECONDS,
    Decision,
    Reason,
    deadline_unix_s,
    utc,
)
from lambdas.capacity_controller.observation import NodeGroup, Observation, Problem, Unknown
from lambdas.capacity_controller.state import Deployment, LastDecision, Notification

# Amazon SNS: "must be less than 100 characters long", ASCII, no line breaks.
MAX_SUBJECT_CHARACTERS = 99
_RUN_AGAIN = "To measure again, raise `rerun` in the experiment and deploy."
_RESUMES = "A run whose run.json does not say failed by then goes on where it stopped."
# This needs access to the cluster, which is private by default.
_KUBECTL = (
    "with access to the cluster (aws.public_access_cidrs and aws.admin_principal_arns) "
    "`kubectl -n draftworth describe pods`"
)


class Subject(StrEnum):
    """Mail subjects, except those of decisions and missing nodes; docs/operations.md lists all."""

    LOST_NODES = "{number} accelerator node(s) lost"
    REFUSED_SIZE = "size {number} could not be set"
    SILENT_CANARY = "canary is silent"
    MORE_NODES = "more nodes than desired"
    REMAINING_NODES = "nodes are still there"
    NODES_NOT_SEEN = "the node group cannot be read"
    LOST_STATE_TO_ZERO = "0 nodes, state lost"
    LOST_STATE = "state lost"


TEXTS: Mapping[Subject, str] = {
    Subject.LOST_NODES: """\
{experiment} lost {number} of {nodes} accelerator nodes:
a Spot interruption, or an instance that failed.
Auto Scaling starts another one as soon as there is capacity;
the run goes on at the next block that is not measured yet.
Next: nothing. Reason: activity history of {group}
""",
    Subject.REFUSED_SIZE: """\
The accelerator nodes of {experiment} should be {number}, but EKS refuses it:
{error}
It is tried again every two minutes. Until then what runs is paid for. By hand:
{command}
""",
    Subject.SILENT_CANARY: f"""\
Canaries of {{experiment}} are silent: {{silent}}.
{CANARY_SILENT_AFTER_SECONDS // 60} minutes after there was something to try they have
reported nothing. Where a volume cannot be mounted or an image cannot be pulled, no
container starts that could. No accelerator starts before they report that all is well.
Next: `make logs`; where it says nothing of a canary, {_KUBECTL}
""",
    Subject.MORE_NODES: """\
{instances} accelerator nodes of {experiment} exist and are paid for,
{nodes} desired.
Where EC2 expects to take a Spot node it starts another one first, above the group's
maximum; EKS then drains the old one for about a quarter of an hour. Its servers start
again on the new one, and the run goes on at the next block that is not measured yet.
Next: nothing. Reason: activity history of {group}
""",
    Subject.REMAINING_NODES: """\
The accelerator nodes of {experiment} should be 0 for half an hour,
and {instances} still exist and are paid for.
Next: see why in the activity history of {group} (a lifecycle hook of
another's, scale-in protection), or terminate the instances by hand.
""",
    Subject.NODES_NOT_SEEN: """\
The accelerator nodes of {experiment} should be 0, but their node group cannot be
shown to be this experiment's, and so it is not touched: {error}
It is tried again every two minutes. Until then what runs is paid for. By hand:
{command}
""",
}
# Next steps by the decision's reason.
NEXT: Mapping[Reason, str] = {
    "ready": "nothing. The nodes start, the servers compile or load, the run begins.",
    "ended": "nothing.",
    "stopped": "python -m draftworth stop EXPERIMENT --resume, to go on.",
    "complete": f"read the report. {_RUN_AGAIN}",
    "failed": f"read run.json and the Job's log. {_RUN_AGAIN}",
    "server_gave_up": "what the lines above name; `make logs` has the rest. A self-test: "
    "docs/operations.md has each of its reasons. Refused graphs: "
    "`python -m draftworth artifacts EXPERIMENT --run`. A compiler that ended with exit code 70 "
    f"failed on this node: another may do. {_RUN_AGAIN}",
    "self_test_silent": "`make logs`; where it says nothing of a server, no container starts "
    f"(devices, a volume, the image): {_KUBECTL} has the events. {_RUN_AGAIN}",
    "no_server_ready": f"`make logs`: what the servers wait for. {_RUN_AGAIN}",
    "not_begun": "`make logs` says why the Job's pod ends at once; where it says nothing of it, no "
    f"container starts: {_KUBECTL} has the events. {_RUN_AGAIN}",
    "deadline": "raise aws.deadline_minutes and deploy; it counts from the first deploy of "
    f"this Job. {_RESUMES}",
    "budget": f"raise aws.budget_usd and deploy. {_RESUMES}",
    "no_block": "name the reservation of an active Capacity Block in the experiment and "
    "deploy; `python -m draftworth preflight EXPERIMENT` looks it up.",
    "block_not_started": "nothing. The nodes start with the block.",
    "block_over": "name another Capacity Block in the experiment and deploy, or extend this "
    "one: what counts is its end when the function looks.",
    "waiting_for_models": "nothing. `make logs` shows the staging Jobs at work.",
    "staging_failed": "put that right; then raise `rerun` and deploy. No accelerator was "
    "started for it.",
    "waiting_for_canary": "nothing. A canary takes minutes; `make logs` shows it.",
    "canary_failed": "put that right; then raise `rerun` and deploy, unless a later try of "
    "the canary comes back. `make logs` has its whole log.",
    "no_node_group": "deploy again; a deploy that replaces the node group ends this by itself.",
    "foreign_node_group": "give the experiment another name.",
}


def of_decision(
    deployment: Deployment,
    decision: Decision,
    observation: Observation,
    *,
    before: LastDecision | None,
    now: float,
) -> Notification:
    """Return the mail about a decision: its number of nodes and its reason."""
    was = "-" if before is None or before.desired_size is None else before.desired_size
    size = "unchanged" if decision.desired_size is None else str(decision.desired_size)
    lines = [
        *(_answer(observation) if decision.reason == "complete" else ()),
        f"Accelerator nodes of {deployment.plan.experiment}: {was} -> {size}",
        f"Reason: {decision.text}",
        *(["The last lines of its log:"] if decision.last_lines else ()),
        *(f"    {line}" for line in decision.last_lines),
        f"Next: {NEXT[decision.reason]}" if decision.reason in NEXT else "",
        "",
        *_facts(deployment, deadline_unix_s(deployment, observation)),
    ]
    subject = f"{size} {'node' if size == '1' else 'nodes'}, {decision.reason.replace('_', ' ')}"
    return _notification(deployment.plan, subject, lines, now)


def _answer(observation: Observation) -> Iterator[str]:
    run = observation.run
    if isinstance(run, Unknown) or not run.answer:
        return
    headline, *sentences = run.answer
    yield headline
    yield from (f"    {sentence}" for sentence in sentences)
    # The Job writes the report after run.json, so perhaps after this mail.
    yield f"Report, within minutes: {run.address}/{REPORT_FOLDER}/{REPORT_PAGE}"
    yield f"Or on your machine: python -m draftworth report {run.address}"
    yield ""


def of_problem(deployment: Deployment, problem: Problem, *, now: float) -> Notification:
    """Return the mail that desired nodes are missing."""
    lines = [
        f"The accelerator nodes of {deployment.plan.experiment} do not start: {problem.text}",
        "",
        *_facts(deployment, deployment.own_deadline_unix_s),
    ]
    return _notification(deployment.plan, problem.kind.replace("_", " "), lines, now)


def of_subject(
    subject: Subject,
    deployment: Deployment,
    observation: Observation | None = None,
    *,
    number: int = 0,
    error: str = "",
    now: float,
) -> Notification:
    """Return the mail of `subject`. number: how many nodes were lost, or the desired size."""
    plan = deployment.plan
    deadline, values = deployment.own_deadline_unix_s, {}
    if observation is not None:
        deadline = deadline_unix_s(deployment, observation)
        canaries, seen = observation.canaries, observation.nodes
        silent = "" if isinstance(canaries, Unknown) else canaries.text
        values = {"instances": seen.instances, "group": seen.auto_scaling_group, "silent": silent}
    command = size_command(
        region=plan.availability_zone[:-1],
        cluster=plan.cluster_name,
        nodegroup=plan.nodegroup_name,
        size=number,
    )
    text = TEXTS[subject].format(
        experiment=plan.experiment,
        nodes=plan.nodes,
        number=number,
        error=one_line(error),
        command=command,
        **values,
    )
    return _notification(
        plan, subject.format(number=number), [text, *_facts(deployment, deadline)], now
    )


def of_lost_state(
    plan: CapacityPlan, why: str, nodes: NodeGroup, end: Decision | None, *, now: float
) -> Notification:
    """Return the mail about an unusable state. end: why nodes go to zero; None if they stay."""
    modified = nodes.modified_at_unix_s
    since = "a time that EKS does not tell" if modified is None else utc(modified)
    what = f"go to zero: {end.text}." if end else "stay as they are, and none starts."
    lines = [
        f"The controller cannot use its state: {one_line(why)}.",
        f"The accelerator nodes of {plan.experiment} {what}",
        "Deadline and budget of the last known plan hold, both counted from the last change of",
        f"the node group ({since}): what was spent before is not known.",
        f"Next: `make stop` takes the nodes to zero now. Restore {STATE_KEY}, or delete it, raise",
        "`rerun` and deploy. Where another version of this project wrote it: deploy with that one.",
    ]
    return _notification(
        plan, Subject.LOST_STATE_TO_ZERO if end else Subject.LOST_STATE, lines, now
    )


def _facts(deployment: Deployment, deadline: float) -> list[str]:
    plan = deployment.plan
    price = f"{plan.price_usd_per_node_hour:.2f} USD a node and hour"
    bought = f"{plan.instance_type}, {plan.capacity}, {plan.availability_zone}"
    spent = f"{deployment.spent_usd:.2f} USD"
    if deployment.block_node_seconds is None:
        spent = f"Spent on accelerator nodes: {spent} of {plan.budget_usd:.2f} USD"
    else:
        used = f"{deployment.node_time.node_seconds / 3600:.1f}"
        whole = f"{deployment.block_node_seconds / 3600:.1f}"
        spent = f"Paid for the whole Capacity Block: {spent}; {used} of {whole} node hours used"
    return [
        spent,
        f"Price: {price}, price of {plan.price_as_of}",
        f"Deadline: {utc(deadline)}",
        f"Job: {plan.job_name}",
        f"Node group: {plan.cluster_name}/{plan.nodegroup_name}, {bought}",
    ]


def _notification(plan: CapacityPlan, subject: str, lines: list[str], now: float) -> Notification:
    """Return a mail; its id is a hash of text and time, so the same text is sent again later."""
    subject = f"draftworth {plan.experiment}: {subject}"[:MAX_SUBJECT_CHARACTERS]
    text = "\n".join(lines)
    identity = hashlib.sha256(f"{subject}{text}{now}".encode()).hexdigest()[:16]
    return Notification(id=identity, subject=subject, text=text, made_at_unix_s=now)
