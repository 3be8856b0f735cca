"""Records of what the controller observes, and the problems that explain missing nodes.

Problems have two sources: the health of the EKS node group (`Issue`, Amazon EKS API reference), and
failed launches in its Auto Scaling group's activity history, which say more. The texts of launch
failures are EC2's, as users quote them ("There is no Spot capacity available that matches your
request", "We currently do not have sufficient trn2.48xlarge capacity in the Availability Zone").
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """A part of the observation that failed; nothing may be concluded from it."""

    why: str


@dataclass(frozen=True, kw_only=True)
class Models:
    """Whether all checkpoints that the plan names are staged.

    staging: `failed`: a staging Job has given up since the deploy. `mismatch`: the tokenizers of
        target and draft differ. `unreadable`: a `_READY.json` is not valid, or is
        another checkpoint's; then no node is started and no run is ended.
    text: the explanation of every state but `ready`.
    silent: the names of missing checkpoints of which the bucket has no file yet; empty: none.
    staged_at_unix_s: when the last checkpoint was staged; 0 if `staging` is not `ready`.
    """

    staging: Literal["ready", "missing", "failed", "mismatch", "unreadable"]
    text: str = ""
    silent: str = ""
    staged_at_unix_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Canaries:
    """The state of the canaries together, from their reports since the deploy.

    State `missing`: `text` names variants without a report. `failed`: `text` is a canary's error,
    and `last_lines` is the end of its log. `unreadable`: a report is not valid.
    """

    state: Literal["ok", "missing", "failed", "unreadable"]
    text: str = ""
    last_lines: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Servers:
    """What the servers of the plan have reported since the deploy, summarized.

    gave_up: why a server was given up; empty: none was. last_lines: the end of that server's log.
    healthy_since_unix_s: when the newest healthy server became healthy; None: none is healthy.
    said_at_unix_s: when the oldest reported state began; None: no server has reported a state.
    is_tested: whether at least one server's pod has ended its self-test.
    """

    gave_up: str = ""
    last_lines: tuple[str, ...] = ()
    healthy_since_unix_s: float | None = None
    said_at_unix_s: float | None = None
    is_tested: bool = False


@dataclass(frozen=True, kw_only=True)
class ObservedRun:
    """The run of the deployed measuring Job; the texts are empty until the run is over.

    text: why the run failed, from its `run.json`. address: the run's folder, as `s3://...`.
    answer: the sentences of a complete run's verdict, or why the verdict is not known.
    measured_at_unix_s: when the newest result was written; None: there is none, or the run is over.
    """

    state: Literal["none", "begun", "complete", "failed"]
    run_id: str = ""
    text: str = ""
    address: str = ""
    answer: tuple[str, ...] = ()
    measured_at_unix_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class CapacityBlock:
    """A Capacity Block: its state in EC2's words, its number of instances, its start and end."""

    state: str
    instances: int
    starts_at_unix_s: float
    ends_at_unix_s: float


@dataclass(frozen=True, kw_only=True)
class NoCapacityBlock:
    """EC2 has no Capacity Block with the plan's reservation id; `why` is a sentence about it."""

    why: str


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Why nodes are missing, in AWS's words. A kind is reported once until no node is missing."""

    kind: str
    message: str


@dataclass(frozen=True, kw_only=True)
class NodeGroup:
    """The accelerator node group.

    ownership: `foreign`: the group lacks the plan's tags. `missing`: there is no such group.
    desired_size: the size that EKS was last asked for; None: unknown.
    instances: number of instances that exist and are paid for; None: it cannot be observed.
    instance_ids: the ids of these instances, as far as they can be observed.
    draining: ids of instances that EKS drains before they are terminated.
    modified_at_unix_s: when the group was last changed, as EKS says; None: unknown.
    """

    ownership: Literal["ours", "foreign", "missing"]
    desired_size: int | None = 0
    instances: int | None = 0
    instance_ids: tuple[str, ...] = ()
    draining: tuple[str, ...] = ()
    auto_scaling_group: str = ""
    modified_at_unix_s: float | None = None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What the controller observed before a decision, of models, pods, the run and the nodes.

    stopped: whether the object `control/stop` exists, by which a user keeps the nodes at zero.
    block: the Capacity Block of the plan; None: the plan has none.
    """

    models: Models | Unknown
    canaries: Canaries | Unknown
    servers: Servers | Unknown
    run: ObservedRun | Unknown
    stopped: bool | Unknown
    block: CapacityBlock | NoCapacityBlock | Unknown | None
    nodes: NodeGroup


CAPACITY = "insufficient_capacity"
QUOTA = "quota"
LAUNCH = "launch_failure"
_WORDS = {
    QUOTA: r"vcpu ?limit|max ?spot ?instance ?count|instancelimitexceeded",
    CAPACITY: r"insufficient(instance| )capacity|do not have sufficient|no spot capacity"
    r"|reservationcapacityexceeded|unfulfillablecapacity",
}
_ISSUE_KINDS = {"InstanceLimitExceeded": QUOTA, "AsgInstanceLaunchFailures": LAUNCH}
_SHOWN_CHARACTERS = 400


def problems_of(
    *, issues: Sequence[dict[str, Any]], activities: Sequence[dict[str, Any]], since: float
) -> tuple[Problem, ...]:
    """Return why nodes are missing, one problem for each kind.

    issues: the node group's health issues. activities: its Auto Scaling history, newest first.
    since: activities that started before this Unix time are ignored.
    """
    finished = [
        activity
        for activity in activities
        if activity["StartTime"].timestamp() >= since
        and activity["StatusCode"] in ("Successful", "Failed")
    ]
    # A failed launch counts only if no later launch succeeded.
    if finished and finished[0]["StatusCode"] == "Failed":
        message = finished[0].get("StatusMessage") or finished[0].get("Description", "")
        return (Problem(kind=_kind(message), message=message[:_SHOWN_CHARACTERS]),)
    found = {}
    for issue in issues:
        message, code = issue.get("message", ""), issue.get("code", "unknown")
        kind = _kind(message)
        if kind == LAUNCH:
            kind = _ISSUE_KINDS.get(code, code)
        found[kind] = Problem(kind=kind, message=f"{code}: {message}"[:_SHOWN_CHARACTERS])
    return tuple(found.values())


def _kind(message: str) -> str:
    found = (kind for kind, words in _WORDS.items() if re.search(words, message, re.IGNORECASE))
    return next(found, LAUNCH)
