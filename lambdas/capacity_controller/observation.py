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
    """Whether the needed checkpoints are staged. `text` explains every state but `ready`.

    failed: a staging Job has given up since the deploy. mismatch: a draft's tokenizer differs.
    unreadable: a `_READY.json` is not valid; then no node is started and no run is ended.
    silent: the missing checkpoints of which the bucket has nothing: their stagers have not begun.
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
    """The states that the needed servers have reported since the deploy.

    gave_up: why a server was given up, empty if none was; `last_lines`: the end of its log.
    healthy_since_unix_s: when a server last became healthy; None: no server is healthy.
    said_at_unix_s: the time of the oldest of these states; None: no server has reported.
    is_tested: a server's pod has ended its self-test.
    """

    gave_up: str = ""
    last_lines: tuple[str, ...] = ()
    healthy_since_unix_s: float | None = None
    said_at_unix_s: float | None = None
    is_tested: bool = False


@dataclass(frozen=True, kw_only=True)
class ObservedRun:
    """The run of the deployed Job; `text` says why it failed, from its `run.json`.

    address: the folder of a run that is over. answer: the sentences of a complete run's verdict, or
        why these are not known.
    measured_at_unix_s: the time of the newest result while the run goes on; None: no result.
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
    """There is no such Capacity Block; `why` quotes EC2."""

    why: str


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A reason for missing nodes. Each kind is reported only once while nodes are missing."""

    kind: str
    message: str


@dataclass(frozen=True, kw_only=True)
class NodeGroup:
    """The accelerator node group.

    desired_size: the size that EKS was last asked for; None: unknown.
    instances: number of instances that exist and are paid for; None: it cannot be observed.
    draining: ids of instances that EKS drains before they are terminated.
    """

    ownership: Literal["ours", "foreign", "missing"]
    desired_size: int | None = 0
    instances: int | None = 0
    draining: tuple[str, ...] = ()
    auto_scaling_group: str = ""
    modified_at_unix_s: float | None = None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Observation:
    """Everything that a decision depends on, besides the plan, the state and the time.

    stopped: the object `control/stop` exists.
    block: None when the plan has no Capacity Block.
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

    issues: the node group's, from EKS. activities: its Auto Scaling group's, newest first.
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
