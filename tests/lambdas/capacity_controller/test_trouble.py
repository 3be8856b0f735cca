"""What goes wrong: AWS errors, nodes that do not come or go away, two invocations at once."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from draftworth.records.capacity import STATE_KEY
from draftworth.records.codec import dump_text
from lambdas.capacity_controller import handler as handler_module
from lambdas.capacity_controller.controller import (
    ORPHANED_AFTER_SECONDS,
    PATIENCE_SECONDS,
    Controller,
    RestlessError,
)
from lambdas.capacity_controller.handler import handler, log_line
from lambdas.capacity_controller.settings import SettingsError, load_settings
from lambdas.capacity_controller.store import StateError
from tests.lambdas.capacity_controller.conftest import (
    FUNCTION_ARN,
    READY_EVENT,
    RESULTS,
    RUN_EVENT,
    Account,
    failed_launch,
)
from tests.lambdas.capacity_controller.plans import (
    DRAFT,
    HOUR,
    MINUTE,
    NOW,
    TARGET,
    make_plan,
)

pytestmark = pytest.mark.emulator
SPOT_MESSAGE = (
    "Could not launch Spot Instances. InsufficientInstanceCapacity - There is no Spot capacity "
    "available that matches your request. Launching EC2 instance failed."
)


def started(account: Account) -> None:
    """Deployed, staged, and nodes asked for."""
    account.stage()
    account.deploy()
    account.mail()
    account.log.clear()
    account.calls.clear()


# Errors of AWS


@pytest.mark.parametrize("code", ["ResourceInUseException", "InvalidRequestException"])
def test_a_busy_node_group_is_left_to_the_next_look(account: Account, code: str) -> None:
    account.stage()
    account.fail("eks", "UpdateNodegroupConfig", code)
    account.deploy()
    assert account.desired == 0
    account.heartbeat(after=2 * MINUTE)
    assert account.desired == 1
    assert account.decisions() == [(1, "ready")]
    assert len(account.mail()) == 1, "the decision was told once"


@pytest.mark.parametrize("code", ["ThrottlingException", "AccessDeniedException"])
def test_a_size_that_eks_refuses_fails_the_invocation_and_is_tried_again(
    account: Account, code: str
) -> None:
    started(account)
    account.end_run()
    account.fail("eks", "UpdateNodegroupConfig", code)
    with pytest.raises(ClientError, match=code):
        account.handle(RUN_EVENT)
    assert (account.desired, account.reason) == (1, "complete")
    account.heartbeat()
    assert account.desired == 0
    assert account.subjects() == ["draftworth qwen3-32b: 0 nodes, complete"]


@pytest.mark.parametrize("code", ["ResourceInUseException", "AccessDeniedException"])
def test_a_size_that_is_refused_for_long_is_told_once_with_the_command(
    account: Account, code: str
) -> None:
    started(account)
    account.end_run()
    account.fail("eks", "UpdateNodegroupConfig", *[code] * 5)
    for _ in range(5):
        try:
            account.heartbeat(after=PATIENCE_SECONDS / 2)
        except ClientError:
            assert code == "AccessDeniedException"
    decision, complaint = account.mail()
    assert decision["subject"].endswith("complete")
    assert complaint["subject"] == "draftworth qwen3-32b: size 0 could not be set"
    assert "aws eks update-nodegroup-config" in complaint["text"]
    assert "desiredSize=0" in complaint["text"]
    account.heartbeat()
    assert account.desired == 0
    account.heartbeat()
    assert account.state.problems == ()


def test_a_refused_size_that_could_not_be_told_is_told_at_the_next_look(account: Account) -> None:
    started(account)
    account.end_run()
    account.handle(RUN_EVENT)
    account.mail()
    account.eks.update_nodegroup_config(
        clusterName=make_plan().cluster_name,
        nodegroupName=make_plan().nodegroup_name,
        scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 1},
    )
    account.fail("eks", "UpdateNodegroupConfig", *["ResourceInUseException"] * 3)
    account.fail("sns", "Publish", "InternalErrorException")
    account.heartbeat(after=PATIENCE_SECONDS)
    assert account.mail() == []
    account.heartbeat(after=MINUTE)
    account.heartbeat(after=MINUTE)
    assert account.subjects() == ["draftworth qwen3-32b: size 0 could not be set"]


def test_a_deadline_that_cannot_be_scheduled_is_kept_by_the_heartbeat(account: Account) -> None:
    account.fail("scheduler", "UpdateSchedule", "InternalServerException", None)
    started(account)
    assert account.schedule() is None
    account.heartbeat(after=2 * MINUTE)
    assert account.schedule() == "at(2026-11-20T14:00:00)"


def test_a_schedule_that_another_invocation_makes_at_this_moment_is_no_error(
    account: Account,
) -> None:
    other = account.new_controller()
    account.before(
        "scheduler",
        "CreateSchedule",
        lambda: account.handle({"trigger": "heartbeat"}, controller=other),
    )
    account.deploy()
    assert account.schedule() == "at(2026-11-20T14:00:00)"
    assert "schedule not set" not in [entry["event"] for entry in account.log]


def test_a_notification_that_could_not_be_sent_is_sent_later(account: Account) -> None:
    account.fail("sns", "Publish", "InternalErrorException")
    account.deploy()
    assert account.mail() == []
    account.heartbeat(after=MINUTE)
    assert account.mail() == [], "it might be another invocation's that is just sending it"
    account.heartbeat(after=ORPHANED_AFTER_SECONDS)
    assert account.subjects() == ["draftworth qwen3-32b: 0 nodes, waiting for models"]
    account.heartbeat(after=ORPHANED_AFTER_SECONDS)
    assert account.mail() == []


class KilledError(BaseException):
    """The process dies here: nothing may catch it."""


def test_an_invocation_that_dies_after_deciding_is_made_up_for(account: Account) -> None:
    account.stage()

    def kill() -> None:
        raise KilledError

    account.deploy(make_plan(deadline_minutes=1))
    account.deploy(make_plan(deadline_minutes=240), "Update")
    account.mail()
    account.end_run()
    account.before("eks", "UpdateNodegroupConfig", kill)
    with pytest.raises(KilledError):
        account.handle(RUN_EVENT)
    assert account.desired == 1
    account.heartbeat()
    assert account.desired == 0
    account.heartbeat(after=ORPHANED_AFTER_SECONDS + 1)
    assert account.subjects() == ["draftworth qwen3-32b: 0 nodes, complete"]


@pytest.mark.parametrize("operation", ["GetObject", "ListObjectsV2"])
def test_what_s3_does_not_say_ends_no_run_and_starts_none(account: Account, operation: str) -> None:
    started(account)
    hidden = [None, *["SlowDown"] * 3] if operation == "GetObject" else ["SlowDown"]
    account.fail("s3", operation, *hidden)
    account.heartbeat()
    assert (account.desired, account.decisions()) == (1, [])
    assert [entry["event"] for entry in account.log] == ["not decided"]


def test_the_deadline_holds_although_s3_says_nothing_of_models_and_runs(account: Account) -> None:
    started(account)
    account.fail("s3", "ListObjectsV2", "AccessDenied")
    account.heartbeat(after=240 * MINUTE)
    assert (account.desired, account.reason) == (0, "deadline")


def test_a_state_that_nobody_can_read_ends_the_invocation_with_what_to_do(
    account: Account,
) -> None:
    account.deploy()
    account.s3.put_object(Bucket=RESULTS, Key="control/capacity.json", Body=b"{}")
    with pytest.raises(StateError, match="restore it, or delete it"):
        account.heartbeat()


@pytest.mark.parametrize("body", [None, b"{}"])
def test_nodes_whose_deadline_is_lost_with_the_state_go_to_zero(
    account: Account, body: bytes | None
) -> None:
    started(account)
    account.instances_follow()
    if body is None:
        account.s3.delete_object(Bucket=RESULTS, Key=STATE_KEY)
    else:
        account.s3.put_object(Bucket=RESULTS, Key=STATE_KEY, Body=body)
    account.instances = [("i-0", "Terminating:Wait")]
    for _ in range(2):
        with nullcontext() if body is None else pytest.raises(StateError):
            account.heartbeat()
    assert account.desired == 0
    assert account.called("CompleteLifecycleAction")
    (told,) = account.mail()
    assert told["subject"] == "draftworth qwen3-32b: 0 nodes, state lost"
    assert STATE_KEY in told["text"]


def test_before_its_first_deploy_the_controller_does_nothing(account: Account) -> None:
    account.stage()
    account.heartbeat()
    account.handle(READY_EVENT)
    assert account.called("UpdateNodegroupConfig") == []
    assert account.mail() == []


def test_without_a_state_a_foreign_node_group_is_left_alone(account: Account) -> None:
    foreign = make_plan(nodegroup_name="foreign", nodegroup_tags={"whose": "theirs"})
    up = {"minSize": 0, "maxSize": 1, "desiredSize": 1}
    account.create_node_group(foreign, scalingConfig=up)
    plan = dump_text(make_plan(nodegroup_name="foreign"))
    account.handle({"trigger": "heartbeat", "plan": plan})
    assert account.scaling(foreign)["desiredSize"] == 1


def test_a_node_group_that_cannot_be_read_ends_the_invocation(account: Account) -> None:
    started(account)
    account.fail("eks", "DescribeNodegroup", "ThrottlingException")
    with pytest.raises(ClientError, match="ThrottlingException"):
        account.heartbeat()


def test_a_drain_that_cannot_be_ended_is_logged_and_goes_on(account: Account) -> None:
    started(account)
    account.end_run()
    account.instances = [("i-0", "Terminating:Wait")]
    account.fail("autoscaling", "CompleteLifecycleAction", "ValidationError")
    account.handle(RUN_EVENT)
    assert account.desired == 0
    assert "drain not ended" in [entry["event"] for entry in account.log]


# Nodes that do not come, and nodes that go


def test_insufficient_capacity_is_told_once_with_the_zone_and_what_to_try(
    account: Account,
) -> None:
    started(account)
    for minutes in (1, 5, 9):
        account.activities.insert(0, failed_launch(SPOT_MESSAGE, at=NOW + minutes * MINUTE))
        account.heartbeat(after=4 * MINUTE)
    (mail,) = account.mail()
    assert mail["subject"] == "draftworth qwen3-32b: insufficient capacity"
    for word in ("us-east-2c", "spot", "trn2.48xlarge", "on_demand", "Capacity Block"):
        assert word in mail["text"]
    assert account.desired == 1, "Auto Scaling goes on trying"


def test_capacity_that_comes_ends_the_problem_and_a_new_one_is_told_again(
    account: Account,
) -> None:
    started(account)
    account.activities = [failed_launch(SPOT_MESSAGE, at=NOW + MINUTE)]
    account.heartbeat(after=2 * MINUTE)
    account.activities, account.instances = [], [("i-0", "InService")]
    account.heartbeat(after=2 * MINUTE)
    assert account.state.problems == ()
    account.mail()
    account.instances = []
    account.activities = [failed_launch(SPOT_MESSAGE, at=NOW + 6 * MINUTE)]
    account.heartbeat(after=2 * MINUTE)
    assert sorted(account.subjects()) == [
        "draftworth qwen3-32b: 1 accelerator node(s) lost",
        "draftworth qwen3-32b: insufficient capacity",
    ]


def test_the_health_of_the_node_group_is_told_when_nothing_else_says_why(
    account: Account,
) -> None:
    started(account)
    account.issues = [
        {
            "code": "NodeCreationFailure",
            "message": "Instances failed to join the kubernetes cluster",
            "resourceIds": ["i-0"],
        }
    ]
    account.heartbeat(after=MINUTE)
    (mail,) = account.mail()
    assert "Instances failed to join the kubernetes cluster" in mail["text"]


def test_a_launch_that_failed_before_the_nodes_were_asked_for_is_of_the_past(
    account: Account,
) -> None:
    account.activities = [failed_launch(SPOT_MESSAGE, at=NOW - HOUR)]
    started(account)
    account.heartbeat(after=MINUTE)
    assert account.mail() == []


def test_a_problem_of_nodes_that_nobody_wants_is_not_told(account: Account) -> None:
    account.issues = [{"code": "AsgInstanceLaunchFailures", "message": "x", "resourceIds": []}]
    account.deploy()
    account.mail()
    account.heartbeat(after=MINUTE)
    assert account.mail() == []


def test_an_activity_history_that_cannot_be_read_decides_nothing(account: Account) -> None:
    account.fail("autoscaling", "DescribeScalingActivities", *["AccessDenied"] * 9)
    started(account)
    account.heartbeat()
    assert account.desired == 1


def test_a_lost_node_is_told_and_left_to_auto_scaling(account: Account) -> None:
    started(account)
    account.instances_follow()
    account.heartbeat(after=MINUTE)
    account.instances = []
    account.heartbeat(after=MINUTE)
    assert account.subjects() == ["draftworth qwen3-32b: 1 accelerator node(s) lost"]
    account.heartbeat(after=MINUTE)
    assert account.mail() == []
    assert account.desired == 1
    assert account.called("UpdateNodegroupConfig") == []


def test_a_node_that_was_replaced_beforehand_is_not_lost(account: Account) -> None:
    """EKS starts another one at a rebalance recommendation, then drains the first."""
    started(account)
    account.instances_follow()
    account.heartbeat(after=2 * MINUTE)
    account.instances.append(("i-9", "InService"))
    account.heartbeat(after=2 * MINUTE)
    account.instances = [("i-9", "InService")]
    account.heartbeat(after=2 * MINUTE)
    assert account.mail() == []


def test_nodes_that_go_because_they_were_told_to_are_not_lost(account: Account) -> None:
    started(account)
    account.instances_follow()
    account.heartbeat(after=MINUTE)
    account.end_run()
    account.handle(RUN_EVENT)
    account.mail()
    account.instances = []
    account.heartbeat(after=MINUTE)
    assert account.mail() == []


# Two at once


def test_two_events_at_once_make_one_decision(account: Account) -> None:
    account.stage(TARGET)
    account.deploy()
    account.mail()
    account.stage(DRAFT)
    controllers = [account.new_controller() for _ in range(4)]
    together = threading.Barrier(len(controllers))
    failures: list[BaseException] = []

    def invoke(controller: Controller) -> None:
        together.wait()
        try:
            account.handle(READY_EVENT, controller=controller)
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
    assert account.subjects() == ["draftworth qwen3-32b: 1 nodes, ready"]


class one_request_at_a_time:  # noqa: N801 - reads as a sentence where it is used
    """moto checks a condition and writes in two steps; S3 does it in one."""

    def __init__(self, account: Account) -> None:
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


def test_who_loses_the_race_looks_again_and_decides_by_the_newer_world(account: Account) -> None:
    """While one invocation is about to write "up", another one sees the run's end."""
    account.stage(TARGET)
    account.deploy()
    account.stage(DRAFT)
    other = account.new_controller()

    def meanwhile() -> None:
        account.end_run()
        account.handle(RUN_EVENT, controller=other)

    account.before("autoscaling", "DescribeAutoScalingGroups", meanwhile)
    account.handle(READY_EVENT)
    assert account.desired == 0
    assert account.decisions() == [(0, "waiting_for_models"), (0, "complete")]


def test_who_is_overtaken_while_acting_corrects_itself_at_once(account: Account) -> None:
    """One invocation has decided "up" and is about to ask EKS; the deadline passes in between."""
    account.deploy(make_plan(deadline_minutes=2))
    account.stage()
    other = account.new_controller()

    def meanwhile() -> None:
        account.now = NOW + 2 * MINUTE
        account.handle({"trigger": "deadline"}, controller=other)

    account.before("eks", "UpdateNodegroupConfig", meanwhile)
    account.now += 2 * MINUTE - 1
    account.handle(READY_EVENT)
    assert (account.desired, account.reason) == (0, "deadline")
    assert account.schedule() is None
    assert account.subjects() == [
        "draftworth qwen3-32b: 0 nodes, waiting for models",
        "draftworth qwen3-32b: 0 nodes, deadline",
        "draftworth qwen3-32b: 1 nodes, ready",
    ], "each decision once, in the order in which they were sent"


def test_a_delete_that_overtakes_a_look_has_the_last_word(account: Account) -> None:
    account.deploy()
    account.stage()
    account.before("eks", "UpdateNodegroupConfig", account.delete)
    account.handle(READY_EVENT)
    assert (account.desired, account.reason) == (0, "ended")


def test_a_size_set_again_by_one_who_is_overtaken_is_corrected_too(account: Account) -> None:
    """Without a new decision there is nothing to write, and the race must be seen all the same."""
    started(account)
    account.eks.update_nodegroup_config(
        clusterName="draftworth-qwen3-32b",
        nodegroupName=make_plan().nodegroup_name,
        scalingConfig={"desiredSize": 0},
    )
    account.before("eks", "UpdateNodegroupConfig", account.delete)
    account.heartbeat()
    assert (account.desired, account.reason) == (0, "ended")


def test_a_state_that_never_rests_ends_the_invocation(account: Account) -> None:
    account.deploy()
    account.stage()
    account.fail("s3", "PutObject", *["PreconditionFailed"] * 100)
    with pytest.raises(RestlessError):
        account.heartbeat()
    assert account.desired == 0


def test_a_write_whose_answer_was_lost_is_taken_for_done(account: Account) -> None:
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


# The function's surroundings


def test_missing_settings_are_named_together() -> None:
    with pytest.raises(SettingsError, match=r"TOPIC_ARN, SCHEDULE_GROUP, SCHEDULE_ROLE_ARN"):
        load_settings({"CHECKPOINTS_BUCKET": "a", "RESULTS_BUCKET": "b", "TOPIC_ARN": ""})


def test_the_deployed_entry_point_reads_its_environment(
    account: Account, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    account.now = time.time()
    account.deploy()
    account.stage()
    for name, value in vars(account.settings).items():
        monkeypatch.setenv(name.upper(), value)
    monkeypatch.setattr(boto3, "client", lambda name, **_: getattr(account.clients, name))
    context: Any = SimpleNamespace(invoked_function_arn=FUNCTION_ARN)
    handler_module._controller.cache_clear()
    handler(READY_EVENT, context)
    handler_module._controller.cache_clear()
    assert account.desired == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert '"reason": "ready"' in line


def test_a_log_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    log_line({"text": "two\nlines"})
    assert capsys.readouterr().out == '{"text": "two\\nlines"}\n'
