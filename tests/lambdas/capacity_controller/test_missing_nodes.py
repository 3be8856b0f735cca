"""Desired nodes that are missing, with AWS's own messages as users quote them; lost nodes."""

from typing import Any

import pytest

from lambdas.capacity_controller.launch_failures import CAPACITY, LAUNCH, QUOTA, problems_of
from lambdas.capacity_controller.notifications import of_problem
from tests.lambdas.capacity_controller.conftest import Account, failed_launch, started
from tests.lambdas.capacity_controller.plans import (
    HOUR,
    MINUTE,
    NOW,
    make_block_plan,
    make_deployment,
    make_plan,
)

SPOT = (
    "Could not launch Spot Instances. InsufficientInstanceCapacity - There is no Spot capacity "
    "available that matches your request. Launching EC2 instance failed."
)
ON_DEMAND = (
    "We currently do not have sufficient trn2.48xlarge capacity in the Availability Zone you "
    "requested (us-east-2c). Our system will be working on provisioning additional capacity."
)
NO_QUOTA = (
    "You have requested more vCPU capacity than your current vCPU limit of 0 allows for the "
    "instance bucket that the specified instance type belongs to."
)
MESSAGES = [
    (CAPACITY, SPOT),
    (CAPACITY, ON_DEMAND),
    (QUOTA, NO_QUOTA),
    (QUOTA, "Max spot instance count exceeded. Launching EC2 instance failed."),
    (LAUNCH, "You are not authorized to use launch template: lt-1. Insufficient permissions."),
]


def mails_of(*activities: dict[str, Any], **overrides: Any) -> list[tuple[str, str]]:
    arguments: dict[str, Any] = {"issues": [], "activities": activities, "since": NOW, **overrides}
    deployment = make_deployment(arguments.pop("plan", None))
    problems = problems_of(**arguments)
    return [(one.kind, of_problem(deployment, one, now=NOW).text) for one in problems]


@pytest.mark.parametrize(("kind", "message"), MESSAGES)
def test_a_failed_launch_has_kind_zone_and_message(kind: str, message: str) -> None:
    ((reported_kind, text),) = mails_of(failed_launch(message, at=NOW + MINUTE))
    assert reported_kind == kind
    assert "us-east-2c" in text
    assert message[:60] in text
    assert "To try next: " in text


@pytest.mark.parametrize(
    ("plan", "word"),
    [
        (make_plan(), "on_demand"),
        (make_plan(capacity="on_demand"), "Capacity Block"),
        (make_block_plan(), "preflight"),
    ],
)
def test_advice_depends_on_the_kind_of_capacity(plan: Any, word: str) -> None:
    activity = failed_launch(SPOT, at=NOW + MINUTE)
    ((_, text),) = mails_of(activity, plan=plan)
    assert word in text.partition("To try next: ")[2]


def test_a_later_successful_launch_ends_a_problem() -> None:
    failed = failed_launch(SPOT, at=NOW + MINUTE)
    succeeded = {**failed, "StatusCode": "Successful"}
    assert mails_of(succeeded, failed) == []
    assert len(mails_of(failed, succeeded)) == 1
    assert len(mails_of({**failed, "StatusCode": "PreInService"}, failed)) == 1


def test_launch_failures_say_more_than_the_groups_health() -> None:
    issue = {"code": "AsgInstanceLaunchFailures", "message": "Could not launch"}
    failed = failed_launch(SPOT, at=NOW + MINUTE)
    assert [kind for kind, _ in mails_of(failed, issues=[issue])] == [CAPACITY]
    assert [kind for kind, _ in mails_of(issues=[issue])] == [LAUNCH]


@pytest.mark.parametrize(
    ("code", "kind"),
    [("InstanceLimitExceeded", QUOTA), ("NodeCreationFailure", "NodeCreationFailure")],
)
def test_a_health_issue_is_reported_by_its_code(code: str, kind: str) -> None:
    assert [k for k, _ in mails_of(issues=[{"code": code, "message": "words"}])] == [kind]


def test_insufficient_capacity_is_reported_once_with_advice(
    account: Account,
) -> None:
    started(account)
    for minutes in (1, 5, 9):
        account.activities.insert(0, failed_launch(SPOT, at=NOW + minutes * MINUTE))
        account.heartbeat(after=4 * MINUTE)
    (mail,) = account.mail()
    assert mail["subject"] == "draftworth qwen3-32b: insufficient capacity"
    for word in ("us-east-2c", "spot", "trn2.48xlarge", "on_demand", "Capacity Block"):
        assert word in mail["text"]
    assert account.desired == 1, "Auto Scaling goes on trying"


def test_a_lost_node_is_reported_once(
    account: Account,
) -> None:
    started(account)
    account.activities = [failed_launch(SPOT, at=NOW + MINUTE)]
    account.heartbeat(after=2 * MINUTE)
    account.activities = []
    account.instances_follow()
    account.calls.clear()
    account.heartbeat(after=2 * MINUTE)
    assert account.state.problems == ()
    account.mail()
    account.instances = []
    account.activities = [failed_launch(SPOT, at=NOW + 6 * MINUTE)]
    for _ in range(2):
        account.heartbeat(after=2 * MINUTE)
    assert sorted(account.subjects()) == [
        "draftworth qwen3-32b: 1 accelerator node(s) lost",
        "draftworth qwen3-32b: insufficient capacity",
    ]
    assert account.called("UpdateNodegroupConfig") == [], "it is left to Auto Scaling"


def test_node_group_health_counts_without_failed_launches(
    account: Account,
) -> None:
    message = "Instances failed to join the kubernetes cluster"
    issue = {"code": "NodeCreationFailure", "message": message, "resourceIds": ["i-0"]}
    account.group["health"]["issues"] = [issue]
    account.activities = [failed_launch(SPOT, at=NOW - HOUR)]
    account.deploy()
    account.heartbeat(after=MINUTE)
    assert account.subjects() == ["draftworth qwen3-32b: 0 nodes, waiting for models"]
    account.stage()
    for _ in range(2):
        account.heartbeat(after=MINUTE)
    _, mail = account.mail()
    assert message in mail["text"]


def test_a_replaced_node_is_reported_once_not_lost(
    account: Account,
) -> None:
    """At a rebalance recommendation EC2 starts a new node, then EKS drains the old one."""
    started(account)
    account.instances_follow()
    account.heartbeat(after=2 * MINUTE)
    account.instances = [("i-0", "Terminating:Wait"), ("i-9", "InService")]
    for _ in range(7):
        account.heartbeat(after=2 * MINUTE)
    (mail,) = account.mail()
    assert mail["subject"] == "draftworth qwen3-32b: more nodes than desired"
    assert "2 accelerator nodes" in mail["text"]
    account.instances = [("i-9", "InService")]
    account.heartbeat(after=2 * MINUTE)
    assert (account.mail(), account.desired, account.state.problems) == ([], 1, ())
    both = 8 * 2 * MINUTE  # both nodes are paid for in 8 intervals between heartbeats
    assert account.paid_seconds == 2 * MINUTE + 2 * both
