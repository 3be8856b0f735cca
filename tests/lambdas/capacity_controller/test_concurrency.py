"""Several invocations at once, and one that overtakes another."""

import pytest

from lambdas.capacity_controller.controller import TooManyConflictsError
from tests.lambdas.capacity_controller import plans
from tests.lambdas.capacity_controller.conftest import READY_EVENT, RUN_EVENT, Account, started


def test_events_at_once_make_one_decision(account: Account) -> None:
    """Each of four invocations begins when the previous one has decided; the last acts first."""
    account.stage(plans.TARGET)
    account.deploy()
    account.mail()
    account.stage(plans.DRAFT)
    later_invocations = [account.new_controller() for _ in range(3)]

    def meanwhile() -> None:
        if later_invocations:
            account.before("PutObject", meanwhile)
            account.handle(READY_EVENT, controller=later_invocations.pop())

    account.before("PutObject", meanwhile)
    account.handle(READY_EVENT)
    assert later_invocations == []
    assert account.desired == 1
    assert account.decisions()[1:] == [(1, "ready")]
    assert account.subjects() == ["draftworth qwen3-32b: 1 node, ready"]


def test_after_a_conflict_the_newer_observation_decides(account: Account) -> None:
    """While one invocation is about to write size 1, another sees the run's end."""
    account.stage(plans.TARGET)
    account.deploy()
    account.stage(plans.DRAFT)
    other = account.new_controller()

    def meanwhile() -> None:
        account.end_run()
        account.handle(RUN_EVENT, controller=other)

    account.before("DescribeAutoScalingGroups", meanwhile)
    account.handle(READY_EVENT)
    assert account.desired == 0
    assert account.decisions() == [(0, "waiting_for_models"), (0, "complete")]


def test_an_invocation_overtaken_while_acting_reconciles_again(account: Account) -> None:
    """One invocation is about to ask EKS for nodes when the deadline passes."""
    account.deploy(plans.make_plan(deadline_minutes=2))
    account.stage()
    other = account.new_controller()

    def meanwhile() -> None:
        account.now = plans.NOW + 2 * plans.MINUTE
        account.handle({"trigger": "deadline"}, controller=other)

    account.before("UpdateNodegroupConfig", meanwhile)
    account.now += 2 * plans.MINUTE - 1
    account.handle(READY_EVENT)
    assert account.outcome == (0, "deadline")
    assert account.schedule is None
    assert account.subjects() == [
        "draftworth qwen3-32b: 0 nodes, waiting for models",
        "draftworth qwen3-32b: 0 nodes, deadline",
        "draftworth qwen3-32b: 1 node, ready",
    ], "each decision once, in the order in which they were sent"


@pytest.mark.parametrize("new_decision", [True, False])
def test_a_delete_that_overtakes_an_invocation_wins(account: Account, new_decision: bool) -> None:
    """Without a new decision the invocation writes nothing, but must notice the Delete."""
    if new_decision:
        account.deploy()
        account.stage()
    else:
        started(account)
        account.desired = 0
    account.before("UpdateNodegroupConfig", account.delete)
    account.heartbeat()
    assert account.outcome == (0, "ended")


def test_endless_conflicts_end_the_invocation(account: Account) -> None:
    account.deploy()
    account.stage()
    account.fail("PutObject", *["PreconditionFailed"] * 100)
    with pytest.raises(TooManyConflictsError):
        account.heartbeat()
    assert account.desired == 0
