"""A Capacity Block is paid in advance: its cost, and the ends of a run after which nodes stay."""

from typing import Any

import pytest

from draftworth.records.deployment import CapacityPlan
from tests.lambdas.capacity_controller import plans
from tests.lambdas.capacity_controller.conftest import Account
from tests.lambdas.capacity_controller.fakes import RESULTS

BLOCK_HOURS = 24


def plan(**overrides: Any) -> CapacityPlan:
    return plans.make_block_plan(**{"deadline_minutes": 10_000, **overrides})


def in_block(account: Account, **overrides: Any) -> None:
    """Go to the second hour of a block, with a node and healthy servers."""
    account.stage()
    account.reserve(
        starts=plans.NOW - plans.HOUR,
        ends=plans.NOW + (BLOCK_HOURS - 1) * plans.HOUR,
        TotalInstanceCount=1,
    )
    account.deploy(plan(**overrides))
    account.instances_follow()
    account.heartbeat(after=2 * plans.MINUTE)
    assert account.desired == 1
    account.mail()


def fail_run(account: Account) -> None:
    account.end_run(status="failed", reason="a server died")


def give_up_server(account: Account) -> None:
    account.say(plans.make_server_given_up(since_unix_s=account.now))


def fail_canary(account: Account) -> None:
    account.report(ok=False, text="no credentials")


@pytest.mark.parametrize(
    ("happens", "reason"),
    [(fail_run, "failed"), (give_up_server, "server_gave_up"), (fail_canary, "canary_failed")],
)
def test_what_a_deploy_can_repair_keeps_paid_nodes(
    account: Account, happens: Any, reason: str
) -> None:
    in_block(account)
    happens(account)
    account.heartbeat(after=2 * plans.MINUTE)
    account.heartbeat(after=2 * plans.MINUTE)
    assert account.outcome == (1, reason)
    (mail,) = account.mail()
    assert mail["subject"].endswith(f"unchanged nodes, {reason.replace('_', ' ')}")
    assert "its nodes stay until" in mail["text"]
    account.update(plan(job_name=plans.OTHER_JOB))
    assert account.outcome == (1, "ready")
    assert len(account.called("UpdateNodegroupConfig")) == 1, "no node was given back"


def test_idle_minutes_are_mailed_and_cost_nothing(
    account: Account,
) -> None:
    in_block(account)
    del account.objects[RESULTS, f"runs/{plans.RUN_ID}/journal/0001-0000-started.json"]
    account.heartbeat(after=plans.HOUR)
    assert account.outcome == (1, "not_begun")


@pytest.mark.parametrize(
    ("happens", "reason"),
    [(Account.end_run, "complete"), (Account.stop, "stopped")],
)
def test_what_needs_no_node_frees_the_block(account: Account, happens: Any, reason: str) -> None:
    in_block(account)
    happens(account)
    account.heartbeat(after=2 * plans.MINUTE)
    assert account.outcome == (0, reason)


def test_deadline_and_destroy_hold_in_a_block(account: Account) -> None:
    in_block(account, deadline_minutes=60)
    account.heartbeat(after=plans.HOUR)
    assert account.outcome == (0, "deadline")
    account.delete(plan())
    assert account.cloudformation.answers[-1]["Status"] == "SUCCESS"


def test_kept_nodes_end_before_the_block_does(
    account: Account,
) -> None:
    in_block(account)
    fail_run(account)
    account.heartbeat(after=2 * plans.MINUTE)
    account.mail()
    account.fail("DescribeCapacityReservations", "RequestLimitExceeded")
    account.heartbeat(after=2 * plans.MINUTE)
    assert (account.outcome, account.mail()) == ((1, "failed"), [])
    account.heartbeat()
    assert account.schedule == "at(2026-11-21T08:20:00)"
    account.now = plans.NOW + (BLOCK_HOURS - 1) * plans.HOUR - 40 * plans.MINUTE
    account.heartbeat()
    assert account.desired == 0


@pytest.mark.parametrize("instances", [1, 2])
def test_the_ledger_has_the_whole_blocks_price(account: Account, instances: int) -> None:
    in_block(account, budget_usd=1.0)
    account.reservations[0]["TotalInstanceCount"] = instances
    account.end_run()
    account.heartbeat(after=2 * plans.HOUR - 2 * plans.MINUTE)
    assert account.deployment.spent_usd == BLOCK_HOURS * 10.0 * instances
    assert account.paid_seconds == 2 * plans.HOUR
    (mail,) = account.mail()
    usd, hours = 240 * instances, 24 * instances
    paid = f"Paid for the whole Capacity Block: {usd}.00 USD; 2.0 of {hours}.0 node hours used"
    assert paid in mail["text"]
