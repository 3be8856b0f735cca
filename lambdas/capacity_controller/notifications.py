"""Writes notifications: a decision or problem, its reason, the cost so far and the next step."""

import hashlib
from collections.abc import Iterator, Mapping
from enum import StrEnum, auto

from draftworth.records.controller_state import Deployment, LastDecision, Notification, Remaining
from draftworth.records.deployment import STATE_KEY, CapacityPlan, size_command
from draftworth.records.findings import REPORT_FOLDER, REPORT_PAGE
from draftworth.untrusted import one_line
from lambdas.capacity_controller.decision import (
    BEGIN_WITHIN_NODE_SECONDS,
    WORDS,
    Decision,
    Reason,
    deadline_unix_s,
    utc,
)
from lambdas.capacity_controller.launch_failures import LAUNCH, Problem
from lambdas.capacity_controller.node_group import NodeGroup
from lambdas.capacity_controller.observation import Observation
from lambdas.capacity_controller.silent_pods import SILENT_AFTER_SECONDS
from lambdas.capacity_controller.unknown import Unknown

# Amazon SNS: "must be less than 100 characters long", ASCII, no line breaks.
MAX_SUBJECT_CHARACTERS = 99


class Mail(StrEnum):
    """The kinds of mail except those about decisions and missing nodes.

    docs/troubleshooting.md has all kinds.

    The value is the mail's key in `mails.toml`. `State.problems` has the values of mails about
    problems that the controller found itself.
    """

    LOST_NODES = auto()
    SIZE_NOT_SET = auto()
    CANARY_SILENT = auto()
    STAGING_SILENT = auto()
    JOB_SILENT = auto()
    MORE_NODES = auto()
    NODES_REMAIN = auto()
    NODES_GONE = auto()
    NODES_NOT_SEEN = auto()
    STATE_LOST_TO_ZERO = auto()
    STATE_LOST = auto()


_SHARED = {
    **WORDS["words"],
    "silent_minutes": SILENT_AFTER_SECONDS // 60,
    "begin_minutes": BEGIN_WITHIN_NODE_SECONDS // 60,
}
SUBJECTS: Mapping[str, str] = WORDS["subjects"]
_DECISION_SUBJECTS: Mapping[str, str] = WORDS["subjects_of_decisions"]
TEXTS: Mapping[str, str] = WORDS["texts"]
_PROBLEMS: Mapping[str, Mapping[str, str]] = WORDS["problems"]
NEXT: Mapping[Reason, str] = {r: text.format(**_SHARED) for r, text in WORDS["next"].items()}


def of_decision(
    deployment: Deployment,
    decision: Decision,
    observation: Observation,
    *,
    before: LastDecision | None,
    now: float,
) -> Notification:
    """Return the mail about a decision. before: the previous decision; None: there was none."""
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
        _facts(deployment, deadline_unix_s(deployment, observation)),
    ]
    return _notification(deployment.plan, _subject(decision, size, observation), lines, now)


def _subject(decision: Decision, size: str, observation: Observation) -> str:
    """Return the subject of the mail about a decision; size: a number of nodes or `unchanged`."""
    nodes = f"{size} {'node' if size == '1' else 'nodes'}"
    reason = decision.reason.replace("_", " ")
    run = observation.run
    if decision.reason == "complete" and not isinstance(run, Unknown) and run.decision:
        answer = answer_in_subject(run.decision)
        return _DECISION_SUBJECTS["complete"].format(nodes=nodes, reason=reason, answer=answer)
    return _DECISION_SUBJECTS["any"].format(nodes=nodes, reason=reason)


def answer_in_subject(decision: str) -> str:
    """Return the first sentence of a run's decision in ASCII, for the subject of a mail."""
    first = decision.removeprefix("Decision: ").partition(". ")[0].rstrip(".")
    return first.encode("ascii", "replace").decode()


def _answer(observation: Observation) -> Iterator[str]:
    run = observation.run
    if isinstance(run, Unknown) or not run.answer:
        return
    headline, *sentences = run.answer
    if run.decision:
        yield run.decision
    yield headline
    yield from (f"    {sentence}" for sentence in sentences)
    # The Job writes the report after run.json, so perhaps after this mail.
    yield f"Report, within minutes: {run.address}/{REPORT_FOLDER}/{REPORT_PAGE}"
    yield f"Or on your machine: draftworth report {run.address}"
    yield ""


def of_problem(deployment: Deployment, problem: Problem, *, now: float) -> Notification:
    """Return the mail that says that desired nodes are missing, and why (`problem`)."""
    plan, words = deployment.plan, _PROBLEMS.get(problem.kind, _PROBLEMS[LAUNCH])
    text = TEXTS["missing_nodes"].format(
        plan=plan,
        what=words["what"].format(plan=plan),
        message=problem.message,
        advice=words.get(plan.capacity) or words["any"],
    )
    lines = [text, _facts(deployment, deployment.own_deadline_unix_s)]
    return _notification(plan, problem.kind.replace("_", " "), lines, now)


def of_mail(
    mail: Mail,
    deployment: Deployment,
    observation: Observation | None = None,
    *,
    number: int = 0,
    error: str = "",
    now: float,
) -> Notification:
    """Return the mail of the kind `mail`.

    observation: needed if the text of this mail quotes what was observed; else None.
    number: how many nodes were lost (LOST_NODES) or desired (SIZE_NOT_SET).
    error: AWS's error, if the text quotes one.
    """
    plan = deployment.plan
    deadline, values = deployment.own_deadline_unix_s, dict[str, object]()
    if observation is not None:
        deadline = deadline_unix_s(deployment, observation)
        canaries, models = observation.canaries, observation.models
        values = {
            "seen": observation.nodes,
            "silent": "" if isinstance(canaries, Unknown) else canaries.text,
            "unstaged": "" if isinstance(models, Unknown) else models.silent,
        }
    command = _size_command(plan, number)
    values |= {"plan": plan, "number": number, "error": one_line(error), "command": command}
    text = TEXTS[mail].format(**_SHARED, **values)
    lines = [text, _facts(deployment, deadline)]
    return _notification(plan, SUBJECTS[mail].format(number=number), lines, now)


def of_remaining(
    mail: Mail, deployment: Deployment, remaining: Remaining, nodes: NodeGroup, *, now: float
) -> Notification:
    """Return the mail about instances that exist although no node is desired, or that are gone now.

    remaining: since when they stay, and what node time they have used.
    """
    plan, since = deployment.plan, remaining.since_unix_s
    node_hours = remaining.node_seconds / 3600
    cost = "cost" if deployment.block_node_seconds is None else "cost_in_block"
    text = TEXTS[mail].format(
        plan=plan,
        seen=nodes,
        since=utc(since),
        hours=(now - since) / 3600,
        count=deployment.node_time.instances,
        last_seen="" if nodes.instances is not None else ", when last seen",
        node_hours=node_hours,
        cost=TEXTS[cost].format(usd=node_hours * plan.price_usd_per_node_hour),
        command=_size_command(plan, 0),
        region=_region(plan),
        ids=" ".join(nodes.instance_ids) or "INSTANCE-ID",
    )
    lines = [text, _facts(deployment, deployment.own_deadline_unix_s)]
    return _notification(plan, SUBJECTS[mail], lines, now)


def of_lost_state(
    plan: CapacityPlan, why: str, nodes: NodeGroup, end: Decision | None, *, now: float
) -> Notification:
    """Return the mail that says that the controller's state is missing or cannot be read.

    plan: the plan in the event. why: what is wrong with the state.
    end: the decision for zero nodes; None: the nodes stay.
    """
    modified = nodes.modified_at_unix_s
    text = TEXTS[Mail.STATE_LOST].format(
        error=one_line(why),
        plan=plan,
        what=f"go to zero: {end.text}." if end else "stay as they are, and none starts.",
        since="a time that EKS does not tell" if modified is None else utc(modified),
        state=STATE_KEY,
    )
    subject = SUBJECTS[Mail.STATE_LOST_TO_ZERO if end else Mail.STATE_LOST]
    return _notification(plan, subject, [text], now)


def _region(plan: CapacityPlan) -> str:
    return plan.availability_zone[:-1]


def _size_command(plan: CapacityPlan, size: int) -> str:
    return size_command(
        region=_region(plan),
        cluster=plan.cluster_name,
        nodegroup=plan.nodegroup_name,
        size=size,
    )


def _facts(deployment: Deployment, deadline: float) -> str:
    plan, whole = deployment.plan, deployment.block_node_seconds
    spent = TEXTS["spent" if whole is None else "spent_on_block"].format(
        plan=plan,
        usd=deployment.spent_usd,
        used=deployment.node_time.node_seconds / 3600,
        whole=(whole or 0.0) / 3600,
    )
    return f"{spent}\n{TEXTS['facts'].format(plan=plan, deadline=utc(deadline))}"


def _notification(plan: CapacityPlan, subject: str, lines: list[str], now: float) -> Notification:
    """Return a mail whose subject begins with the experiment's name.

    The mail's id is a hash of its text and of the time `now`. So the same text at a later time is
    another mail, and is sent too.
    """
    subject = f"draftworth {plan.experiment}: {subject}"[:MAX_SUBJECT_CHARACTERS]
    text = "\n".join(lines)
    identity = hashlib.sha256(f"{subject}{text}{now}".encode()).hexdigest()[:16]
    return Notification(id=identity, subject=subject, text=text, made_at_unix_s=now)
