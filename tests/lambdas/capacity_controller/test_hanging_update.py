"""A node group that EKS has begun to update and does not finish (containers-roadmap #2204)."""

from typing import Any

import pytest
from moto import mock_aws

from draftworth.records.codec import dump_text
from draftworth.records.deployment import STATE_KEY
from tests.lambdas.capacity_controller import plans
from tests.lambdas.capacity_controller.conftest import RUN_EVENT, Account, started
from tests.lambdas.capacity_controller.emulated_account import EmulatedAccount
from tests.lambdas.capacity_controller.fakes import AUTO_SCALING_GROUP, RESULTS

EMPTY = {"AutoScalingGroupName": AUTO_SCALING_GROUP, "DesiredCapacity": 0}


@pytest.mark.emulator
def test_nodes_end_although_an_update_hangs() -> None:
    with mock_aws():
        aws = EmulatedAccount()
        aws.start()
        aws.begin_run()
        aws.hang()
        aws.end_run()
        aws.handle(RUN_EVENT)
        aws.heartbeat(after=2 * plans.MINUTE)
        assert (aws.reason, aws.paid_instances) == ("complete", 0)
        aws.end_update()
        aws.heartbeat(after=2 * plans.MINUTE)
        group = aws.clients["eks"].describe_nodegroup(
            clusterName=plans.make_plan().cluster_name,
            nodegroupName=plans.make_plan().nodegroup_name,
        )["nodegroup"]
        assert group["scalingConfig"]["desiredSize"] == 0


def test_a_size_that_eks_takes_needs_nothing_else(account: Account) -> None:
    started(account)
    account.end_run()
    account.handle(RUN_EVENT)
    assert account.desired == 0
    assert account.called("SetDesiredCapacity") == []


def test_a_refused_start_leaves_auto_scaling_alone(account: Account) -> None:
    account.fail("UpdateNodegroupConfig", "ResourceInUseException")
    account.start()
    assert (account.desired, account.called("SetDesiredCapacity")) == (0, [])


@pytest.mark.parametrize(
    "event",
    [
        {"trigger": "heartbeat"},
        {"trigger": "deadline", "plan": dump_text(plans.make_plan())},
    ],
    ids=["with a state", "without a state"],
)
def test_every_way_to_zero_has_both_levers(account: Account, event: dict[str, Any]) -> None:
    started(account)
    account.nodes_follow()
    account.now += 240 * plans.MINUTE
    account.fail("UpdateNodegroupConfig", "AccessDeniedException")
    if "plan" in event:
        account.write(RESULTS, STATE_KEY, b"{")
    with pytest.raises(Exception, match="AccessDenied"):
        account.handle(event)
    assert account.called("SetDesiredCapacity") == [EMPTY]
    account.nodes_follow()
    assert account.instances == []


def test_delete_empties_the_group_and_waits_for_eks(account: Account) -> None:
    """EKS may restore its own size after the update, so Delete succeeds only when it shows zero."""
    started(account)
    account.nodes_follow()
    account.fail("UpdateNodegroupConfig", *["ResourceInUseException"] * 1_000)
    account.delete()
    assert account.cloudformation.answers[-1]["Status"] == "FAILED"
    account.nodes_follow()
    assert (account.desired, account.instances) == (1, [])


def test_two_refused_levers_are_both_logged(account: Account) -> None:
    started(account)
    account.end_run()
    account.fail("UpdateNodegroupConfig", "ResourceInUseException")
    account.fail("SetDesiredCapacity", "ValidationError")
    account.handle(RUN_EVENT)
    refused = {entry["event"]: entry["error"] for entry in account.log if "error" in entry}
    assert set(refused) == {"Auto Scaling group not emptied", "size not set"}
    assert "ResourceInUseException" in refused["size not set"]
