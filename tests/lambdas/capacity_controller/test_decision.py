"""Each rule by which the number of nodes is decided, with a case where it does not apply."""

from typing import Any

import pytest

from draftworth.records.controller_state import Deployment, NodeTime, ServerWait
from lambdas.capacity_controller.decision import Decision, deadline_unix_s, decide
from lambdas.capacity_controller.observation import Observation
from lambdas.capacity_controller.observed_run import ObservedRun
from lambdas.capacity_controller.pod_reports import Canaries
from lambdas.capacity_controller.reserved_block import CapacityBlock
from lambdas.capacity_controller.staged_models import Models
from lambdas.capacity_controller.unknown import Unknown
from tests.lambdas.capacity_controller.plans import (
    HOUR,
    MINUTE,
    NOW,
    make_block_plan,
    make_deployment,
    make_nodes,
    make_observation,
    make_plan,
)

HELD = make_deployment(make_plan(hold=True))
PARTS = ("models", "canaries", "servers", "run", "stopped", "block")
UNKNOWN = Unknown(why="S3 did not answer")


def decided(
    observation: Observation | None = None,
    deployment: Deployment | None = None,
    *,
    now: float = NOW + MINUTE,
    status: Any = "active",
) -> Decision:
    return decide(
        deployment or make_deployment(), status, observation or make_observation(), now=now
    )


def outcome(*args: Any, **keywords: Any) -> tuple[int | None, str]:
    decision = decided(*args, **keywords)
    return decision.desired_size, decision.reason


def spent(usd: float) -> Deployment:
    seconds = usd / make_plan().price_usd_per_node_hour * HOUR
    node_time = NodeTime(node_seconds=seconds, instances=1, observed_at_unix_s=NOW)
    ready = ServerWait(from_node_seconds=seconds, nodes_since_unix_s=NOW)
    return make_deployment(node_time=node_time, servers=ready)


def block(**overrides: Any) -> CapacityBlock:
    fields = {
        "state": "active",
        "instances": 1,
        "starts_at_unix_s": NOW - HOUR,
        "ends_at_unix_s": NOW + 24 * HOUR,
    }
    return CapacityBlock(**{**fields, **overrides})


def in_block(now: float = NOW + MINUTE, **overrides: Any) -> tuple[int | None, str]:
    deployment = make_deployment(make_block_plan())
    return outcome(make_observation(block=block(**overrides)), deployment, now=now)


@pytest.mark.parametrize("state", ["complete", "failed"])
@pytest.mark.parametrize("seen", [{}, {"models": UNKNOWN}])
def test_a_finished_run_ends_nodes_despite_unknowns(state: Any, seen: dict[str, Any]) -> None:
    run = ObservedRun(state=state, run_id="RUN", text="why")
    observation = make_observation(run=run, **seen)
    assert outcome(observation) == (0, state)
    assert "RUN" in decided(observation).text


@pytest.mark.parametrize(("seconds", "size"), [(-1, 1), (0, 0), (1, 0)])
def test_the_deadline_ends_the_nodes_to_the_second(seconds: float, size: int) -> None:
    end = make_deployment().own_deadline_unix_s
    assert end == NOW + 240 * MINUTE
    assert decided(now=end + seconds).desired_size == size


@pytest.mark.parametrize(("usd", "size"), [(59.99, 1), (60.0, 0), (75.0, 0)])
def test_a_spent_budget_ends_the_nodes(usd: float, size: int) -> None:
    assert decided(deployment=spent(usd)).desired_size == size


def test_nodes_stay_while_the_run_is_unknown() -> None:
    node_time = NodeTime(node_seconds=2 * HOUR, instances=1, observed_at_unix_s=NOW)
    observation = make_observation(run=UNKNOWN)
    assert outcome(observation, make_deployment(node_time=node_time)) == (None, "unknown")


@pytest.mark.parametrize(("ownership", "word"), [("foreign", "tags"), ("missing", "no node group")])
@pytest.mark.parametrize("against", [{}, {"stopped": True}, {"run": ObservedRun(state="complete")}])
def test_a_foreign_node_group_never_gets_a_size(
    ownership: str, word: str, against: dict[str, Any]
) -> None:
    observation = make_observation(nodes=make_nodes(ownership=ownership), **against)
    assert decided(observation).desired_size is None
    assert word in decided(observation).text


@pytest.mark.parametrize("seen", PARTS)
def test_unknowns_leave_the_nodes_as_they_are(seen: str) -> None:
    observation = make_observation(**{seen: UNKNOWN})
    assert outcome(observation) == (None, "unknown")
    assert decided(observation).text == UNKNOWN.why


@pytest.mark.parametrize("seen", PARTS)
def test_deadline_budget_and_deletion_hold_despite_unknowns(seen: str) -> None:
    observation = make_observation(**{seen: UNKNOWN})
    late = make_deployment().own_deadline_unix_s
    assert outcome(observation, now=late) == (0, "deadline")
    assert outcome(observation, spent(60.0)) == (0, "budget")
    assert outcome(observation, status="ended") == (0, "ended")


@pytest.mark.parametrize("nodes_up", [0, 1])
@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        ({}, "on_hold"),
        ({"models": Models(staging="missing")}, "waiting_for_models"),
        ({"models": Models(staging="unreadable")}, None),
        ({"canaries": Canaries(state="missing")}, "waiting_for_canary"),
        ({"canaries": Canaries(state="failed")}, "canary_failed"),
        ({"canaries": UNKNOWN}, "unknown"),
    ],
)
def test_a_plan_on_hold_has_no_nodes(
    seen: dict[str, Any], reason: str | None, nodes_up: int
) -> None:
    observation = make_observation(nodes=make_nodes(desired_size=nodes_up), **seen)
    decision = decided(observation, HELD)
    assert decision.desired_size == 0
    assert reason in (None, decision.reason)


def test_nodes_stay_for_the_canary_without_hold() -> None:
    observation = make_observation(
        nodes=make_nodes(desired_size=1), canaries=Canaries(state="missing")
    )
    assert outcome(observation) == (None, "waiting_for_canary")
    assert outcome(observation, HELD) == (0, "waiting_for_canary")


def test_hold_leaves_foreign_nodes_alone() -> None:
    observation = make_observation(nodes=make_nodes(ownership="foreign"))
    assert outcome(observation, HELD) == (None, "foreign_node_group")


@pytest.mark.parametrize(("hold", "reason"), [(True, "on_hold"), (False, "deadline")])
def test_no_deadline_passes_on_hold(hold: bool, reason: str) -> None:
    deployment = make_deployment(make_plan(hold=hold))
    late = deployment.own_deadline_unix_s + HOUR
    assert outcome(deployment=deployment, now=late) == (0, reason)


@pytest.mark.parametrize(
    ("state", "started", "expected"),
    [
        ("active", True, (1, "ready")),
        ("active", False, (0, "block_not_started")),
        ("scheduled", False, (0, "block_not_started")),
        ("pending", False, (0, "block_not_started")),
        ("payment-pending", False, (0, "block_not_started")),
        ("expired", True, (0, "block_over")),
        ("cancelled", True, (0, "block_over")),
        ("payment-failed", True, (0, "block_over")),
        ("failed", True, (0, "block_over")),
    ],
)
def test_only_an_active_started_block_has_nodes(
    state: str, started: bool, expected: tuple[int, str]
) -> None:
    assert in_block(state=state, starts_at_unix_s=NOW - HOUR if started else NOW + HOUR) == expected


def test_the_sooner_of_both_ends_is_the_deadline() -> None:
    deployment = make_deployment(make_block_plan())
    deadline = deployment.own_deadline_unix_s
    soon = make_observation(block=block(ends_at_unix_s=deadline))
    late = make_observation(block=block(ends_at_unix_s=deadline + 2 * HOUR))
    assert deadline_unix_s(deployment, soon) == deadline - 40 * MINUTE
    assert deadline_unix_s(deployment, late) == deadline


@pytest.mark.parametrize(
    ("before", "after", "were_desired", "counted"),
    [(1, 1, True, 1), (1, 0, False, 1), (0, 1, True, 1), (2, 1, True, 2), (0, 0, True, 0)],
)
def test_node_time_counts_the_higher_of_two_numbers(
    before: int, after: int, were_desired: bool, counted: int
) -> None:
    node_time = NodeTime(node_seconds=100.0, instances=before, observed_at_unix_s=NOW)
    seen = node_time.observed(after, were_desired=were_desired, now=NOW + 60)
    assert seen == NodeTime(
        node_seconds=100.0 + 60 * counted, instances=after, observed_at_unix_s=NOW + 60
    )


def test_time_without_nodes_costs_nothing() -> None:
    node_time = NodeTime(node_seconds=100.0, instances=0, observed_at_unix_s=NOW)
    assert node_time.observed(0, were_desired=False, now=NOW + HOUR) is node_time
    by_hand = node_time.observed(1, were_desired=False, now=NOW + HOUR)
    assert by_hand == NodeTime(node_seconds=100.0, instances=1, observed_at_unix_s=NOW + HOUR)


def test_a_clock_set_back_lowers_no_spend() -> None:
    node_time = NodeTime(node_seconds=100.0, instances=1, observed_at_unix_s=NOW)
    assert node_time.observed(1, were_desired=True, now=NOW - 60) == node_time
