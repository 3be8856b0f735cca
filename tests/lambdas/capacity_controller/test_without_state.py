"""With an unreadable state no run ends, none starts, and deadline and budget hold."""

import contextlib
import itertools
import json
import re
from typing import Any

import pytest

from draftworth.records.codec import RecordError, dump_record, dump_text
from draftworth.records.deployment import STATE_KEY, STOP_KEY, UNREADABLE_STATE_KEY
from lambdas.s3_document import DocumentError
from tests.lambdas.capacity_controller import plans
from tests.lambdas.capacity_controller.conftest import Account
from tests.lambdas.capacity_controller.fakes import RESULTS, refused
from tests.lambdas.capacity_controller.scenarios import Scenario

STATE, UNREADABLE_STATE = (RESULTS, STATE_KEY), (RESULTS, UNREADABLE_STATE_KEY)
PLAN = plans.make_plan(nodes=2, budget_usd=1000.0)
LOST = "draftworth qwen3-32b: state lost"
ZERO = "draftworth qwen3-32b: 0 nodes, state lost"


def invoke(aws: Account, *, trigger: str = "heartbeat", plan: str | None = None) -> None:
    aws.handle({"trigger": trigger, "plan": plan or dump_text(PLAN)})


def heartbeats(
    aws: Account, number: int = 1, *, after: float = 2 * plans.MINUTE, **more: Any
) -> None:
    """Invoke the function as the schedule does; Lambda counts its errors."""
    for _ in range(number):
        aws.now += after
        with contextlib.suppress(DocumentError):
            invoke(aws, **more)


def running() -> Account:
    """An account where two nodes are up, an hour after the deploy."""
    aws = Account()
    scenario = Scenario(aws=aws)
    scenario.do("Create first")
    aws.now += plans.HOUR
    for operation in ("stage both", "ready event", "nodes follow", "a server is healthy", "begin"):
        scenario.do(operation)
    assert aws.desired == 2
    aws.sent.clear()
    return aws


def unreadable(aws: Account, body: bytes = b"{}") -> None:
    aws.write(RESULTS, STATE_KEY, body)


def changed(aws: Account, **values: Any) -> bytes:
    return json.dumps({**json.loads(aws.objects[STATE][0]), **values}).encode()


def from_the_future(aws: Account) -> bytes:
    state = json.loads(aws.objects[STATE][0])
    state["deployments"][state["current"]]["deployed_at_unix_s"] = plans.NOW + 300 * plans.HOUR
    return json.dumps(state).encode()


@pytest.mark.parametrize(
    "body",
    [
        lambda _: b"no JSON",
        lambda aws: changed(aws, schema="draftworth.capacity-state/99"),
        lambda aws: changed(aws, deployments=7),
        lambda _: b" " * (2**20 + 1),
        from_the_future,
        None,
    ],
)
def test_an_unreadable_state_is_mailed_but_ends_nothing(body: Any) -> None:
    aws = running()
    if body is None:
        del aws.objects[STATE]
    else:
        unreadable(aws, body(aws))
    heartbeats(aws, 30)
    assert aws.desired == 2
    assert aws.sent == [LOST]
    assert STATE_KEY in aws.texts[-1]
    assert "stay as they are" in aws.texts[-1]


def test_only_a_new_unreadable_state_is_mailed_again() -> None:
    aws = running()
    good = aws.objects[STATE][0]
    unreadable(aws)
    heartbeats(aws, 2)
    unreadable(aws, good)
    heartbeats(aws, 2)
    assert (aws.desired, aws.sent) == (2, [LOST])
    unreadable(aws, b"[]")
    heartbeats(aws, 2)
    assert aws.sent == [LOST, LOST]


def test_the_schedule_keeps_the_deadline_to_the_minute() -> None:
    aws = running()
    unreadable(aws)
    heartbeats(aws, after=3 * plans.HOUR - plans.MINUTE)
    assert aws.desired == 2
    aws.now += plans.MINUTE
    event = json.loads(aws.schedules["deadline"]["Target"]["Input"])
    with pytest.raises(DocumentError):
        invoke(aws, **event)
    assert aws.desired == 0
    assert aws.sent == [LOST, ZERO]
    assert "their deadline has passed" in aws.texts[-1]


def test_a_lost_deadline_counts_from_the_nodes_change() -> None:
    aws = running()
    unreadable(aws)
    heartbeats(aws, after=PLAN.deadline_minutes * plans.MINUTE - plans.MINUTE)
    assert aws.desired == 2
    heartbeats(aws)
    assert aws.desired == 0
    assert aws.sent == [LOST, ZERO]


def test_one_failed_state_read_does_not_end_nodes() -> None:
    aws = running()
    aws.fail("GetObject", "SlowDown")
    with pytest.raises(type(refused("SlowDown"))):
        invoke(aws, trigger="deadline")
    assert aws.desired == 2


def test_the_budget_counts_from_the_nodes_last_change() -> None:
    aws = running()
    unreadable(aws)
    plan = plans.make_plan(nodes=2, budget_usd=20.0, price_usd_per_node_hour=10.0)
    heartbeats(aws, after=plans.HOUR - plans.MINUTE, plan=dump_text(plan))
    assert aws.desired == 2
    heartbeats(aws, plan=dump_text(plan))
    assert aws.desired == 0
    assert "of a budget of 20.00 USD" in aws.texts[-1]


@pytest.mark.parametrize(
    ("key", "body"),
    [(STOP_KEY, b""), (f"runs/{plans.RUN_ID}/run.json", dump_record(plans.finished_run()))],
)
def test_a_stop_and_a_finished_run_end_nodes(key: str, body: bytes) -> None:
    aws = running()
    unreadable(aws)
    aws.write(RESULTS, key, body)
    heartbeats(aws)
    assert (aws.desired, aws.sent) == (0, [ZERO])


@pytest.mark.parametrize(("ends", "desired"), [(2 * plans.HOUR, 2), (30 * plans.MINUTE, 0)])
def test_nodes_end_before_their_block_at_any_cost(ends: float, desired: int) -> None:
    aws = running()
    unreadable(aws)
    aws.reserve(starts=plans.NOW, ends=aws.now + ends)
    block = plans.make_block_plan(nodes=2, budget_usd=0.01, reservation_id=plans.BLOCK_ID)
    heartbeats(aws, plan=dump_text(block))
    assert aws.desired == desired


def test_no_node_starts_without_a_state() -> None:
    aws = Account()
    scenario = Scenario(aws=aws)
    for operation in ("Create first", "stage both"):
        scenario.do(operation)
    aws.sent.clear()
    unreadable(aws)
    heartbeats(aws, 5)
    assert (aws.desired, aws.sent) == (0, [LOST])


def test_without_a_readable_plan_no_node_is_touched() -> None:
    """The function cannot know whose nodes they are. It fails, which raises its alarm."""
    aws = running()
    unreadable(aws)
    for trigger in ("heartbeat", "deadline"):
        aws.now += PLAN.deadline_minutes * plans.MINUTE
        with pytest.raises(RecordError, match="schema"):
            invoke(aws, trigger=trigger, plan='{"schema": "draftworth.capacity-plan/99"}')
    assert (aws.desired, aws.sent) == (2, [])


def test_an_unrecorded_mail_is_sent_hourly() -> None:
    aws = running()
    unreadable(aws)
    aws.fail("PutObject", *["AccessDenied"] * 100)
    heartbeats(aws, 60)
    assert 1 <= len(aws.sent) <= 2
    assert UNREADABLE_STATE not in aws.objects


def test_nodes_of_unknown_age_stay_and_are_mailed() -> None:
    aws = running()
    unreadable(aws)
    del aws.group["modifiedAt"]
    heartbeats(aws, after=10 * PLAN.deadline_minutes * plans.MINUTE)
    assert (aws.desired, aws.sent) == (2, [LOST])
    assert "a time that EKS does not tell" in aws.texts[-1]


def test_nodes_that_stay_at_zero_are_mailed_daily() -> None:
    """Nothing can be recorded, so the mail is sent at the day's first heartbeat."""
    aws = running()
    unreadable(aws)
    aws.stop()
    heartbeats(aws)
    assert (aws.desired, aws.sent) == (0, [ZERO])
    aws.sent.clear()
    heartbeats(aws, 72 * 30)
    assert aws.sent == [LOST, *["draftworth qwen3-32b: nodes are still there"] * 3]
    hours = [
        float(hours_match[1])
        for t in aws.texts
        if (hours_match := re.search(r"(\S+) node hours", t))
    ]
    assert [round(later - first) for first, later in itertools.pairwise(hours)] == [48, 48]
    aws.instances = []
    aws.sent.clear()
    heartbeats(aws, 25 * 30)
    assert aws.sent == []


def test_a_drain_without_a_state_is_no_mail() -> None:
    aws = running()
    aws.now = plans.NOW // (24 * plans.HOUR) * 24 * plans.HOUR + 24 * plans.HOUR - 4 * plans.MINUTE
    unreadable(aws)
    aws.stop()
    heartbeats(aws, 8)
    assert "draftworth qwen3-32b: nodes are still there" not in aws.sent
