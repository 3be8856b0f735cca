"""Why nodes are missing: a quota, no capacity, or another failure of their launch.

AWS states the reason in two places: the health of the EKS node group (`Issue`, Amazon EKS API
reference), and failed launches in the activity history of its Auto Scaling group, which say more.
The texts of launch failures are EC2's, as users quote them ("There is no Spot capacity available
that matches your request", "We currently do not have sufficient trn2.48xlarge capacity in the
Availability Zone").
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

CAPACITY = "insufficient_capacity"
QUOTA = "quota"
LAUNCH = "launch_failure"
_PATTERNS = {
    QUOTA: r"vcpu ?limit|max ?spot ?instance ?count|instancelimitexceeded",
    CAPACITY: r"insufficient(instance| )capacity|do not have sufficient|no spot capacity"
    r"|reservationcapacityexceeded|unfulfillablecapacity",
}
_ISSUE_KINDS = {"InstanceLimitExceeded": QUOTA, "AsgInstanceLaunchFailures": LAUNCH}
_MESSAGE_CHARACTERS = 400


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Why nodes are missing.

    kind: CAPACITY, QUOTA, LAUNCH, or the code of another issue of the node group. A kind is
        reported again only if no node was missing in the meantime.
    message: the reason in AWS's words.
    """

    kind: str
    message: str


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
        return (Problem(kind=_kind(message), message=message[:_MESSAGE_CHARACTERS]),)
    problems = {}
    for issue in issues:
        message, code = issue.get("message", ""), issue.get("code", "unknown")
        kind = _kind(message)
        if kind == LAUNCH:
            kind = _ISSUE_KINDS.get(code, code)
        problems[kind] = Problem(kind=kind, message=f"{code}: {message}"[:_MESSAGE_CHARACTERS])
    return tuple(problems.values())


def _kind(message: str) -> str:
    for kind, pattern in _PATTERNS.items():
        if re.search(pattern, message, re.IGNORECASE):
            return kind
    return LAUNCH
