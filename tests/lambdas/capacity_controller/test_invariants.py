"""What holds after any sequence of events, even if events are doubled or interrupted.

The sequences are random, of events and of changes in AWS, with a clock that jumps, EKS that
refuses, S3 that does not answer, and second invocations between two calls of the first.
"""

import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from draftworth.records.controller_state import Deployment
from draftworth.records.deployment import STOP_KEY
from lambdas.capacity_controller import decision as decision_module
from tests.hostile.fuzzing import tries
from tests.lambdas.capacity_controller import plans
from tests.lambdas.capacity_controller.fakes import CHECKPOINTS, RESULTS, FakeAws
from tests.lambdas.capacity_controller.scenarios import (
    BLOCK_ENDS,
    BLOCK_STARTS,
    IN_BETWEEN,
    OPERATIONS,
    TRIGGERS,
    Scenario,
)


def current(aws: FakeAws) -> tuple[Deployment | None, str]:
    stored = aws.controller.document.read()
    return (stored.document.deployment, stored.document.status) if stored else (None, "ended")


def canaries(aws: FakeAws, deployment: Deployment) -> list[bool]:
    """Return whether each canary that has reported since the deploy has succeeded."""
    keys = [
        f"control/canary/{deployment.plan.job_name}/{variant}.json" for variant in plans.VARIANTS
    ]
    reports = [json.loads(aws.objects[RESULTS, k][0]) for k in keys if (RESULTS, k) in aws.objects]
    since = deployment.deployed_at_unix_s
    return [report["ok"] for report in reports if report["reported_at_unix_s"] >= since]


def states_of(aws: FakeAws, deployment: Deployment) -> list[dict[str, Any]]:
    """Return the states that servers reported since the deploy."""
    states = [json.loads(b[0]) for k, b in aws.objects.items() if "/serving/" in k[1]]
    return [s for s in states if s["since_unix_s"] >= deployment.deployed_at_unix_s]


def gave_up(aws: FakeAws, deployment: Deployment) -> bool:
    """Return whether a server was given up since the deploy, also if its state was replaced."""
    now = any(s["phase"] == "given_up" for s in states_of(aws, deployment))
    return now or bool(deployment.servers.gave_up)


# Rules in spite of which existing nodes may stay: all of these in a Capacity Block; `canary` alone
# also elsewhere, while a new Job's canary may still report.
KEPT = {"failed", "not begun", "no server", "silent", "gave up", "not staged"}
KEPT |= {"tokenizers", "canary"}


def may_stay(aws: FakeAws, reasons: list[str]) -> bool:
    deployment, _ = current(aws)
    if deployment is None or not set(reasons) <= KEPT:
        return False
    if deployment.plan.capacity == "capacity_block":
        return True
    patient = aws.now - deployment.deployed_at_unix_s < 10 * plans.MINUTE
    return reasons == ["canary"] and patient and False not in canaries(aws, deployment)


def against(aws: FakeAws) -> list[str]:
    """Return the rules that forbid nodes now, computed without the controller's code."""
    deployment, status = current(aws)
    if deployment is None:
        return ["nothing deployed"]
    plan = deployment.plan
    run = aws.objects.get((RESULTS, f"runs/{plan.job_name}-89abcdef/run.json"), (b"", ""))[0]
    paid = deployment.node_time.node_seconds
    deadline = deployment.deployed_at_unix_s + plan.deadline_minutes * 60
    spent = paid / 3600 * plan.price_usd_per_node_hour
    ready = [
        aws.objects.get((CHECKPOINTS, f"{m.model}/{m.revision}/_READY.json"))
        for m in (plans.TARGET, plans.DRAFT)
    ]
    waited = paid - deployment.servers.from_node_seconds
    is_tested = any(s["phase"] != "testing" for s in states_of(aws, deployment))
    is_tested = is_tested or any(
        f"runs/{plan.job_name}-89abcdef/blocks/" in key for _, key in aws.objects
    )
    rules = {
        "deleted": status == "ended",
        "complete": b'"complete"' in run,
        "failed": b'"failed"' in run,
        "gave up": gave_up(aws, deployment),
        "hold": plan.hold,
        "deadline": aws.now >= deadline,
        "budget": spent >= plan.budget_usd and plan.capacity != "capacity_block",
        "no server": waited >= 130 * plans.MINUTE * plan.nodes,
        "silent": waited >= 30 * plans.MINUTE * plan.nodes and not is_tested,
        "not begun": paid >= 45 * plans.MINUTE * plan.nodes
        and not any(key.startswith(f"runs/{plan.job_name}-") for _, key in aws.objects),
        "stopped": (RESULTS, STOP_KEY) in aws.objects,
        "not staged": None in ready,
        "canary": canaries(aws, deployment) != [True] * len(plans.VARIANTS),
        "tokenizers": any(b"bb" * 32 in body[0] for body in ready if body),
        "block": plan.capacity == "capacity_block"
        and not BLOCK_STARTS <= aws.now < BLOCK_ENDS - 40 * plans.MINUTE,
    }
    return [name for name, holds in rules.items() if holds]


def check_settled(aws: FakeAws) -> None:
    """Check, when AWS does not fail any more, that the size is the one that the rules require."""
    (deployment, _), reasons = current(aws), against(aws)
    if aws.tags != plans.TAGS or deployment is None:
        return
    if not may_stay(aws, reasons):
        assert aws.desired == (0 if reasons else deployment.plan.nodes), reasons


def check_mailed_once(aws: FakeAws) -> None:
    """Check that each decision is mailed once, and differs from the previous decision."""
    made = [(e["job"], e["desired_size"], e["reason"]) for e in aws.log if e["event"] == "decision"]
    assert all(one != other for one, other in itertools.pairwise(made)), made
    mails = [subject for subject in aws.sent if re.search(" nodes?, ", subject)]
    assert len(mails) == len(made)


def new_scenario() -> Scenario:
    aws = FakeAws()
    aws.reserve(starts=BLOCK_STARTS, ends=BLOCK_ENDS)
    return Scenario(aws=aws)


def watch(aws: FakeAws) -> None:
    """From now on, check each size that EKS is asked for.

    The node group must be ours, no rule may forbid nodes, and no node may be superfluous.
    """

    def check_size(size: int) -> None:
        assert aws.tags == plans.TAGS, "a foreign node group was touched"
        deployment, _ = current(aws)
        assert not size or (deployment and size <= deployment.plan.nodes), f"{size} nodes"
        assert not (size and against(aws)), f"{size} nodes in spite of {against(aws)}"

    aws.check_size = check_size


@tries(2_000)
@given(operations=st.lists(st.sampled_from(OPERATIONS), max_size=25))
@example(operations=["Create first", "stage both", "ready event", "hours later", "hours later"])
@example(operations=["Create block", "stage both", "hours later"])
@example(operations=["stage both", "Create first", "Delete", "ready event", "Create first"])
@example(operations=["stage both", "Create first", "Update held", "heartbeat", "hours later"])
@example(operations=["stage both", "Create held", "hours later", "Update first", "heartbeat"])
def test_one_event_after_the_other(operations: list[str]) -> None:
    scenario = new_scenario()
    watch(scenario.aws)
    for operation in operations:
        aws_answers = not (any(scenario.aws.failures.values()) or scenario.aws.s3_fails)
        scenario.do(operation)
        if operation in TRIGGERS and aws_answers:
            check_settled(scenario.aws)
    scenario.settle()
    check_settled(scenario.aws)
    check_mailed_once(scenario.aws)


@tries(2_000)
@given(
    operations=st.lists(
        st.tuples(
            st.sampled_from(OPERATIONS),
            st.integers(min_value=0, max_value=12),
            st.lists(st.sampled_from(IN_BETWEEN), max_size=3),
        ),
        max_size=12,
    )
)
def test_events_within_an_invocation(
    operations: list[tuple[str, int, list[str]]],
) -> None:
    """Between two calls of an invocation AWS changes, and other invocations run."""
    scenario = new_scenario()
    for operation, calls, operations_between in operations:

        def meanwhile(between: list[str] = operations_between) -> None:
            for operation_between in between:
                scenario.do(operation_between)

        scenario.aws.interruption = (calls, meanwhile)
        scenario.do(operation)
    scenario.settle()
    check_settled(scenario.aws)
    check_mailed_once(scenario.aws)


@tries(2_000)
@given(
    operations=st.lists(st.sampled_from(OPERATIONS), max_size=12),
    doubled=st.lists(st.booleans(), min_size=12, max_size=12),
)
@example(
    operations=["stage both", "EKS is busy", "Create first", "foreign"],
    doubled=[False, False, True, False],
)
def test_repeated_requests_and_events_change_nothing(
    operations: list[str], doubled: list[bool]
) -> None:
    """Events that EKS refused are not repeated here, because the repetition may succeed."""
    once, twice = new_scenario(), new_scenario()
    for operation, repeated in zip(operations, doubled, strict=False):
        before = str(twice.aws.log).count("refused")
        for scenario in (once, twice):
            scenario.do(operation)
        again = repeated and str(twice.aws.log).count("refused") == before
        if again and operation in TRIGGERS:
            twice.do(operation)
        if again and operation.startswith(("Create", "Update", "Delete")):
            twice.repeat()
    for scenario in (once, twice):
        scenario.settle()
        scenario.settle()
    assert once.aws.desired == twice.aws.desired
    assert once.aws.schedule == twice.aws.schedule
    assert (once.aws.sent == twice.aws.sent) or "refused" in str(twice.aws.log)


HALF_AN_HOUR = "half an hour later"
TWO_HOURS = [HALF_AN_HOUR] * 4
PASSING = (
    *("a minute later", "half an hour later", "nodes follow", "a node is lost", "begin"),
    *("a server starts", "foreign", "ours", "S3 fails", "S3 answers"),
)


@tries(2_000)
@given(operations=st.lists(st.sampled_from(PASSING), min_size=10, max_size=60))
@example(operations=["begin", "nodes follow", *TWO_HOURS, HALF_AN_HOUR, "nodes follow"] * 2)
@example(operations=["nodes follow", *TWO_HOURS, "foreign", "ours", HALF_AN_HOUR])
@example(operations=["foreign", "nodes follow", *TWO_HOURS, HALF_AN_HOUR, "ours"])
@example(
    operations=[
        *("nodes follow", "a node is lost", "foreign", HALF_AN_HOUR, "nodes follow"),
        *(*TWO_HOURS, "ours"),
    ]
)
def test_what_is_paid_without_a_server_is_bounded(operations: list[str]) -> None:
    """A meter of this test shows: no nodes are paid for without a ready server for too long.

    The limit is the time that a start may take. Nodes that ended for it do not come back. Nodes
    that came up while the group lacked our tags count from when it has them again.
    """
    scenario, limit = new_scenario(), 2 * 130 * plans.MINUTE
    for operation in ("stage both", "Create patient", "begin"):
        scenario.do(operation)
    aws, metered, over, ours = scenario.aws, 0.0, False, 0
    for operation in operations:
        before, instances = aws.now, len(aws.instances)
        ours = instances if aws.tags == plans.TAGS else min(ours, instances)
        scenario.do(operation)
        metered += ours * (aws.now - before)
        scenario.reconcile()
        if operation == "a node is lost" and instances:
            metered = 0.0
        if aws.s3_fails or aws.tags != plans.TAGS:
            continue
        over = over or metered >= limit
        assert not (over and aws.desired), f"{metered / plans.MINUTE:.0f} node minutes"


LONG_AFTER = ["heartbeat", "half an hour later"] * 5
RULES = {
    "limits_reached": ["begin", "hours later", "hours later", "heartbeat"],
    "_self_test_silent": ["nodes follow", "begin", "a server tests", *LONG_AFTER[:4], "heartbeat"],
    "_not_begun": [
        "nodes follow",
        "a server starts",
        *["heartbeat", "half an hour later"] * 2,
        "heartbeat",
    ],
    "_no_server_ready": ["nodes follow", "begin", "a server starts", *LONG_AFTER, "heartbeat"],
    "_server_gave_up": ["a server gives up", "heartbeat"],
    "_complete": ["complete", "run event"],
    "_failed": ["fail", "run event"],
    "_not_tried": ["the canary fails", "heartbeat"],
    "_not_staged": ["stage a draft that does not fit", "heartbeat"],
    "_without_a_node_group": ["foreign", "size changed by hand", "heartbeat"],
}


@pytest.mark.parametrize("rule", RULES)
def test_a_missing_rule_breaks_the_invariants(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> None:
        scenario = new_scenario()
        watch(scenario.aws)
        for operation in ("stage both", "Create first", *RULES[rule]):
            scenario.do(operation)
        check_settled(scenario.aws)

    run()
    monkeypatch.setattr(decision_module, rule, lambda *_: iter(()))
    with pytest.raises(AssertionError):
        run()
