"""Every change of the number of nodes, by events of AWS's form that the handler gets."""

from typing import Any

import pytest

from draftworth.records.deployment import DraftRef
from lambdas.capacity_controller.actions import DRAIN_HOOK
from tests.lambdas.capacity_controller import plans
from tests.lambdas.capacity_controller.conftest import (
    FUNCTION_ARN,
    READY_EVENT,
    RUN_EVENT,
    Account,
    s3_event,
)
from tests.lambdas.capacity_controller.fakes import CHECKPOINTS, FOREIGN_TAGS, RESULTS, SETTINGS

DEADLINE_EVENT = {"trigger": "deadline"}


def running(account: Account) -> None:
    """Deploy and stage everything, and start the nodes."""
    account.start()
    account.instances_follow()
    account.heartbeat(after=2 * plans.MINUTE)
    assert (account.desired, len(account.instances)) == (1, 1)
    account.mail()
    account.log.clear()


def test_nodes_start_with_the_last_staged_model(account: Account) -> None:
    account.deploy(plans.make_plan(nodes=3))
    assert account.outcome == (0, "waiting_for_models")
    account.stage(plans.TARGET)
    account.handle(READY_EVENT)
    assert account.outcome == (0, "waiting_for_models")
    draft = "Qwen/Qwen3-1.7B/main/_READY.json"
    account.write(CHECKPOINTS, draft, b'{"schema": "draftworth.ready/1"')
    account.handle(s3_event(CHECKPOINTS, draft))
    assert account.outcome == (0, "waiting_for_models"), "the marker is half written"
    account.stage(plans.DRAFT)
    account.handle(s3_event(CHECKPOINTS, draft))
    (resized,) = account.called("UpdateNodegroupConfig")
    assert resized["scalingConfig"] == {"minSize": 0, "maxSize": 3, "desiredSize": 3}
    assert account.decisions() == [(0, "waiting_for_models"), (3, "ready")]


@pytest.mark.parametrize(
    ("vocabulary", "outcome"), [(None, (1, "ready")), ("bb" * 32, (0, "tokenizer_mismatch"))]
)
def test_a_head_needs_no_tokenizer_but_drafts_do(
    account: Account, vocabulary: str | None, outcome: tuple[int, str]
) -> None:
    account.stage(plans.TARGET)
    account.stage(plans.DRAFT, vocabulary=vocabulary)
    account.deploy()
    assert account.outcome == (0, "tokenizer_mismatch")
    (mail,) = account.mail()
    for name in ("Qwen/Qwen3-32B", "Qwen/Qwen3-1.7B"):
        assert name in mail["text"]
    head = DraftRef(checkpoint=plans.DRAFT, vocabulary="own_or_none")
    account.update(plans.make_plan(drafts=(head,)))
    assert account.outcome == outcome


@pytest.mark.parametrize("status", ["complete", "failed", None])
def test_a_finished_run_ends_the_nodes(account: Account, status: str | None) -> None:
    """An unreadable run.json ends them too, because it is written only when the run is over."""
    running(account)
    account.give_verdict()
    if status:
        account.end_run(status=status, reason="a server died")
    else:
        account.write(RESULTS, f"runs/{plans.RUN_ID}/run.json", b"{")
    account.handle(RUN_EVENT)
    assert (account.desired, account.decisions()) == (0, [(0, status or "failed")])
    (mail,) = account.mail()
    assert plans.RUN_ID in mail["text"]
    assert ("a server died" in mail["text"]) is (status == "failed")
    assert ("report.html" in mail["text"]) is (status == "complete")


@pytest.mark.parametrize(
    "run_id", ["llmperf-qwen3-32b-ffffffff-89abcdef", "llmperf-other-0a1b2c3d-89abcdef"]
)
def test_the_end_of_another_jobs_run_changes_nothing(account: Account, run_id: str) -> None:
    running(account)
    account.end_run(run_id)
    account.handle(s3_event(RESULTS, f"runs/{run_id}/run.json"))
    assert (account.desired, account.decisions()) == (1, [])


def test_the_deadlines_schedule_fires_once_in_time(
    account: Account,
) -> None:
    account.now = plans.NOW + 30
    account.deploy()
    assert account.schedule == "at(2026-11-20T14:01:00)"
    (request,) = account.called("CreateSchedule")
    assert request["ActionAfterCompletion"] == "DELETE"
    assert request["GroupName"] == SETTINGS.schedule_group
    assert request["FlexibleTimeWindow"] == {"Mode": "OFF"}
    assert request["Target"]["Arn"] == FUNCTION_ARN
    assert request["Target"]["RoleArn"] == SETTINGS.schedule_role_arn


@pytest.mark.parametrize("deleted_itself", [True, False])
def test_the_schedule_is_set_once_and_removed_later(account: Account, deleted_itself: bool) -> None:
    running(account)
    account.heartbeat(after=2 * plans.MINUTE)
    assert len(account.called("CreateSchedule")) == 1
    if deleted_itself:
        account.schedules.clear()
    account.heartbeat(after=240 * plans.MINUTE)
    assert (account.schedule, account.state.schedule_at_unix_s) == (None, None)
    assert account.events() == ["decision"]


def test_nodes_without_a_run_end_until_one_begins(
    account: Account,
) -> None:
    """If the Job's pod has no image or ends at once, it writes no `run.json`."""
    account.start()
    account.instances = [("i-0", "InService")]
    account.say(plans.make_server(phase="starting"))
    account.heartbeat(after=2 * plans.MINUTE)
    account.say(plans.make_server(phase="starting", since_unix_s=account.now))
    account.mail()
    for _ in range(4):
        account.heartbeat(after=2 * plans.MINUTE)
    assert account.mail() == []
    for _ in range(17):
        account.heartbeat(after=2 * plans.MINUTE)
    (mail,) = account.mail()
    assert mail["subject"] == "draftworth qwen3-32b: measuring Job is silent"
    assert all(words in mail["text"] for words in (plans.JOB, "10 minutes ago", "45 minutes"))
    assert account.desired == 1
    account.heartbeat(after=2 * plans.MINUTE)
    assert account.outcome == (0, "not_begun")
    account.begin_run(plans.JOB)
    account.heartbeat(after=2 * plans.MINUTE)
    assert account.desired == 1


def test_waiting_for_models_and_for_capacity_costs_nothing(account: Account) -> None:
    account.deploy(plans.make_plan(deadline_minutes=10_000))
    account.heartbeat(after=80 * plans.HOUR)
    account.stage()
    account.heartbeat()
    account.heartbeat(after=80 * plans.HOUR)
    assert account.outcome == (1, "ready")
    account.instances_follow()
    account.heartbeat(after=2 * plans.MINUTE)
    assert account.paid_seconds == 2 * plans.MINUTE


def test_nodes_that_still_drain_are_paid_for(account: Account) -> None:
    running(account)
    account.end_run()
    account.handle(RUN_EVENT)
    account.heartbeat(after=2 * plans.MINUTE)
    account.instances = []
    account.heartbeat(after=2 * plans.MINUTE)
    account.heartbeat(after=100 * plans.HOUR)
    assert account.paid_seconds == 6 * plans.MINUTE


def test_nodes_start_and_end_with_the_capacity_block(account: Account) -> None:
    starts, ends = plans.NOW + plans.HOUR, plans.NOW + 25 * plans.HOUR
    account.stage()
    account.reserve(starts=starts, ends=ends)
    account.deploy(plans.make_block_plan(deadline_minutes=10_000, budget_usd=1e6))
    assert account.outcome == (0, "block_not_started")
    account.now = starts
    account.reserve(starts=starts, ends=ends)
    account.heartbeat()
    assert account.outcome == (1, "ready")
    assert account.schedule == "at(2026-11-21T10:20:00)", "40 minutes before 11:00"
    account.reserve(starts=starts, ends=ends + plans.HOUR)
    account.heartbeat()
    assert account.schedule == "at(2026-11-21T11:20:00)", "the block was extended"
    account.now = ends + plans.HOUR - 40 * plans.MINUTE
    account.handle(DEADLINE_EVENT)
    assert account.outcome == (0, "block_over")


@pytest.mark.parametrize(
    "reservations", [[], [{"CapacityReservationId": plans.BLOCK_ID, "State": "active"}], None]
)
def test_without_its_block_nothing_starts(
    account: Account, reservations: list[dict[str, Any]] | None
) -> None:
    account.stage()
    if reservations is None:
        account.fail("DescribeCapacityReservations", "InvalidCapacityReservationId.NotFound")
    else:
        account.reservations = reservations
    account.deploy(plans.make_block_plan())
    assert account.outcome == (0, "no_block")
    assert plans.BLOCK_ID in account.mail()[0]["text"]


def test_an_unreadable_block_is_read_again_later(account: Account) -> None:
    account.fail("DescribeCapacityReservations", "RequestLimitExceeded")
    account.stage()
    account.reserve(starts=plans.NOW, ends=plans.NOW + 25 * plans.HOUR)
    account.deploy(plans.make_block_plan())
    assert (account.desired, account.decisions()) == (0, [])
    assert account.events() == ["not decided"]
    account.heartbeat()
    assert account.outcome == (1, "ready")


def test_a_foreign_node_group_is_never_touched(account: Account) -> None:
    account.tags = FOREIGN_TAGS
    account.start()
    account.heartbeat(after=240 * plans.MINUTE)
    assert "unchanged nodes, foreign node group" in account.subjects()[-1]
    account.delete()
    assert account.called("UpdateNodegroupConfig") == []
    assert account.reason == "foreign_node_group"
    assert account.cloudformation.answers[-1]["Status"] == "SUCCESS"


def test_a_size_changed_by_hand_is_reset_silently(
    account: Account,
) -> None:
    running(account)
    account.desired = 0
    account.heartbeat()
    assert account.desired == 1
    assert account.events() == ["size set again"]
    assert account.mail() == []


def test_drains_of_unneeded_nodes_are_ended(account: Account) -> None:
    running(account)
    account.instances = [("i-0", "Terminating:Wait"), ("i-1", "InService")]
    draining = {"detail-type": "EC2 Instance-terminate Lifecycle Action"}
    account.handle(draining)
    assert account.called("CompleteLifecycleAction") == []
    account.end_run()
    account.handle(draining)
    (completed,) = account.called("CompleteLifecycleAction")
    assert (completed["InstanceId"], completed["LifecycleHookName"]) == ("i-0", DRAIN_HOOK)
    assert completed["LifecycleActionResult"] == "CONTINUE"


def test_an_unchanged_observation_logs_and_sends_nothing(
    account: Account,
) -> None:
    running(account)
    heartbeat = {"trigger": "heartbeat"}
    for event in (READY_EVENT, READY_EVENT, RUN_EVENT, DEADLINE_EVENT, heartbeat, {}):
        account.handle(event)
    assert account.log == []
    assert account.mail() == []
    assert len(account.called("UpdateNodegroupConfig")) == 1


def test_without_nodes_the_state_is_rarely_written(account: Account) -> None:
    account.begin_staging(plans.TARGET, plans.DRAFT)
    account.deploy()
    account.calls.clear()
    account.heartbeat(after=plans.HOUR)
    assert account.called("PutObject") == []


def test_each_decision_is_one_line_and_one_notification(account: Account) -> None:
    account.deploy()
    account.stage()
    account.handle(READY_EVENT)
    account.end_run()
    account.handle(RUN_EVENT)
    lines = [entry for entry in account.log if entry["event"] == "decision"]
    assert [line["reason"] for line in lines] == ["waiting_for_models", "ready", "complete"]
    assert len(account.mail()) == len(lines)
    assert lines[2]["trigger"] == f"Object Created: runs/{plans.RUN_ID}/run.json"
    assert (lines[2]["job"], lines[2]["size_before"], lines[2]["desired_size"]) == (plans.JOB, 1, 0)
