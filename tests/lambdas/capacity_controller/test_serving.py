"""A winner that goes on serving when its run is over: when it begins, and all that ends it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from draftworth.records.capacity import STOP_KEY
from draftworth.records.codec import dump_text
from lambdas.capacity_controller.decision import decide
from lambdas.capacity_controller.observation import (
    Canaries,
    CapacityBlock,
    Models,
    Observation,
    Run,
    Servers,
    Unknown,
)
from lambdas.capacity_controller.state import Deployment, NodeTime, ServerWait, Serving, State
from lambdas.capacity_controller.transition import Transition, transition
from tests.lambdas.capacity_controller.conftest import (
    RESULTS,
    RUN_EVENT,
    SCHEDULE_GROUP,
    Account,
    s3_event,
)
from tests.lambdas.capacity_controller.plans import (
    BLOCK_ID,
    HOUR,
    JOB,
    MINUTE,
    NOW,
    RUN_ID,
    SERVERS,
    VARIANTS,
    make_deployment,
    make_given_up,
    make_kept,
    make_nodes,
    make_observation,
    make_plan,
    make_server,
    make_serving_plan,
)

THEN = NOW + 2 * HOUR
COMPLETE = Run(state="complete", run_id=RUN_ID, kept=make_kept())
UNKNOWN = Unknown(why="S3 did not answer")
HEALTHY = Servers(healthy_since_unix_s=NOW + HOUR)


def measured(**overrides: Any) -> Deployment:
    """Two nodes were paid for an hour, and a server is ready."""
    plan = overrides.pop("plan", None) or make_serving_plan()
    paid = NodeTime(node_seconds=2 * HOUR, instances=2, observed_at_unix_s=THEN)
    servers = ServerWait(from_node_seconds=2 * HOUR, nodes_since_unix_s=NOW)
    return make_deployment(plan, **{"node_time": paid, "servers": servers, **overrides})


def serving(hours: float = 0.0, **overrides: Any) -> Deployment:
    """One node has been paid for since the winner serves."""
    begun = Serving(
        run_id=RUN_ID,
        variant=VARIANTS[1],
        servers=(SERVERS[2],),
        since_unix_s=THEN,
        from_node_seconds=2 * HOUR,
        over=overrides.pop("over", False),
    )
    seconds = (2 + hours) * HOUR
    paid = NodeTime(node_seconds=seconds, instances=1, observed_at_unix_s=THEN + hours * HOUR)
    ready = ServerWait(from_node_seconds=seconds, nodes_since_unix_s=NOW)
    return measured(**{"serving": begun, "node_time": paid, "servers": ready, **overrides})


def seen(**overrides: Any) -> Observation:
    nodes = make_nodes(desired_size=2, instances=2)
    return make_observation(**{"run": COMPLETE, "nodes": nodes, **overrides})


def step(deployment: Deployment, observation: Observation, *, now: float = THEN) -> Transition:
    state = State(deployments={}, status="active").with_deployment(deployment)
    return transition(state, deployment, observation, now=now)


def outcome(made: Transition) -> tuple[int | None, str]:
    return made.decision.desired_size, made.decision.reason


# When it begins


def test_the_winner_of_a_complete_run_goes_on_serving_on_the_nodes_that_it_needs() -> None:
    made = step(measured(), seen())
    assert outcome(made) == (1, "serving")
    begun = made.deployment.serving
    assert begun == Serving(
        run_id=RUN_ID,
        variant=VARIANTS[1],
        servers=(SERVERS[2],),
        since_unix_s=THEN,
        from_node_seconds=2 * HOUR,
    )


@pytest.mark.parametrize(
    ("plan", "run", "word"),
    [
        (make_plan(nodes=2), COMPLETE, "is complete"),
        (make_serving_plan(), replace(COMPLETE, kept=None, not_kept="it has none"), "it has none"),
        (
            make_serving_plan(),
            replace(COMPLETE, kept=make_kept(since_unix_s=NOW - 1)),
            "before this deploy",
        ),
        (make_serving_plan(serve_until_unix_s=THEN), COMPLETE, "a limit is reached"),
    ],
    ids=["not asked for", "nothing kept", "kept before the deploy", "its time is over"],
)
def test_else_the_nodes_go_with_the_run(plan: Any, run: Run, word: str) -> None:
    made = step(measured(plan=plan), seen(run=run))
    assert outcome(made) == (0, "complete")
    assert word in made.decision.text
    assert made.deployment.serving is None


@pytest.mark.parametrize(
    ("deployment", "now"),
    [
        (measured(), NOW + 240 * MINUTE),
        (measured(plan=make_serving_plan(budget_usd=1e4, deadline_minutes=120)), THEN),
        (measured(plan=replace(make_serving_plan(), budget_usd=20.0)), THEN),
    ],
    ids=["deadline", "shorter deadline", "budget"],
)
def test_it_never_begins_when_a_limit_of_the_run_is_reached(
    deployment: Deployment, now: float
) -> None:
    made = step(deployment, seen(), now=now)
    assert (outcome(made), made.deployment.serving) == ((0, "complete"), None)
    assert step(measured(), seen(), now=NOW + 240 * MINUTE - 1).decision.reason == "serving"


@pytest.mark.parametrize("run", [UNKNOWN, Run(state="begun"), Run(state="failed", run_id=RUN_ID)])
def test_it_does_not_begin_before_the_run_is_known_to_be_complete(run: Any) -> None:
    assert step(measured(), seen(run=run)).deployment.serving is None


# What ends it


@pytest.mark.parametrize(("hours", "size"), [(1.99, 1), (2.0, 0), (3.0, 0)])
def test_it_ends_when_its_nodes_have_cost_its_budget(hours: float, size: int) -> None:
    made = step(serving(hours), seen(), now=THEN + hours * HOUR)
    assert outcome(made) == ((1, "serving") if size else (0, "serving_over"))
    assert made.deployment.serving is not None
    assert made.deployment.serving.over is (size == 0)


@pytest.mark.parametrize(("seconds", "reason"), [(-1, "serving"), (0, "serving_over")])
def test_it_ends_at_its_time_to_the_second(seconds: float, reason: str) -> None:
    until = THEN + HOUR
    deployment = serving(plan=make_serving_plan(serve_until_unix_s=until, budget_usd=1e3))
    assert step(deployment, seen(), now=until + seconds).decision.reason == reason


def test_deadline_and_budget_of_the_run_do_not_end_it() -> None:
    plan = replace(make_serving_plan(), budget_usd=1.0, deadline_minutes=1)
    assert outcome(step(serving(plan=plan), seen())) == (1, "serving")


def test_what_was_reached_once_stays_reached_with_a_raised_limit() -> None:
    raised = serving(2.5, over=True, plan=make_serving_plan(budget_usd=1e4))
    assert outcome(step(raised, seen())) == (0, "serving_over")
    assert outcome(step(replace(raised, serving=serving().serving), seen())) == (1, "serving")


def test_in_a_capacity_block_it_ends_with_the_block_and_spends_no_budget() -> None:
    block = CapacityBlock(
        state="active", instances=2, starts_at_unix_s=NOW - HOUR, ends_at_unix_s=THEN + 9 * HOUR
    )
    plan = make_serving_plan(capacity="capacity_block", reservation_id=BLOCK_ID)
    deployment, observation = serving(5.0, plan=plan), seen(block=block, servers=HEALTHY)
    made = step(deployment, observation, now=THEN + 5 * HOUR)
    assert outcome(made) == (1, "serving")
    assert made.schedule_at_unix_s == THEN + 9 * HOUR - 40 * MINUTE
    late = THEN + 9 * HOUR - 40 * MINUTE
    assert outcome(step(deployment, observation, now=late)) == (0, "block_over")


@pytest.mark.parametrize(
    ("changes", "status", "expected"),
    [
        ({"stopped": True}, "active", (0, "stopped")),
        ({}, "ended", (0, "ended")),
        ({"servers": Servers(gave_up="no devices")}, "active", (0, "server_gave_up")),
        ({"nodes": make_nodes(ownership="foreign")}, "active", (None, "foreign_node_group")),
        ({"servers": UNKNOWN}, "active", (None, "unknown")),
        ({"run": UNKNOWN}, "active", (None, "unknown")),
        ({}, "active", (1, "serving")),
        # What is asked before a run begins.
        ({"models": Models(staging="missing")}, "active", (1, "serving")),
        ({"canaries": Canaries(state="failed")}, "active", (1, "serving")),
    ],
)
def test_what_ends_any_nodes_ends_these(
    changes: dict[str, Any], status: Any, expected: tuple[int | None, str]
) -> None:
    deployment, observation = serving(), seen(**changes)
    made = step(deployment, observation).deployment
    decision = decide(made, status, observation, now=THEN)
    assert (decision.desired_size, decision.reason) == expected


@pytest.mark.parametrize(("minutes", "size"), [(129, 1), (131, 0)])
def test_it_ends_when_its_nodes_are_paid_for_and_it_does_not_get_ready(
    minutes: float, size: int
) -> None:
    """By the nodes that it needs, not by those of the run."""
    plan = make_serving_plan(budget_usd=1e3)
    waiting = ServerWait(from_node_seconds=2 * HOUR, nodes_since_unix_s=NOW)
    deployment = serving(minutes / 60, plan=plan, servers=waiting)
    made = step(deployment, seen(), now=THEN + minutes * MINUTE)
    assert outcome(made) == ((1, "serving") if size else (0, "no_server_ready"))


def test_an_experiment_that_asks_for_it_no_more_ends_it() -> None:
    assert outcome(step(serving(plan=make_plan(nodes=2)), seen())) == (0, "complete")


# What is counted


def test_the_runs_other_nodes_are_no_loss_and_no_surplus() -> None:
    """The winner's word that it is healthy is older than their end."""
    begun = step(measured(), seen())
    nodes = make_nodes(desired_size=1, instances=1)
    later = transition(
        begun.state, begun.deployment, seen(nodes=nodes, servers=HEALTHY), now=THEN + 20 * MINUTE
    )
    assert begun.state.problems == later.state.problems == ()
    assert later.notifications == ()
    assert later.deployment.servers.nodes_since_unix_s == NOW
    assert later.deployment.without_server_seconds == 0
    lost = transition(
        later.state,
        later.deployment,
        seen(nodes=make_nodes(desired_size=1), servers=HEALTHY),
        now=THEN + 30 * MINUTE,
    )
    assert "1 accelerator node(s) lost" in lost.notifications[0].subject
    assert lost.deployment.servers.nodes_since_unix_s == THEN + 30 * MINUTE


def test_nodes_that_stay_too_long_beside_it_are_told() -> None:
    begun = step(measured(), seen())
    both = seen(nodes=make_nodes(desired_size=1, instances=2))
    soon = transition(begun.state, begun.deployment, both, now=THEN + 29 * MINUTE)
    late = transition(soon.state, soon.deployment, both, now=THEN + 31 * MINUTE)
    assert soon.notifications == ()
    assert "more nodes than desired" in late.notifications[0].subject


def test_a_server_that_was_given_up_in_the_run_ends_no_other_that_serves() -> None:
    gave_up = ServerWait(nodes_since_unix_s=NOW, gave_up="a loser")
    made = step(measured(servers=gave_up), seen())
    assert (outcome(made), made.deployment.servers.gave_up) == ((1, "serving"), "")


def test_the_schedule_is_that_of_its_end() -> None:
    assert step(measured(), seen()).schedule_at_unix_s == THEN + 2 * HOUR
    sooner = measured(plan=make_serving_plan(serve_until_unix_s=THEN + HOUR))
    assert step(sooner, seen()).schedule_at_unix_s == THEN + HOUR
    assert step(serving(2.0), seen(), now=THEN + HOUR).schedule_at_unix_s is None


# Through the handler


def running(account: Account, **overrides: Any) -> None:
    account.stage()
    account.deploy(make_serving_plan(**overrides))
    account.instances_follow()
    account.heartbeat(after=HOUR)
    assert (account.desired, len(account.instances)) == (2, 2)
    account.mail()


def complete(account: Account, **overrides: Any) -> None:
    account.keep(**overrides)
    account.give_verdict()
    account.end_run()
    account.handle(RUN_EVENT)


def nodes_follow(account: Account) -> None:
    """At once: what is paid is counted at the higher number of two looks."""
    account.instances_follow()
    account.heartbeat()


@pytest.mark.emulator
def test_the_mail_says_what_stays_until_when_and_what_it_may_cost(account: Account) -> None:
    running(account, serve_until_unix_s=NOW + 2 * HOUR)
    complete(account)
    assert (account.desired, account.reason) == (1, "serving")
    (mail,) = account.mail()
    assert mail["subject"] == "draftworth qwen3-32b: 1 node, serving"
    first, *_ = mail["text"].splitlines()
    assert first.startswith("Speculation pays")
    for words in (VARIANTS[1], "0.00 USD of 20.00 USD", "make stop", "2 -> 1", " UTC or until"):
        assert words in mail["text"]
    schedule = account.scheduler.get_schedule(Name="deadline", GroupName=SCHEDULE_GROUP)
    assert schedule["Target"]["Input"] == '{"trigger": "deadline"}'


@pytest.mark.emulator
def test_it_serves_until_its_budget_is_spent_and_never_again(account: Account) -> None:
    running(account, deadline_minutes=90)
    complete(account)
    nodes_follow(account)
    for _ in range(5):
        account.heartbeat(after=20 * MINUTE)
        assert (account.desired, account.reason) == (1, "serving")
    account.mail()
    account.heartbeat(after=20 * MINUTE)
    assert (account.desired, account.reason) == (0, "serving_over")
    (mail,) = account.mail()
    assert "20.00 USD of 20.00 USD" in mail["text"]
    account.instances_follow()
    account.update(make_serving_plan(deadline_minutes=9000, budget_usd=1e3))
    account.heartbeat(after=HOUR)
    assert (account.desired, account.reason) == (0, "serving_over")
    assert account.mail() == []


@pytest.mark.emulator
@pytest.mark.parametrize(
    "body", [b"{", b'{"schema": "draftworth.kept-winner/9"}', b" " * (2**20 + 1), b"null"]
)
def test_what_is_no_kept_json_keeps_nothing_up(account: Account, body: bytes) -> None:
    running(account)
    account.s3.put_object(Bucket=RESULTS, Key=f"runs/{RUN_ID}/kept.json", Body=body)
    account.end_run()
    account.handle(RUN_EVENT)
    assert (account.desired, account.reason) == (0, "complete")
    assert "kept.json cannot be read" in account.mail()[0]["text"]


@pytest.mark.emulator
def test_a_kept_json_of_another_run_keeps_nothing_up(account: Account) -> None:
    running(account)
    account.keep(f"{JOB}-other", folder=RUN_ID)
    account.end_run()
    account.handle(RUN_EVENT)
    assert (account.desired, account.reason) == (0, "complete")


@pytest.mark.emulator
def test_a_kept_json_that_s3_does_not_give_now_is_asked_for_again(account: Account) -> None:
    """Nodes that went would be twenty minutes away."""
    running(account)
    account.keep()
    account.end_run()

    def refuse(params: dict[str, Any]) -> dict[str, Any] | None:
        if "kept.json" in str(params.get("url_path", "")):
            raise ConnectionError("no answer")
        return None

    account.answer("s3", "GetObject", refuse)
    account.handle(RUN_EVENT)
    assert (account.desired, account.log[-1]["event"]) == (2, "not decided")


@pytest.mark.emulator
def test_make_stop_ends_it_and_it_comes_back_only_within_its_limits(account: Account) -> None:
    running(account)
    complete(account)
    account.stop()
    account.handle(s3_event(RESULTS, STOP_KEY))
    assert (account.desired, account.reason) == (0, "stopped")
    nodes_follow(account)
    account.s3.delete_object(Bucket=RESULTS, Key=STOP_KEY)
    account.heartbeat(after=6 * HOUR)
    assert (account.desired, account.reason) == (1, "serving")
    account.delete(make_serving_plan())
    assert (account.desired, account.reason) == (0, "ended")


@pytest.mark.emulator
def test_what_its_job_has_let_go_ends_and_does_not_come_back_after_a_stop(account: Account) -> None:
    running(account)
    complete(account)
    account.stop()
    account.heartbeat(after=MINUTE)
    nodes_follow(account)
    account.let_go()
    account.heartbeat(after=8 * HOUR)
    account.s3.delete_object(Bucket=RESULTS, Key=STOP_KEY)
    account.heartbeat(after=MINUTE)
    assert (account.desired, account.reason) == (0, "serving_over")
    # The file is gone with an emptied bucket: what was over stays over.
    account.s3.delete_object(Bucket=RESULTS, Key=f"runs/{RUN_ID}/over.json")
    account.heartbeat(after=MINUTE)
    assert (account.desired, account.reason) == (0, "serving_over")


@pytest.mark.emulator
def test_the_mail_says_why_its_job_has_let_it_go(account: Account) -> None:
    running(account)
    complete(account)
    account.mail()
    account.let_go(reason="its server is gone: no answer")
    account.heartbeat(after=MINUTE)
    assert (account.desired, account.reason) == (0, "serving_over")
    assert "its server is gone: no answer" in account.mail()[0]["text"]


@pytest.mark.emulator
@pytest.mark.parametrize("body", [None, b"{"])
def test_a_winner_that_was_let_go_before_anybody_saw_it_never_serves(
    account: Account, body: bytes | None
) -> None:
    running(account)
    account.keep()
    account.let_go()
    if body is not None:
        key = f"runs/{RUN_ID}/over.json"
        account.s3.put_object(Bucket=RESULTS, Key=key, Body=body)
    account.end_run()
    account.handle(RUN_EVENT)
    assert (account.desired, account.reason) == (0, "complete")
    words = "its server is gone" if body is None else "over.json cannot be read"
    assert words in account.mail()[0]["text"]


@pytest.mark.emulator
def test_of_a_kept_server_alone_the_words_count(account: Account) -> None:
    running(account)
    complete(account)
    account.say(make_given_up(VARIANTS[0], since_unix_s=account.now))
    account.heartbeat(after=MINUTE)
    assert account.reason == "serving"
    account.say(make_given_up(VARIANTS[1], since_unix_s=account.now))
    account.heartbeat(after=MINUTE)
    assert (account.desired, account.reason) == (0, "server_gave_up")


@pytest.mark.emulator
def test_a_loser_that_was_given_up_as_the_run_ended_ends_nothing(account: Account) -> None:
    running(account)
    account.say(make_given_up(VARIANTS[0], since_unix_s=account.now))
    complete(account)
    assert (account.desired, account.reason) == (1, "serving")


@pytest.mark.emulator
def test_a_stack_that_is_created_anew_serves_nobodys_winner(account: Account) -> None:
    running(account)
    complete(account)
    account.delete(make_serving_plan())
    account.now += MINUTE
    account.deploy(make_serving_plan())
    assert (account.desired, account.reason) == (0, "complete")


@pytest.mark.emulator
def test_a_lost_state_ends_it(account: Account) -> None:
    running(account)
    complete(account)
    account.s3.delete_object(Bucket=RESULTS, Key="control/capacity.json")
    account.heartbeat(after=MINUTE)
    assert account.desired == 0


@pytest.mark.emulator
@pytest.mark.parametrize(("hours", "size"), [(5.5, 1), (6.1, 0)])
def test_a_state_that_cannot_be_read_ends_it_when_deadline_and_serving_must_be_over(
    account: Account, hours: float, size: int
) -> None:
    """Four hours of the run and two of its budget, since the size was set."""
    running(account)
    complete(account)
    account.fail("s3", "GetObject", *["SlowDown"] * 200)
    group = account.eks.describe_nodegroup(
        clusterName=make_plan().cluster_name, nodegroupName=make_plan().nodegroup_name
    )["nodegroup"]
    account.now = group["modifiedAt"].timestamp() + hours * HOUR
    event = {"trigger": "heartbeat", "plan": dump_text(make_serving_plan())}
    with pytest.raises(Exception, match=r"SlowDown|GetObject"):
        account.handle(event)
    assert account.desired == size


@pytest.mark.emulator
def test_a_job_that_comes_back_has_no_winner_and_measures_only_with_a_raised_rerun(
    account: Account,
) -> None:
    """The deploy in between has deleted it: its next pod would begin another run."""
    running(account)
    complete(account)
    nodes_follow(account)
    account.heartbeat(after=HOUR)
    account.update(make_plan(job_name="llmperf-qwen3-32b-other", nodes=2))
    nodes_follow(account)
    account.mail()
    account.update(make_serving_plan())
    assert (account.desired, account.reason) == (0, "serving_over")
    (mail,) = account.mail()
    assert "its Job is gone" in mail["text"]
    assert "rerun" in mail["text"]
    account.heartbeat(after=MINUTE)
    assert account.desired == 0


@pytest.mark.emulator
def test_a_deploy_of_the_same_job_leaves_its_winner(account: Account) -> None:
    running(account)
    complete(account)
    account.update(make_serving_plan(budget_usd=30.0))
    assert (account.desired, account.reason) == (1, "serving")


def test_a_server_of_the_winner_is_named_as_its_deployment() -> None:
    assert make_server(VARIANTS[1]).server in make_kept().servers
