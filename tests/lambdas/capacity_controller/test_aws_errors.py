"""Errors of AWS: which calls are repeated, which errors are reported or end the invocation."""

import contextlib

import pytest
from botocore.exceptions import ClientError

from lambdas.capacity_controller import controller
from tests.lambdas.capacity_controller import plans
from tests.lambdas.capacity_controller.conftest import READY_EVENT, RUN_EVENT, Account, started
from tests.lambdas.capacity_controller.fakes import FOREIGN_TAGS

BUSY = ("ResourceInUseException", "InvalidRequestException")


@pytest.mark.parametrize("code", [*BUSY, "ThrottlingException", "AccessDeniedException"])
def test_a_refused_size_is_retried_and_usually_fails(account: Account, code: str) -> None:
    started(account)
    account.end_run()
    account.fail("UpdateNodegroupConfig", code)
    failing = contextlib.nullcontext() if code in BUSY else pytest.raises(ClientError, match=code)
    with failing:
        account.handle(RUN_EVENT)
    assert account.outcome == (1, "complete")
    account.heartbeat(after=2 * plans.MINUTE)
    assert (account.desired, account.decisions()) == (0, [(0, "complete")])
    assert account.subjects() == ["draftworth qwen3-32b: 0 nodes, complete"]


@pytest.mark.parametrize("unsent", [True, False])
def test_a_long_refused_size_is_reported_once(account: Account, unsent: bool) -> None:
    started(account)
    account.end_run()
    account.fail("UpdateNodegroupConfig", *["ResourceInUseException"] * 5)
    account.heartbeat()
    assert account.subjects() == ["draftworth qwen3-32b: 0 nodes, complete"]
    account.heartbeat(after=controller.REPORT_REFUSED_SIZE_AFTER_SECONDS - 1)
    assert account.mail() == []
    account.fail("Publish", *["InternalErrorException"] * unsent)
    for _ in range(3):
        account.heartbeat(after=1)
    (complaint,) = account.mail()
    assert complaint["subject"] == "draftworth qwen3-32b: size 0 could not be set"
    assert "aws eks update-nodegroup-config" in complaint["text"]
    assert "desiredSize=0" in complaint["text"]
    account.heartbeat()
    assert account.desired == 0
    account.heartbeat()
    assert account.state.problems == ()


def test_the_heartbeat_keeps_an_unscheduled_deadline(account: Account) -> None:
    account.fail("CreateSchedule", "InternalServerException")
    started(account)
    assert account.schedule is None
    account.heartbeat(after=2 * plans.MINUTE)
    assert account.schedule == "at(2026-11-20T14:00:00)"


def test_a_schedule_made_elsewhere_meanwhile_is_no_error(
    account: Account,
) -> None:
    other = account.new_controller()
    account.before(
        "CreateSchedule",
        lambda: account.handle({"trigger": "heartbeat"}, controller=other),
    )
    account.deploy()
    assert account.schedule == "at(2026-11-20T14:00:00)"
    assert "schedule not set" not in account.events()


def test_an_unsent_notification_is_sent_later(account: Account) -> None:
    account.fail("Publish", "InternalErrorException")
    account.begin_staging(plans.TARGET, plans.DRAFT)
    account.deploy()
    assert account.mail() == []
    account.heartbeat(after=plans.MINUTE)
    assert account.mail() == [], "it might be another invocation's that is just sending it"
    account.heartbeat(after=controller.UNSENT_AFTER_SECONDS)
    assert account.subjects() == ["draftworth qwen3-32b: 0 nodes, waiting for models"]
    account.heartbeat(after=controller.UNSENT_AFTER_SECONDS)
    assert account.mail() == []


class KilledError(BaseException):
    """Stands for a process that dies: no code may catch this."""


def test_the_next_invocation_completes_a_killed_one(account: Account) -> None:
    account.stage()

    def kill() -> None:
        raise KilledError

    account.deploy(plans.make_plan(deadline_minutes=1))
    account.deploy(plans.make_plan(deadline_minutes=240), "Update")
    account.mail()
    account.end_run()
    account.before("UpdateNodegroupConfig", kill)
    with pytest.raises(KilledError):
        account.handle(RUN_EVENT)
    assert account.desired == 1
    account.heartbeat()
    assert account.desired == 0
    account.heartbeat(after=controller.UNSENT_AFTER_SECONDS + 1)
    assert account.subjects() == ["draftworth qwen3-32b: 0 nodes, complete"]


def test_one_failed_read_of_the_state_ends_nothing(account: Account) -> None:
    """The nodes stay, even if an earlier deploy started them and its deadline has passed."""
    started(account)
    account.now += 241 * plans.MINUTE
    account.update(plans.make_plan(job_name=plans.OTHER_JOB))
    account.fail("GetObject", *["SlowDown"] * 3)
    with pytest.raises(ClientError, match="SlowDown"):
        account.heartbeat()
    assert account.desired == 1


def test_an_unreadable_plan_keeps_no_node(account: Account) -> None:
    started(account)
    account.now += 240 * plans.MINUTE
    account.handle({"trigger": "heartbeat", "plan": '{"schema": "another"}'})
    assert account.desired == 0


def test_before_its_first_deploy_the_controller_does_nothing(account: Account) -> None:
    account.stage()
    account.heartbeat()
    account.handle(READY_EVENT)
    assert account.called("UpdateNodegroupConfig") == []
    assert account.mail() == []


def test_without_a_state_foreign_nodes_are_left_alone(account: Account) -> None:
    account.desired, account.tags = 1, FOREIGN_TAGS
    account.heartbeat(after=240 * plans.MINUTE)
    assert account.desired == 1


def test_a_drain_that_cannot_end_is_logged(account: Account) -> None:
    started(account)
    account.end_run()
    account.instances = [("i-0", "Terminating:Wait")]
    account.fail("CompleteLifecycleAction", "ValidationError")
    account.handle(RUN_EVENT)
    assert account.desired == 0
    assert "drain not ended" in account.events()
