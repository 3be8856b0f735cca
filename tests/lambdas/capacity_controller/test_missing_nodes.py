"""Desired nodes that are missing, and nodes that are lost."""

import pytest

from tests.lambdas.capacity_controller import conftest, plans

pytestmark = pytest.mark.emulator
SPOT_MESSAGE = (
    "Could not launch Spot Instances. InsufficientInstanceCapacity - There is no Spot capacity "
    "available that matches your request. Launching EC2 instance failed."
)


def test_insufficient_capacity_is_reported_once_with_zone_and_advice(
    account: conftest.Account,
) -> None:
    conftest.started(account)
    for minutes in (1, 5, 9):
        account.activities.insert(
            0, conftest.failed_launch(SPOT_MESSAGE, at=plans.NOW + minutes * plans.MINUTE)
        )
        account.heartbeat(after=4 * plans.MINUTE)
    (mail,) = account.mail()
    assert mail["subject"] == "draftworth qwen3-32b: insufficient capacity"
    for word in ("us-east-2c", "spot", "trn2.48xlarge", "on_demand", "Capacity Block"):
        assert word in mail["text"]
    assert account.desired == 1, "Auto Scaling goes on trying"


def test_a_problem_after_capacity_came_is_reported_again(
    account: conftest.Account,
) -> None:
    conftest.started(account)
    account.activities = [conftest.failed_launch(SPOT_MESSAGE, at=plans.NOW + plans.MINUTE)]
    account.heartbeat(after=2 * plans.MINUTE)
    account.activities, account.instances = [], [("i-0", "InService")]
    account.heartbeat(after=2 * plans.MINUTE)
    assert account.state.problems == ()
    account.mail()
    account.instances = []
    account.activities = [conftest.failed_launch(SPOT_MESSAGE, at=plans.NOW + 6 * plans.MINUTE)]
    account.heartbeat(after=2 * plans.MINUTE)
    assert sorted(account.subjects()) == [
        "draftworth qwen3-32b: 1 accelerator node(s) lost",
        "draftworth qwen3-32b: insufficient capacity",
    ]


def test_node_group_health_is_reported_where_no_launch_failed(
    account: conftest.Account,
) -> None:
    conftest.started(account)
    account.issues = [
        {
            "code": "NodeCreationFailure",
            "message": "Instances failed to join the kubernetes cluster",
            "resourceIds": ["i-0"],
        }
    ]
    account.heartbeat(after=plans.MINUTE)
    (mail,) = account.mail()
    assert "Instances failed to join the kubernetes cluster" in mail["text"]


def test_a_launch_that_failed_before_the_nodes_were_asked_for_is_of_the_past(
    account: conftest.Account,
) -> None:
    account.activities = [conftest.failed_launch(SPOT_MESSAGE, at=plans.NOW - plans.HOUR)]
    conftest.started(account)
    account.heartbeat(after=plans.MINUTE)
    assert account.mail() == []


def test_a_problem_of_nodes_that_are_not_desired_is_not_reported(account: conftest.Account) -> None:
    account.issues = [{"code": "AsgInstanceLaunchFailures", "message": "x", "resourceIds": []}]
    account.deploy()
    account.mail()
    account.heartbeat(after=plans.MINUTE)
    assert account.mail() == []


def test_an_activity_history_that_cannot_be_read_decides_nothing(account: conftest.Account) -> None:
    account.fail("autoscaling", "DescribeScalingActivities", *["AccessDenied"] * 9)
    conftest.started(account)
    account.heartbeat()
    assert account.desired == 1


def test_a_lost_node_is_reported_and_left_to_auto_scaling(account: conftest.Account) -> None:
    conftest.started(account)
    account.instances_follow()
    account.heartbeat(after=plans.MINUTE)
    account.instances = []
    account.heartbeat(after=plans.MINUTE)
    assert account.subjects() == ["draftworth qwen3-32b: 1 accelerator node(s) lost"]
    account.heartbeat(after=plans.MINUTE)
    assert account.mail() == []
    assert account.desired == 1
    assert account.called("UpdateNodegroupConfig") == []


def test_a_node_that_was_replaced_beforehand_is_told_once_and_not_as_lost(
    account: conftest.Account,
) -> None:
    """EC2 starts another one at a rebalance recommendation, then EKS drains the first."""
    conftest.started(account)
    account.instances_follow()
    account.heartbeat(after=2 * plans.MINUTE)
    account.instances = [("i-0", "Terminating:Wait"), ("i-9", "InService")]
    for _ in range(7):
        account.heartbeat(after=2 * plans.MINUTE)
    (mail,) = account.mail()
    assert mail["subject"] == "draftworth qwen3-32b: more nodes than desired"
    assert "2 accelerator nodes" in mail["text"]
    account.instances = [("i-9", "InService")]
    account.heartbeat(after=2 * plans.MINUTE)
    assert (account.mail(), account.desired, account.state.problems) == ([], 1, ())
    deployment = account.state.deployment
    assert deployment is not None
    both = (
        8 * 2 * plans.MINUTE
    )  # seen at the end of the first interval, gone at the end of the last
    assert deployment.node_time.node_seconds == 2 * plans.MINUTE + 2 * both


def test_nodes_that_were_scaled_down_are_not_lost(account: conftest.Account) -> None:
    conftest.started(account)
    account.instances_follow()
    account.heartbeat(after=plans.MINUTE)
    account.end_run()
    account.handle(conftest.RUN_EVENT)
    account.mail()
    account.instances = []
    account.heartbeat(after=plans.MINUTE)
    assert account.mail() == []
