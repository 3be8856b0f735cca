"""Instances that stay although zero nodes are desired: requested again, mailed daily."""

import itertools
import re
from typing import Any

import pytest
from moto import mock_aws

from draftworth.records.codec import dump_record, dump_text, load_record
from draftworth.records.controller_state import State
from lambdas.capacity_controller.remaining_nodes import ASK_AGAIN_SECONDS, MAIL_AFTER_SECONDS
from lambdas.capacity_controller.transition import transition
from tests.lambdas.capacity_controller import fakes, plans
from tests.lambdas.capacity_controller.conftest import RUN_EVENT, Account, s3_event
from tests.lambdas.capacity_controller.emulated_account import EmulatedAccount

STAY, GONE = (f"draftworth qwen3-32b: nodes are {words}" for words in ("still there", "gone"))
STEP_SECONDS = 30 * plans.MINUTE
STEPS_PER_HOUR = 2


def at_zero(account: Account, *, nodes: int = 1, **overrides: Any) -> None:
    """Complete a run, so that the size is zero, while the instances stay."""
    account.start(plans.make_plan(nodes=nodes, **overrides))
    account.instances_follow()
    account.heartbeat(after=2 * plans.MINUTE)
    account.end_run()
    account.handle(RUN_EVENT)
    assert account.outcome == (0, "complete")
    account.mail()
    account.calls.clear()


def pass_hours(account: Account, hours: float) -> None:
    for _ in range(round(hours * STEPS_PER_HOUR)):
        account.heartbeat(after=STEP_SECONDS)


def test_instances_that_stay_72_hours_are_mailed(account: Account) -> None:
    at_zero(account, nodes=2)
    pass_hours(account, 72)
    mails = account.mail()
    assert [mail["subject"] for mail in mails] == [STAY] * 3
    figures = [re.search(r"(\S+) node hours .* (\S+) USD", mail["text"]) for mail in mails]
    # Mails come after half an hour, then daily; two nodes cost 10 USD per node and hour.
    assert [match and match.groups() for match in figures] == [
        ("1.0", "10.00"),
        ("49.0", "490.00"),
        ("97.0", "970.00"),
    ]
    account.instances = []
    pass_hours(account, 24)
    (gone,) = account.mail()
    assert gone["subject"] == GONE
    assert "145.0 node hours" in gone["text"]
    assert account.state.remaining is None


def test_zero_is_requested_again_every_half_hour(account: Account) -> None:
    at_zero(account)
    pass_hours(account, 24)
    sizes = account.called("UpdateNodegroupConfig")
    assert len(sizes) == 24 * plans.HOUR / ASK_AGAIN_SECONDS
    assert {request["scalingConfig"]["desiredSize"] for request in sizes} == {0}


def test_the_mail_has_commands_to_end_instances(account: Account) -> None:
    at_zero(account)
    account.instances = [("i-0a", "InService"), ("i-0b", "Terminating:Wait"), ("i-9", "Terminated")]
    pass_hours(account, 1)
    (mail,) = account.mail()
    lines = mail["text"].split("\n")
    assert "aws ec2 terminate-instances --region us-east-2 --instance-ids i-0a i-0b" in lines
    (size,) = (line for line in lines if line.startswith("aws eks update-nodegroup-config"))
    assert "desiredSize=0" in size
    assert fakes.AUTO_SCALING_GROUP in mail["text"]


def test_a_storm_of_events_adds_no_mail(account: Account) -> None:
    """Doubled, unrelated and late events only trigger another observation."""
    at_zero(account)
    storm: tuple[dict[str, Any], ...] = (
        *(RUN_EVENT, RUN_EVENT, {"trigger": "deadline"}, s3_event(fakes.RESULTS, "x")),
        {},
    )
    for _ in range(24 * STEPS_PER_HOUR):
        account.now += STEP_SECONDS
        for event in storm:
            account.handle(event)
        account.now -= 1.0
        account.handle(RUN_EVENT)
        account.now += 1.0
    assert account.subjects() == [STAY]
    assert len(account.called("UpdateNodegroupConfig")) == 24 * plans.HOUR / ASK_AGAIN_SECONDS


def test_two_invocations_at_once_send_one_mail(account: Account) -> None:
    at_zero(account)
    account.now += MAIL_AFTER_SECONDS
    account.interruption = (3, account.heartbeat)
    account.heartbeat()
    assert account.subjects() == [STAY]
    assert len(account.called("UpdateNodegroupConfig")) == 1


@pytest.mark.parametrize("code", ["InvalidParameterException", "ResourceInUseException"])
def test_a_refused_repeat_of_zero_fails_nothing(account: Account, code: str) -> None:
    at_zero(account)
    account.fail("UpdateNodegroupConfig", *[code] * 1_000)
    pass_hours(account, 24)
    assert account.subjects() == [STAY]
    assert {entry["event"] for entry in account.log if "error" in entry} == {
        "zero not asked for again"
    }


def test_a_deploy_that_wants_nodes_ends_the_mails(account: Account) -> None:
    at_zero(account)
    pass_hours(account, 1)
    account.mail()
    account.update(plans.make_plan(job_name=plans.OTHER_JOB))
    account.heartbeat(after=plans.MINUTE)
    assert account.desired == 1
    account.instances_follow()
    account.heartbeat(after=plans.MINUTE)
    assert not [subject for subject in account.subjects() if subject in (STAY, GONE)]
    assert account.state.remaining is None


def test_a_new_node_group_ends_the_mails(account: Account) -> None:
    """The old group has no instances any more, and CloudFormation deletes it."""
    at_zero(account)
    pass_hours(account, 1)
    account.mail()
    other = plans.make_plan(nodegroup_name="draftworth-qwen3-32b-accelerator-od")
    account.create_node_group(other)
    account.instances = []
    account.update(other)
    pass_hours(account, 25)
    assert account.mail() == []


@pytest.mark.parametrize("codes", [[], ["AccessDenied"]], ids=["seen", "not seen"])
def test_a_new_node_group_fails_while_instances_stay(account: Account, codes: list[str]) -> None:
    """The instances would go on costing: CloudFormation deletes the old group last, or fails to."""
    at_zero(account)
    pass_hours(account, 1)
    account.mail()
    other = plans.make_plan(nodegroup_name="draftworth-qwen3-32b-accelerator-od")
    account.create_node_group(other)
    account.fail("DescribeAutoScalingGroups", *codes)
    account.update(other)
    answer = account.cloudformation.answers[-1]
    assert answer["Status"] == "FAILED"
    assert "accelerator-spot" in answer["Reason"]
    assert account.state.current == plans.make_plan().job_name
    assert account.state.remaining is not None
    # CloudFormation rolls back; the mails go on.
    roll_back = {"Plan": dump_text(other)}
    account.deploy(plans.make_plan(), "Update", OldResourceProperties=roll_back)
    pass_hours(account, 24)
    assert account.subjects() == [STAY]
    account.instances = []
    account.update(other)
    assert account.state.remaining is None
    assert account.cloudformation.answers[-1]["Status"] == "SUCCESS"


def test_an_ordinary_drain_sends_no_mail(account: Account) -> None:
    at_zero(account)
    account.heartbeat(after=14 * plans.MINUTE)
    account.instances = []
    pass_hours(account, 24)
    assert account.mail() == []
    assert account.called("UpdateNodegroupConfig") == []


@pytest.mark.parametrize("seen", ["now and then", "never"])
def test_instances_that_cannot_be_seen_are_mailed(account: Account, seen: str) -> None:
    at_zero(account)
    codes = ["AccessDenied", None if seen == "now and then" else "AccessDenied"]
    account.fail("DescribeAutoScalingGroups", *codes * 1_000)
    pass_hours(account, 48)
    assert account.subjects() == [STAY] * 2


def test_an_unreadable_bucket_silences_no_mail(account: Account) -> None:
    """Without S3 nothing is decided, but the size is zero and the instances are paid for."""
    at_zero(account, deadline_minutes=10_000, budget_usd=1e6)
    pass_hours(account, 0.5)
    account.s3_fails = True
    pass_hours(account, 48)
    assert account.subjects() == [STAY] * 3
    account.instances = []
    pass_hours(account, 48)
    assert account.subjects() == [GONE]


def test_a_capacity_block_costs_nothing_more(account: Account) -> None:
    account.reserve(starts=plans.NOW, ends=plans.NOW + 48 * plans.HOUR)
    at_zero(account, capacity="capacity_block", reservation_id=plans.BLOCK_ID)
    pass_hours(account, 1)
    (mail,) = account.mail()
    assert "paid for with the Capacity Block" in mail["text"]


HOURS_OF_LIFE = [
    # The number of instances by hours since the decision (None: unknown), and the mails' hours.
    ({0.0: 2, 1.0: 2, 24.4: 2, 24.5: 2}, [1.0]),
    ({0.0: 2, 0.5: 2, 24.4: 2, 24.5: 2, 48.5: 1, 48.6: 0}, [0.5, 24.5, 48.5, 48.6]),
    ({0.0: 2, 0.4: 0, 100.0: 0}, []),
    ({0.0: 2, 0.5: None, 24.5: None, 24.6: 0, 24.7: 0}, [0.5, 24.5, 24.6]),
    ({0.0: 0, 72.0: 1, 72.4: 1, 72.5: 1}, [72.5]),
    ({0.0: 2, 0.5: 2, 0.2: 2, 0.5001: 2, 0.4: 2}, [0.5]),
]


@pytest.mark.parametrize(("instances", "due"), HOURS_OF_LIFE)
def test_when_a_mail_is_due(instances: dict[float, int | None], due: list[float]) -> None:
    state, mailed = State(deployments={}, status="ended"), []
    state = state.with_deployment(plans.make_deployment())
    for hours, count in instances.items():
        deployment = state.deployment
        assert deployment
        observation = plans.make_observation(nodes=plans.make_nodes(instances=count))
        now = plans.NOW + hours * plans.HOUR
        step = transition(state, deployment, observation, now=now)
        # The next invocation reads the state from the bucket.
        state = load_record(State, dump_record(step.state))
        mailed += [hours for one in step.notifications if one.subject in (STAY, GONE)]
    assert mailed == due


def test_a_reason_that_changes_keeps_the_count(account: Account) -> None:
    at_zero(account)
    pass_hours(account, 12)
    account.stop()
    pass_hours(account, 24)
    account.update(plans.make_plan(job_name=plans.OTHER_JOB))
    pass_hours(account, 24)
    texts = [mail["text"] for mail in account.mail() if mail["subject"] == STAY]
    assert len(texts) == 3
    hours = [float(match[1]) for text in texts if (match := re.search(r"(\S+) node hours", text))]
    assert all(24 - 0.2 <= later - first <= 24.2 for first, later in itertools.pairwise(hours))


@pytest.mark.emulator
def test_a_protected_instance_is_mailed_until_it_ends() -> None:
    with mock_aws():
        aws = EmulatedAccount(protected=True)
        aws.start()
        aws.begin_run()
        aws.end_run()
        aws.handle(RUN_EVENT)
        aws.mail()
        for _ in range(25):
            aws.scale_in()
            aws.heartbeat(after=plans.HOUR)
        mails = aws.mail()
        assert [mail["subject"] for mail in mails] == [STAY] * 2
        command = re.search(r"--instance-ids (\S+)$", mails[-1]["text"], re.MULTILINE)
        assert command
        aws.end(command[1])
        for _ in range(25):
            aws.heartbeat(after=plans.HOUR)
        assert aws.subjects() == [GONE]
