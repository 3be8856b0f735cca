"""Every transition through the handler, with real boto3 calls and events of the real shape."""

from datetime import UTC, datetime
from typing import Any

import pytest

from draftworth.records.deployment import STOP_KEY, DraftRef
from lambdas.capacity_controller.actions import DRAIN_HOOK
from tests.lambdas.capacity_controller import plans
from tests.lambdas.capacity_controller.conftest import (
    CHECKPOINTS,
    FUNCTION_ARN,
    READY_EVENT,
    RESULTS,
    ROLE_ARN,
    RUN_EVENT,
    SCHEDULE_GROUP,
    Account,
    auto_scaling_event,
    s3_event,
)

pytestmark = pytest.mark.emulator
DEADLINE_EVENT = {"trigger": "deadline"}
STOP_EVENT = s3_event(RESULTS, STOP_KEY)


def running(account: Account) -> None:
    """Deployed, staged, and the nodes there."""
    account.stage()
    account.deploy()
    account.instances_follow()
    account.heartbeat(after=2 * plans.MINUTE)
    assert (account.desired, len(account.instances)) == (1, 1)
    account.mail()
    account.log.clear()


def test_nodes_come_up_with_the_last_model_that_is_staged(account: Account) -> None:
    account.deploy()
    assert (account.desired, account.reason) == (0, "waiting_for_models")
    account.stage(plans.TARGET)
    account.handle(READY_EVENT)
    assert (account.desired, account.reason) == (0, "waiting_for_models")
    account.stage(plans.DRAFT)
    account.handle(s3_event(CHECKPOINTS, "Qwen/Qwen3-1.7B/main/_READY.json"))
    assert account.scaling() == {"minSize": 0, "maxSize": 1, "desiredSize": 1}
    assert account.decisions() == [(0, "waiting_for_models"), (1, "ready")]


def test_models_of_an_earlier_deployment_bring_the_nodes_up_at_once(account: Account) -> None:
    account.stage()
    account.deploy()
    assert account.desired == 1


def test_the_maximum_grows_with_the_plan(account: Account) -> None:
    account.stage()
    account.deploy(plans.make_plan(nodes=3))
    assert account.scaling() == {"minSize": 0, "maxSize": 3, "desiredSize": 3}


def test_a_marker_that_is_half_written_is_none(account: Account) -> None:
    account.stage()
    key = "Qwen/Qwen3-32B/main/_READY.json"
    account.s3.put_object(Bucket=CHECKPOINTS, Key=key, Body=b'{"schema": "draftworth.ready/1"')
    account.deploy()
    assert account.reason == "waiting_for_models"


def test_tokenizers_that_differ_stop_the_run_before_any_node_with_both_names(
    account: Account,
) -> None:
    account.stage(plans.TARGET)
    account.stage(plans.DRAFT, vocabulary="bb" * 32)
    account.deploy()
    assert (account.desired, account.reason) == (0, "tokenizer_mismatch")
    (mail,) = account.mail()
    assert "Qwen/Qwen3-32B" in mail["text"]
    assert "Qwen/Qwen3-1.7B" in mail["text"]


def test_a_head_without_a_tokenizer_fits_and_a_draft_model_without_one_does_not(
    account: Account,
) -> None:
    account.stage(plans.TARGET)
    account.stage(plans.DRAFT, vocabulary=None)
    account.deploy()
    assert account.reason == "tokenizer_mismatch"
    head = DraftRef(checkpoint=plans.DRAFT, vocabulary="own_or_none")
    account.update(plans.make_plan(drafts=(head,)))
    assert (account.desired, account.reason) == (1, "ready")


@pytest.mark.parametrize("status", ["complete", "failed"])
def test_the_end_of_the_run_takes_the_nodes_down(account: Account, status: str) -> None:
    running(account)
    account.end_run(status=status, reason="a server died")
    account.handle(RUN_EVENT)
    assert (account.desired, account.decisions()) == (0, [(0, status)])
    (mail,) = account.mail()
    assert plans.RUN_ID in mail["text"]
    assert ("a server died" in mail["text"]) is (status == "failed")


def test_a_run_that_cannot_be_read_is_over_all_the_same(account: Account) -> None:
    running(account)
    account.s3.put_object(Bucket=RESULTS, Key=f"runs/{plans.RUN_ID}/run.json", Body=b"{")
    account.handle(RUN_EVENT)
    assert (account.desired, account.reason) == (0, "failed")


@pytest.mark.parametrize(
    "run_id", ["llmperf-qwen3-32b-ffffffff-89abcdef", "llmperf-other-0a1b2c3d-89abcdef"]
)
def test_the_end_of_another_jobs_run_changes_nothing(account: Account, run_id: str) -> None:
    running(account)
    account.end_run(run_id)
    account.handle(s3_event(RESULTS, f"runs/{run_id}/run.json"))
    assert (account.desired, account.decisions()) == (1, [])


def test_a_run_that_has_not_ended_changes_nothing(account: Account) -> None:
    running(account)
    account.s3.put_object(
        Bucket=RESULTS, Key=f"runs/{plans.RUN_ID}/blocks/1.result.json", Body=b"{}"
    )
    account.heartbeat()
    assert (account.desired, account.decisions()) == (1, [])


def test_the_deadline_takes_the_nodes_down(account: Account) -> None:
    running(account)
    account.now = plans.NOW + 240 * plans.MINUTE
    account.handle(DEADLINE_EVENT)
    assert (account.desired, account.decisions()) == (0, [(0, "deadline")])


def test_a_deadline_event_that_comes_early_changes_nothing(account: Account) -> None:
    running(account)
    account.now = plans.NOW + 240 * plans.MINUTE - 1
    account.handle(DEADLINE_EVENT)
    assert account.desired == 1


def test_models_that_are_staged_after_the_deadline_start_nothing(account: Account) -> None:
    account.deploy()
    account.now = plans.NOW + 240 * plans.MINUTE
    account.stage()
    account.handle(READY_EVENT)
    assert (account.desired, account.reason) == (0, "deadline")


def test_the_deadlines_schedule_fires_once_at_the_full_minute_not_before_it(
    account: Account,
) -> None:
    account.now = plans.NOW + 30
    account.deploy()
    assert account.schedule() == "at(2026-11-20T14:01:00)"
    (request,) = account.called("CreateSchedule")
    assert request["ActionAfterCompletion"] == "DELETE"
    assert request["GroupName"] == SCHEDULE_GROUP
    assert request["FlexibleTimeWindow"] == {"Mode": "OFF"}
    assert request["Target"]["Arn"] == FUNCTION_ARN
    assert request["Target"]["RoleArn"] == ROLE_ARN


def test_the_schedule_is_set_once_and_removed_when_it_has_fired(account: Account) -> None:
    running(account)
    account.heartbeat(after=2 * plans.MINUTE)
    assert len(account.called("CreateSchedule")) == 1
    account.heartbeat(after=240 * plans.MINUTE)
    assert account.schedule() is None


def test_a_schedule_that_deleted_itself_is_no_error(account: Account) -> None:
    running(account)
    account.scheduler.delete_schedule(Name="deadline", GroupName=SCHEDULE_GROUP)
    account.heartbeat(after=240 * plans.MINUTE)
    assert account.desired == 0
    assert account.state.schedule_at_unix_s is None


def test_the_first_heartbeat_over_the_budget_takes_the_nodes_down(
    account: Account,
) -> None:
    account.stage()
    account.deploy(plans.make_plan(deadline_minutes=10_000))
    account.instances_follow()
    for minutes in (*[30] * 11, *[2] * 14):
        account.heartbeat(after=minutes * plans.MINUTE)
    assert (account.desired, account.reason) == (1, "ready")
    account.heartbeat(after=2 * plans.MINUTE)
    assert (account.desired, account.reason) == (0, "budget")
    assert "60.00 USD of a budget of 60.00 USD" in account.mail()[-1]["text"]


def test_nodes_without_a_run_go_and_come_back_when_one_begins(
    account: Account,
) -> None:
    """The Job's pod has no image, or dies at once, and no `run.json` will ever say so."""
    account.stage()
    account.deploy()
    account.instances = [("i-0", "InService")]
    account.heartbeat(after=2 * plans.MINUTE)
    for _ in range(21):
        account.heartbeat(after=2 * plans.MINUTE)
    assert account.desired == 1
    account.heartbeat(after=2 * plans.MINUTE)
    assert (account.desired, account.reason) == (0, "not_begun")
    text = account.mail()[-1]["text"]
    assert (
        0 < text.index("make logs") < text.index("aws.public_access_cidrs") < text.index("kubectl")
    )
    account.begin_run(plans.JOB)
    account.heartbeat(after=2 * plans.MINUTE)
    assert account.desired == 1


def test_waiting_for_capacity_costs_nothing(account: Account) -> None:
    account.stage()
    account.deploy(plans.make_plan(deadline_minutes=10_000))
    account.heartbeat(after=100 * plans.HOUR)
    assert (account.desired, account.reason) == (1, "ready")
    account.instances_follow()
    account.heartbeat(after=2 * plans.MINUTE)
    deployment = account.state.deployment
    assert deployment is not None
    assert deployment.node_time.node_seconds == 2 * plans.MINUTE


def test_waiting_for_models_costs_nothing(account: Account) -> None:
    account.deploy(plans.make_plan(deadline_minutes=10_000))
    account.heartbeat(after=100 * plans.HOUR)
    account.stage()
    account.handle(READY_EVENT)
    account.instances_follow()
    account.heartbeat(after=2 * plans.MINUTE)
    deployment = account.state.deployment
    assert deployment is not None
    assert deployment.node_time.node_seconds == 2 * plans.MINUTE


def test_nodes_that_still_drain_are_paid_for(account: Account) -> None:
    running(account)
    account.end_run()
    account.handle(RUN_EVENT)
    account.heartbeat(after=2 * plans.MINUTE)
    account.instances = []
    account.heartbeat(after=2 * plans.MINUTE)
    account.heartbeat(after=100 * plans.HOUR)
    deployment = account.state.deployment
    assert deployment is not None
    assert deployment.node_time.node_seconds == 6 * plans.MINUTE


def test_the_stop_object_holds_until_it_is_deleted(account: Account) -> None:
    running(account)
    account.stop()
    account.handle(STOP_EVENT)
    assert (account.desired, account.reason) == (0, "stopped")
    account.s3.delete_object(Bucket=RESULTS, Key=STOP_KEY)
    account.handle(s3_event(RESULTS, STOP_KEY, "Object Deleted"))
    assert (account.desired, account.reason) == (1, "ready")


def reservation(state: str = "active", **overrides: Any) -> dict[str, Any]:
    """What DescribeCapacityReservations says of a Capacity Block (put into boto3's pipeline)."""
    fields = {
        "CapacityReservationId": plans.BLOCK_ID,
        "ReservationType": "capacity-block",
        "State": state,
        "StartDate": datetime.fromtimestamp(plans.NOW + plans.HOUR, UTC),
        "EndDate": datetime.fromtimestamp(plans.NOW + 25 * plans.HOUR, UTC),
    }
    return {**fields, **overrides}


def test_nodes_come_with_the_capacity_block_and_go_before_its_end(account: Account) -> None:
    account.stage()
    account.reservations = [reservation("scheduled")]
    account.deploy(plans.make_block_plan(deadline_minutes=10_000, budget_usd=1e6))
    assert (account.desired, account.reason) == (0, "block_not_started")
    account.now, account.reservations = plans.NOW + plans.HOUR, [reservation()]
    account.heartbeat()
    assert (account.desired, account.reason) == (1, "ready")
    assert account.schedule() == "at(2026-11-21T10:20:00)", "40 minutes before 11:00"
    account.now = plans.NOW + 25 * plans.HOUR - 40 * plans.MINUTE
    account.handle(DEADLINE_EVENT)
    assert (account.desired, account.reason) == (0, "block_over")


def test_a_block_that_is_extended_moves_the_deadline(account: Account) -> None:
    account.stage()
    account.reservations = [reservation(StartDate=datetime.fromtimestamp(plans.NOW, UTC))]
    account.deploy(plans.make_block_plan(deadline_minutes=10_000))
    account.reservations[0]["EndDate"] = datetime.fromtimestamp(plans.NOW + 49 * plans.HOUR, UTC)
    account.heartbeat(after=plans.MINUTE)
    assert account.schedule() == "at(2026-11-22T10:20:00)"


@pytest.mark.parametrize(
    "found", [[], [{"CapacityReservationId": plans.BLOCK_ID, "State": "active"}]]
)
def test_without_its_block_nothing_starts(account: Account, found: list[Any]) -> None:
    account.stage()
    account.reservations = found
    account.deploy(plans.make_block_plan())
    assert (account.desired, account.reason) == (0, "no_block")
    assert plans.BLOCK_ID in account.mail()[0]["text"]


def test_a_block_that_ec2_does_not_know_is_none(account: Account) -> None:
    account.fail(
        "ec2", "DescribeCapacityReservations", "InvalidCapacityReservationId.NotFound", None
    )
    account.stage()
    account.deploy(plans.make_block_plan())
    assert account.reason == "no_block"


def test_a_block_that_cannot_be_read_now_is_read_again_later(account: Account) -> None:
    account.fail("ec2", "DescribeCapacityReservations", "RequestLimitExceeded", None)
    account.stage()
    account.reservations = [reservation(StartDate=datetime.fromtimestamp(plans.NOW, UTC))]
    account.deploy(plans.make_block_plan())
    assert (account.desired, account.decisions()) == (0, [])
    assert [entry["event"] for entry in account.log] == ["not decided"]
    account.heartbeat()
    assert (account.desired, account.reason) == (1, "ready")


def test_an_experiment_without_a_block_asks_for_none(account: Account) -> None:
    account.fail("ec2", "DescribeCapacityReservations", "UnauthorizedOperation")
    account.stage()
    account.deploy()
    assert account.desired == 1


def test_a_foreign_node_group_is_never_touched(account: Account) -> None:
    foreign = plans.make_plan(nodegroup_name="foreign")
    account.create_node_group(foreign, tags={"draftworth:experiment": "another"})
    account.stage()
    account.deploy(foreign)
    account.heartbeat(after=240 * plans.MINUTE)
    account.delete(foreign)
    assert account.called("UpdateNodegroupConfig") == []
    assert account.reason == "foreign_node_group"
    assert account.cloudformation.answers[-1]["Status"] == "SUCCESS"


def test_a_node_group_that_is_replaced_is_waited_for(account: Account) -> None:
    plan = plans.make_plan(nodegroup_name="to-come")
    account.stage()
    account.deploy(plan)
    assert account.reason == "no_node_group"
    account.create_node_group(plan)
    account.heartbeat()
    assert account.scaling(plan)["desiredSize"] == 1


def test_a_size_changed_by_hand_is_set_again_without_a_notification(
    account: Account,
) -> None:
    running(account)
    account.eks.update_nodegroup_config(
        clusterName="draftworth-qwen3-32b",
        nodegroupName=plans.make_plan().nodegroup_name,
        scalingConfig={"desiredSize": 0},
    )
    account.heartbeat()
    assert account.desired == 1
    assert [entry["event"] for entry in account.log] == ["size set again"]
    assert account.mail() == []


def test_the_drain_of_nodes_that_are_not_needed_is_ended(account: Account) -> None:
    running(account)
    account.end_run()
    account.handle(RUN_EVENT)
    assert account.called("CompleteLifecycleAction") == []
    account.instances = [("i-0", "Terminating:Wait"), ("i-1", "InService")]
    account.handle(auto_scaling_event("EC2 Instance-terminate Lifecycle Action"))
    (completed,) = account.called("CompleteLifecycleAction")
    assert (completed["InstanceId"], completed["LifecycleHookName"]) == ("i-0", DRAIN_HOOK)
    assert completed["LifecycleActionResult"] == "CONTINUE"


def test_a_node_that_drains_during_the_run_is_left_to_its_drain(account: Account) -> None:
    running(account)
    account.instances = [("i-0", "Terminating:Wait"), ("i-1", "InService")]
    account.handle(auto_scaling_event("EC2 Instance-terminate Lifecycle Action"))
    assert account.called("CompleteLifecycleAction") == []


def test_an_unchanged_observation_logs_and_notifies_nothing(account: Account) -> None:
    running(account)
    for event in (READY_EVENT, READY_EVENT, RUN_EVENT, DEADLINE_EVENT, {"trigger": "heartbeat"}):
        account.handle(event)
    assert account.log == []
    assert account.mail() == []
    assert len(account.called("UpdateNodegroupConfig")) == 1


def test_without_nodes_the_state_is_not_written_each_time(account: Account) -> None:
    account.deploy()
    before = account.s3.head_object(Bucket=RESULTS, Key="control/capacity.json")["ETag"]
    account.heartbeat(after=plans.HOUR)
    assert account.s3.head_object(Bucket=RESULTS, Key="control/capacity.json")["ETag"] == before


def test_each_decision_is_one_line_and_one_notification(account: Account) -> None:
    account.deploy()
    account.stage()
    account.handle(READY_EVENT)
    account.end_run()
    account.handle(RUN_EVENT)
    lines = [entry for entry in account.log if entry["event"] == "decision"]
    assert [line["reason"] for line in lines] == ["waiting_for_models", "ready", "complete"]
    assert account.subjects() == [
        "draftworth qwen3-32b: 0 nodes, waiting for models",
        "draftworth qwen3-32b: 1 node, ready",
        "draftworth qwen3-32b: 0 nodes, complete",
    ]
    assert lines[2]["trigger"] == f"Object Created: runs/{plans.RUN_ID}/run.json"
    assert (lines[2]["job"], lines[2]["size_before"], lines[2]["desired_size"]) == (plans.JOB, 1, 0)


def test_events_in_any_order_lead_to_the_same_size(account: Account) -> None:
    account.stage()
    account.end_run()
    for event in (RUN_EVENT, READY_EVENT, DEADLINE_EVENT):
        account.handle(event)
    assert account.desired == 0, "nothing is deployed"
    account.deploy()
    account.handle(RUN_EVENT)
    account.handle(READY_EVENT)
    assert (account.desired, account.decisions()) == (0, [(0, "complete")])


def test_an_unknown_event_triggers_a_reconciliation(account: Account) -> None:
    account.deploy()
    account.stage()
    account.handle({})
    assert account.desired == 1
