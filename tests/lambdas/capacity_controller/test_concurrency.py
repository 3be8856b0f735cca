"""Several invocations at once, and one that is overtaken by another."""

import threading
from typing import Any

import pytest

from lambdas.capacity_controller.controller import (
    Controller,
    TooManyConflictsError,
)
from tests.lambdas.capacity_controller import conftest, plans

pytestmark = pytest.mark.emulator


def test_two_events_at_once_make_one_decision(account: conftest.Account) -> None:
    account.stage(plans.TARGET)
    account.deploy()
    account.mail()
    account.stage(plans.DRAFT)
    controllers = [account.new_controller() for _ in range(4)]
    together = threading.Barrier(len(controllers))
    failures: list[BaseException] = []

    def invoke(controller: Controller) -> None:
        together.wait()
        try:
            account.handle(conftest.READY_EVENT, controller=controller)
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            failures.append(error)

    threads = [threading.Thread(target=invoke, args=(c,)) for c in controllers]
    with one_request_at_a_time(account):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    assert account.desired == 1
    assert account.decisions()[1:] == [(1, "ready")]
    assert account.subjects() == ["draftworth qwen3-32b: 1 node, ready"]


class one_request_at_a_time:  # noqa: N801 - reads as a sentence where it is used
    """moto checks a condition and writes in two steps; S3 does it in one."""

    def __init__(self, account: conftest.Account) -> None:
        self._account = account
        self._lock = threading.Lock()
        self._made: Any = None

    def __enter__(self) -> None:
        self._made = self._account.s3._endpoint.make_request

        def locked(*args: Any, **keywords: Any) -> Any:
            with self._lock:
                return self._made(*args, **keywords)

        self._account.s3._endpoint.make_request = locked

    def __exit__(self, *_: object) -> None:
        self._account.s3._endpoint.make_request = self._made


def test_after_a_conflict_the_newer_observation_decides(account: conftest.Account) -> None:
    """While one invocation is about to write "up", another one sees the run's end."""
    account.stage(plans.TARGET)
    account.deploy()
    account.stage(plans.DRAFT)
    other = account.new_controller()

    def meanwhile() -> None:
        account.end_run()
        account.handle(conftest.RUN_EVENT, controller=other)

    account.before("autoscaling", "DescribeAutoScalingGroups", meanwhile)
    account.handle(conftest.READY_EVENT)
    assert account.desired == 0
    assert account.decisions() == [(0, "waiting_for_models"), (0, "complete")]


def test_an_invocation_overtaken_while_acting_reconciles_again(account: conftest.Account) -> None:
    """One invocation has decided "up" and is about to ask EKS; the deadline passes in between."""
    account.deploy(plans.make_plan(deadline_minutes=2))
    account.stage()
    other = account.new_controller()

    def meanwhile() -> None:
        account.now = plans.NOW + 2 * plans.MINUTE
        account.handle({"trigger": "deadline"}, controller=other)

    account.before("eks", "UpdateNodegroupConfig", meanwhile)
    account.now += 2 * plans.MINUTE - 1
    account.handle(conftest.READY_EVENT)
    assert (account.desired, account.reason) == (0, "deadline")
    assert account.schedule() is None
    assert account.subjects() == [
        "draftworth qwen3-32b: 0 nodes, waiting for models",
        "draftworth qwen3-32b: 0 nodes, deadline",
        "draftworth qwen3-32b: 1 node, ready",
    ], "each decision once, in the order in which they were sent"


def test_a_delete_that_overtakes_a_reconciliation_wins(account: conftest.Account) -> None:
    account.deploy()
    account.stage()
    account.before("eks", "UpdateNodegroupConfig", account.delete)
    account.handle(conftest.READY_EVENT)
    assert (account.desired, account.reason) == (0, "ended")


def test_an_overtaken_invocation_that_only_set_the_size_again_too(
    account: conftest.Account,
) -> None:
    """Without a new decision there is nothing to write, and the race must be seen all the same."""
    conftest.started(account)
    account.eks.update_nodegroup_config(
        clusterName="draftworth-qwen3-32b",
        nodegroupName=plans.make_plan().nodegroup_name,
        scalingConfig={"desiredSize": 0},
    )
    account.before("eks", "UpdateNodegroupConfig", account.delete)
    account.heartbeat()
    assert (account.desired, account.reason) == (0, "ended")


def test_endless_conflicts_end_the_invocation(account: conftest.Account) -> None:
    account.deploy()
    account.stage()
    account.fail("s3", "PutObject", *["PreconditionFailed"] * 100)
    with pytest.raises(TooManyConflictsError):
        account.heartbeat()
    assert account.desired == 0


def test_a_write_whose_answer_was_lost_is_taken_for_done(account: conftest.Account) -> None:
    """boto3 sends it again and is told that somebody wrote in between: it was itself."""
    account.stage()
    answers = [True]

    def lose_the_answer(parsed: dict[str, Any], **_: Any) -> None:
        if answers.pop() if answers else False:
            parsed["Error"] = {"Code": "PreconditionFailed", "Message": "own write"}

    events = account.s3.meta.events
    events.register("after-call.s3.PutObject", lose_the_answer)
    account.deploy()
    events.unregister("after-call.s3.PutObject", lose_the_answer)
    assert account.desired == 1
