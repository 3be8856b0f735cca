"""CPU nodes that compile graphs: when they exist, and how long the accelerator nodes wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from draftworth.records.capacity import CapacityPlan, CompilePlan, GraphRef
from draftworth.records.codec import dump_record
from draftworth.records.unproven_graphs import (
    WANTED_KEY,
    CompileReport,
    WantedGraphs,
    compile_report_key,
    rejected_key,
    unproven_key,
)
from lambdas.capacity_controller.decision import decide
from lambdas.capacity_controller.observation import CompileNodes, PendingGraph, Unknown
from tests.lambdas.capacity_controller.conftest import ARTIFACTS, RESULTS, Account, s3_event
from tests.lambdas.capacity_controller.plans import (
    JOB,
    MINUTE,
    NOW,
    make_block_plan,
    make_deployment,
    make_nodes,
    make_observation,
    make_plan,
)

KEYS = ("f0" * 12, "a1" * 12)
OTHER = "0b" * 12
WAIT_MINUTES = 90
GROUP = "draftworth-qwen3-32b-compile"
HEARTBEAT = {"trigger": "heartbeat"}


def compile_plan(*, others: tuple[str, ...] = ()) -> CompilePlan:
    certain = (GraphRef(key=k, job_name=f"compile-{k[:2]}", certain=True) for k in KEYS)
    likely = (GraphRef(key=k, job_name=f"compile-{k[:2]}", certain=False) for k in others)
    return CompilePlan(nodegroup_name=GROUP, graphs=(*certain, *likely), wait_minutes=WAIT_MINUTES)


def plan(*, others: tuple[str, ...] = ()) -> CapacityPlan:
    return make_plan(compiling=compile_plan(others=others))


def report(key: str, **overrides: Any) -> CompileReport:
    fields: dict[str, Any] = {
        "key": key,
        "job_name": f"compile-{key[:2]}",
        "outcome": "compiled",
        "text": "16 files",
        "attempt": 1,
        "reported_at_unix_s": NOW,
    }
    return CompileReport(**{**fields, **overrides})


@pytest.fixture
def deployed(account: Account) -> Account:
    """Everything is ready but the graphs."""
    account.create_node_group(replace(make_plan(), nodegroup_name=GROUP))
    account.stage()
    account.deploy(plan())
    account.mail()
    return account


def compile_nodes(account: Account) -> int:
    return account.scaling(replace(make_plan(), nodegroup_name=GROUP))["desiredSize"]


def put_report(account: Account, made: CompileReport) -> None:
    key = compile_report_key(made.key)
    account.s3.put_object(Bucket=RESULTS, Key=key, Body=dump_record(made))
    account.handle(s3_event(RESULTS, key))


@pytest.mark.emulator
def test_accelerators_wait_for_graphs_and_a_node_compiles_each(deployed: Account) -> None:
    assert (deployed.desired, deployed.reason) == (0, "waiting_for_graphs")
    assert compile_nodes(deployed) == 2

    put_report(deployed, report(KEYS[0]))
    # Not one less: Auto Scaling might take the node that still compiles.
    assert (deployed.desired, compile_nodes(deployed)) == (0, 2)
    put_report(deployed, report(KEYS[1], outcome="failed", text="no output"))

    assert (deployed.desired, deployed.reason) == (1, "ready")
    assert compile_nodes(deployed) == 0
    (mail,) = deployed.mail()
    assert "no certain graph is waited for" in mail["text"]


@pytest.mark.emulator
def test_they_compile_while_checkpoints_are_staged(account: Account) -> None:
    account.create_node_group(replace(make_plan(), nodegroup_name=GROUP))
    account.deploy(plan())

    assert (account.desired, account.reason) == (0, "waiting_for_models")
    assert compile_nodes(account) == 2


@pytest.mark.emulator
def test_the_wait_has_an_end_and_the_mail_says_what_did_not_come(deployed: Account) -> None:
    deployed.now = NOW + WAIT_MINUTES * MINUTE - 1
    deployed.handle(HEARTBEAT)
    assert (deployed.desired, compile_nodes(deployed)) == (0, 2)
    deployed.now += 1
    deployed.mail()
    deployed.handle(HEARTBEAT)

    assert (deployed.desired, deployed.reason, compile_nodes(deployed)) == (1, "ready", 0)
    (mail,) = deployed.mail()
    assert (
        "servers compile what these Jobs have not finished (compile-f0, compile-a1)" in mail["text"]
    )


@pytest.mark.emulator
@pytest.mark.parametrize("key_of", [unproven_key, rejected_key, "{}/_ARTIFACTS.json".format])
def test_what_the_bucket_says_something_of_is_not_compiled_again(
    account: Account, key_of: Any
) -> None:
    account.create_node_group(replace(make_plan(), nodegroup_name=GROUP))
    account.stage()
    for key in KEYS:
        account.s3.put_object(Bucket=ARTIFACTS, Key=key_of(key), Body=b"{}")
    account.deploy(plan())

    assert (account.desired, account.reason, compile_nodes(account)) == (1, "ready", 0)


@pytest.mark.emulator
@pytest.mark.parametrize(
    "made",
    [
        report(KEYS[0], job_name="compile-of-another-deploy"),
        report(OTHER),
    ],
)
def test_another_jobs_report_ends_no_wait(deployed: Account, made: CompileReport) -> None:
    key = compile_report_key(KEYS[0])
    deployed.s3.put_object(Bucket=RESULTS, Key=key, Body=dump_record(made))
    deployed.handle(HEARTBEAT)
    assert compile_nodes(deployed) == 2

    deployed.s3.put_object(Bucket=RESULTS, Key=key, Body=b"no report")
    deployed.handle(HEARTBEAT)
    assert compile_nodes(deployed) == 2


@pytest.mark.emulator
def test_a_run_that_is_over_ends_compiling(deployed: Account) -> None:
    deployed.s3.put_object(Bucket=RESULTS, Key="control/stop", Body=b"")
    deployed.handle(s3_event(RESULTS, "control/stop"))

    assert (deployed.reason, compile_nodes(deployed)) == ("stopped", 0)


@pytest.mark.emulator
def test_they_go_with_the_run_also_while_s3_says_nothing_of_graphs(deployed: Account) -> None:
    deployed.s3.put_object(Bucket=RESULTS, Key="control/stop", Body=b"")

    def refuse(params: dict[str, Any]) -> dict[str, Any] | None:
        if "/_" in str(params.get("query_string", "")):  # the names of a graph's records
            raise ConnectionError("no answer")
        return None

    deployed.answer("s3", "ListObjectsV2", refuse)
    deployed.handle(HEARTBEAT)

    assert (deployed.reason, compile_nodes(deployed)) == ("stopped", 0)


@pytest.mark.emulator
def test_deadline_and_delete_end_compiling(deployed: Account) -> None:
    deployed.now = NOW + make_plan().deadline_minutes * MINUTE
    deployed.handle(HEARTBEAT)
    assert (deployed.reason, compile_nodes(deployed)) == ("deadline", 0)


@pytest.mark.emulator
def test_a_stack_that_goes_takes_compile_nodes_along(deployed: Account) -> None:
    deployed.deploy(plan(), kind="Delete")

    assert compile_nodes(deployed) == 0


@pytest.mark.emulator
def test_a_lost_state_takes_compile_nodes_along(deployed: Account) -> None:
    deployed.s3.put_object(Bucket=RESULTS, Key="control/capacity.json", Body=b"broken")
    with pytest.raises(Exception, match="is not a state"):
        deployed.handle({"trigger": "heartbeat", "plan": dump_record(plan()).decode()})

    assert compile_nodes(deployed) == 0


@pytest.mark.emulator
def test_likely_candidates_are_compiled_when_the_run_asks_for_them(account: Account) -> None:
    account.create_node_group(replace(make_plan(), nodegroup_name=GROUP))
    account.stage()
    for key in KEYS:
        account.s3.put_object(Bucket=ARTIFACTS, Key=unproven_key(key), Body=b"{}")
    account.deploy(plan(others=(OTHER,)))
    assert (account.desired, compile_nodes(account)) == (1, 0)

    for job, nodes in (("another Job", 0), (JOB, 1)):
        wanted = WantedGraphs(job_name=job, since_unix_s={OTHER: account.now})
        account.s3.put_object(Bucket=RESULTS, Key=WANTED_KEY, Body=dump_record(wanted))
        account.handle(s3_event(RESULTS, WANTED_KEY))
        assert (account.desired, compile_nodes(account)) == (1, nodes)

    account.now += WAIT_MINUTES * MINUTE
    account.handle(HEARTBEAT)
    assert (account.desired, compile_nodes(account)) == (1, 0)


# Without AWS


def pending(*keys: str, certain: bool = True) -> CompileNodes:
    graphs = (
        PendingGraph(key=k, job_name=f"compile-{k[:2]}", certain=certain, since_unix_s=NOW)
        for k in keys
    )
    return CompileNodes(desired_size=0, pending=tuple(graphs))


def outcome(deployed_plan: CapacityPlan, **observed: Any) -> tuple[int | None, str]:
    decision = decide(
        make_deployment(deployed_plan), "active", make_observation(**observed), now=NOW + MINUTE
    )
    return decision.desired_size, decision.reason


def test_nodes_that_are_up_are_not_given_back_for_a_graph() -> None:
    up = make_nodes(desired_size=1, instances=1)

    assert outcome(plan(), compiling=pending(*KEYS), nodes=up) == (1, "ready")
    assert outcome(plan(), compiling=pending(*KEYS)) == (0, "waiting_for_graphs")


def test_a_block_that_is_paid_for_waits_for_no_graph() -> None:
    block = make_block_plan(compiling=compile_plan())

    assert outcome(block, compiling=pending(*KEYS)) == (1, "ready")


def test_what_is_only_likely_is_not_waited_for() -> None:
    assert outcome(plan(), compiling=pending(OTHER, certain=False)) == (1, "ready")


def test_not_knowing_delays_a_start_and_no_longer_than_the_wait() -> None:
    unknown = make_observation(compiling=Unknown(why="S3 did not answer"))
    deployment = make_deployment(plan())
    late = NOW + WAIT_MINUTES * MINUTE

    decided = [decide(deployment, "active", unknown, now=at) for at in (late - 1, late)]

    assert [d.desired_size for d in decided] == [None, 1]
    assert decided[0].text == "S3 did not answer"
