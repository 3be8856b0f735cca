"""CloudFormation's requests: a deployment is created, changed, rolled back, deleted."""

from pathlib import Path
from typing import Any

import pytest

from draftworth.records.codec import dump_text
from draftworth.records.deployment import STATE_KEY
from tests.draftworth.records.write_golden import GOLDEN
from tests.lambdas.capacity_controller import plans
from tests.lambdas.capacity_controller.conftest import READY_EVENT, STACK_ID, Account
from tests.lambdas.capacity_controller.fakes import RESULTS


def last_answer(account: Account) -> dict[str, Any]:
    return account.cloudformation.answers[-1]


@pytest.mark.parametrize(
    ("kind", "physical_id"), [("Create", "draftworth-x/Deployment"), ("Update", "first/id")]
)
def test_cloudformation_gets_its_answer_in_its_form(
    account: Account, kind: str, physical_id: str
) -> None:
    """The physical id never changes, so that no Job is deleted by a replacement."""
    identity = {} if kind == "Create" else {"PhysicalResourceId": physical_id}
    event = account.deploy(plans.make_plan(job_name=plans.OTHER_JOB), kind, **identity)
    assert account.cloudformation.answers == [
        {
            "Status": "SUCCESS",
            "Reason": "done",
            "PhysicalResourceId": physical_id,
            "StackId": STACK_ID,
            "RequestId": event["RequestId"],
            "LogicalResourceId": "Deployment",
        }
    ]
    assert account.cloudformation.content_types == [""], "the URL is signed for no content type"


def test_a_lost_response_is_sent_again_twice(account: Account) -> None:
    account.cloudformation.failures = 2
    account.deploy()
    assert len(account.cloudformation.answers) == 1
    account.cloudformation.failures = 3
    with pytest.raises(OSError, match="503"):
        account.deploy()


@pytest.mark.parametrize("text", ["{}", "no json", '{"schema": "%s"}' % ("x" * 5000)])
def test_an_invalid_plan_fails_deploys_but_not_deletes(account: Account, text: str) -> None:
    account.deploy(ResourceProperties={"Plan": text})
    assert last_answer(account)["Status"] == "FAILED"
    assert "Plan" in last_answer(account)["Reason"]
    assert len(last_answer(account)["Reason"]) <= 1000, "an answer has 4096 bytes"
    account.deploy(kind="Delete", ResourceProperties={"Plan": text})
    assert last_answer(account)["Status"] == "SUCCESS"


def test_a_state_of_another_version_fails_the_deploy(account: Account) -> None:
    account.deploy()
    state = account.objects[RESULTS, STATE_KEY][0]
    older = state.replace(b"capacity-state/5", b"capacity-state/4")
    assert older != state
    account.write(RESULTS, STATE_KEY, older)
    account.update(plans.make_plan())
    assert last_answer(account)["Status"] == "FAILED"
    for words in (STATE_KEY, "capacity-state/4", "capacity-state/5", "deploy again"):
        assert words in last_answer(account)["Reason"]


@pytest.mark.parametrize("version", sorted(GOLDEN.iterdir()), ids=lambda folder: folder.name)
def test_a_run_survives_an_update_of_its_stack(account: Account, version: Path) -> None:
    account.start()
    account.write(RESULTS, STATE_KEY, (version / "capacity-state.json").read_bytes())
    account.handle({"trigger": "heartbeat", "plan": (version / "capacity-plan.json").read_text()})
    account.update(plans.make_plan())
    assert account.outcome == (1, "ready")
    assert last_answer(account)["Status"] == "SUCCESS"
    assert account.schedule == "at(2026-11-20T14:00:00)", "the deadline of the first deploy"


def test_a_repeated_request_does_not_move_the_deadline(account: Account) -> None:
    event = account.deploy()
    account.now += plans.HOUR
    account.handle(event)
    assert account.schedule == "at(2026-11-20T14:00:00)"
    assert len(account.cloudformation.answers) == 2


def test_a_raised_deadline_counts_from_the_first_deploy(
    account: Account,
) -> None:
    account.start()
    account.now += plans.HOUR
    account.update(plans.make_plan(deadline_minutes=300))
    assert account.schedule == "at(2026-11-20T15:00:00)"
    assert account.outcome == (1, "ready")
    assert len(account.called("UpdateNodegroupConfig")) == 1, "a deploy does not change the size"
    account.heartbeat(after=240 * plans.MINUTE)
    assert account.outcome == (0, "deadline")
    account.update(plans.make_plan(deadline_minutes=360))
    assert (account.outcome, account.schedule) == ((1, "ready"), "at(2026-11-20T16:00:00)")


@pytest.mark.parametrize("why", ["complete", "budget"])
def test_a_raised_deadline_restarts_no_finished_run(account: Account, why: str) -> None:
    account.start(plans.make_plan(budget_usd=30.0))
    account.instances_follow()
    account.heartbeat(after=240 * plans.MINUTE)
    if why == "complete":
        account.end_run()
    more = {"deadline_minutes": 3000, "budget_usd": 30.0 if why == "budget" else 1e6}
    account.update(plans.make_plan(**more))
    assert account.outcome == (0, why)
    account.update(plans.make_plan(deadline_minutes=3000, budget_usd=50.0))
    assert account.outcome == ((0, "complete") if why == "complete" else (1, "ready"))


def test_another_job_has_its_own_deadline_and_spend(
    account: Account,
) -> None:
    account.start(plans.make_plan(budget_usd=20.0))
    account.instances_follow()
    account.heartbeat(after=plans.HOUR)
    account.now += plans.HOUR / 2  # until the Job changes, node time is the old Job's
    account.mail()
    account.update(plans.make_plan(job_name=plans.OTHER_JOB, budget_usd=20.0))
    (mail,) = account.mail()
    assert "1 -> 1" in mail["text"]
    assert plans.OTHER_JOB in mail["text"]
    account.begin_run(plans.OTHER_JOB)
    assert account.outcome == (1, "ready")
    assert len(account.called("UpdateNodegroupConfig")) == 1, "the nodes are kept for the new Job"
    assert account.schedule == "at(2026-11-20T15:30:00)"
    account.heartbeat(after=plans.HOUR)
    deployments = account.state.deployments
    assert [deployments[job].spent_usd for job in (plans.JOB, plans.OTHER_JOB)] == [15.0, 10.0]


def test_a_rollback_restores_the_old_deadline_and_spend(
    account: Account,
) -> None:
    account.start()
    account.instances_follow()
    account.heartbeat(after=plans.HOUR)
    account.update(plans.make_plan(job_name=plans.OTHER_JOB))
    account.now += 10 * plans.MINUTE
    account.update(plans.make_plan())
    assert account.state.current == plans.JOB
    assert account.schedule == "at(2026-11-20T14:00:00)"
    assert account.outcome == (1, "ready")
    account.heartbeat(after=20 * plans.MINUTE)
    assert (
        account.state.deployments[plans.JOB].node_time.node_seconds
        == plans.HOUR + 20 * plans.MINUTE
    )


def test_a_rollback_past_the_deadline_starts_no_nodes(account: Account) -> None:
    account.start()
    account.now += 241 * plans.MINUTE
    account.update(plans.make_plan(job_name=plans.OTHER_JOB))
    assert account.desired == 1
    account.update(plans.make_plan())
    assert account.outcome == (0, "deadline")


def test_another_kind_of_capacity_needs_another_node_group(account: Account) -> None:
    account.start()
    group = "draftworth-qwen3-32b-accelerator-od"
    plan = plans.make_plan(nodegroup_name=group, capacity="on_demand")
    account.create_node_group(plan)
    del account.groups[plans.make_plan().nodegroup_name]
    account.heartbeat()
    assert account.reason == "no_node_group"
    account.update(plan)
    assert account.size_of(plan) == 1


@pytest.mark.parametrize("refused", [0, 1_000])
def test_replaced_nodes_go_or_the_deploy_fails(account: Account, refused: int) -> None:
    """CloudFormation deletes a replaced group last, and succeeds even if it cannot delete it."""
    account.start()
    account.instances_follow()
    before = {"Plan": dump_text(plans.make_plan())}
    plan = plans.make_plan(nodegroup_name="draftworth-qwen3-32b-accelerator-od")
    account.create_node_group(plan)
    account.fail("UpdateNodegroupConfig", *["AccessDeniedException"] * refused)
    account.deploy(plan, "Update", OldResourceProperties=before)
    sizes = (account.desired, account.size_of(plan))
    if not refused:
        assert (sizes, last_answer(account)["Status"]) == ((0, 1), "SUCCESS")
        return
    assert (sizes, last_answer(account)["Status"]) == ((1, 0), "FAILED")
    assert "accelerator-spot is not at zero" in last_answer(account)["Reason"]
    account.failures.clear()
    roll_back = {"Plan": dump_text(plan)}
    account.deploy(plans.make_plan(), "Update", OldResourceProperties=roll_back)
    assert (account.desired, account.size_of(plan)) == (1, 0)


@pytest.mark.parametrize("text", ["{", None])
def test_an_unreadable_previous_plan_fails_no_deploy(account: Account, text: object) -> None:
    account.start()
    account.deploy(kind="Update", OldResourceProperties={"Plan": text})
    assert (account.desired, last_answer(account)["Status"]) == (1, "SUCCESS")


def test_delete_ends_the_nodes_and_the_schedule(account: Account) -> None:
    account.start()
    account.delete()
    assert account.outcome == (0, "ended")
    assert account.schedule is None
    assert last_answer(account)["Status"] == "SUCCESS"
    account.handle(READY_EVENT)
    account.heartbeat(after=plans.MINUTE)
    assert (account.desired, account.decisions()[-1]) == (0, (0, "ended"))


def set_by_hand(account: Account) -> None:
    account.desired = 0
    account.fail("UpdateNodegroupConfig", *["AccessDeniedException"] * 100)


@pytest.mark.parametrize(
    "happens",
    [
        lambda account: account.fail("UpdateNodegroupConfig", *["ResourceInUseException"] * 5),
        set_by_hand,
        lambda account: account.groups.clear(),
        lambda account: account.write(RESULTS, STATE_KEY, b"{"),
    ],
    ids=["EKS is busy", "set by hand", "no node group", "unreadable state"],
)
def test_delete_succeeds_with_no_node_left(account: Account, happens: Any) -> None:
    account.start()
    happens(account)
    account.delete()
    assert [g["scalingConfig"]["desiredSize"] for g in account.groups.values()] in ([0], [])
    assert last_answer(account)["Status"] == "SUCCESS"


def test_delete_fails_rather_than_leave_a_node_behind(account: Account) -> None:
    account.start()
    account.fail("UpdateNodegroupConfig", *["AccessDeniedException"] * 100)
    account.delete()
    assert last_answer(account)["Status"] == "FAILED"
    assert "not at zero" in last_answer(account)["Reason"]
    assert "update-nodegroup-config" in last_answer(account)["Reason"]
    assert account.now < plans.NOW + account.remaining_seconds, "in time for the answer"


@pytest.mark.parametrize("recorded", [True, False])
def test_delete_ends_deployed_and_requested_node_groups(account: Account, recorded: bool) -> None:
    if recorded:
        account.start()
    other = plans.make_plan(nodegroup_name="other")
    account.create_node_group(other, size=1)
    account.delete(other)
    assert (account.desired, account.size_of(other)) == (0, 0)
    assert last_answer(account)["Status"] == "SUCCESS"


def test_a_recreated_stack_keeps_its_spend_only(
    account: Account,
) -> None:
    account.start()
    account.instances_follow()
    account.heartbeat(after=plans.HOUR)
    account.delete()
    account.instances = []
    account.now += 100 * plans.HOUR
    account.deploy()
    assert account.deployment.deployed_at_unix_s == account.now
    assert account.deployment.spent_usd == 10.0
    assert account.outcome == (1, "ready")
    account.delete()
    account.end_run()
    account.deploy()
    assert account.outcome == (0, "complete"), "a run that is over is not repeated"


def test_a_failed_decision_is_left_to_the_heartbeat(account: Account) -> None:
    account.stage()
    account.fail("DescribeNodegroup", "ThrottlingException")
    account.deploy()
    assert last_answer(account)["Status"] == "SUCCESS"
    assert account.desired == 0
    account.heartbeat()
    assert account.desired == 1
