"""Graphs that CPU nodes compile, through the whole chain, and what accelerators are billed for it.

Compile Jobs, start wrappers, uploaders, the measuring Job and the controller are the real programs,
around stand-ins of the image's modules and of vLLM. What takes them minutes takes a moment here,
and costs the scenario the minutes of `plan`'s best case.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from draftworth.cli import main
from draftworth.errors import UserInputError
from draftworth.experiment.cluster import COMPILE_WAIT_MINUTES
from draftworth.planning.assumptions import Assumptions, assumption_data
from draftworth.planning.cpu_compiling import compiled_where
from draftworth.planning.loading_time import load_minutes
from draftworth.planning.timeline import forecast
from draftworth.records.artifact_manifest import MANIFEST_NAME
from draftworth.records.results import RUN_FILE
from draftworth.records.server_state import UNPROVEN_LIMIT_MINUTES
from draftworth.records.unproven_graphs import REJECTED_NAME, UNPROVEN_NAME
from tests.draftworth.planning.test_cpu_compiling import PUBLISHED_MINUTES_BEST
from tests.end_to_end.conftest import (
    TARGET,
    Environment,
    FirstRun,
    Synthesis,
    new_environment,
    synthesis_of,
)
from tests.end_to_end.programs import compile_graph, paid_minutes, run_canaries, wait_for_server

pytestmark = [pytest.mark.synth, pytest.mark.emulator]


@pytest.fixture(scope="module")
def synthesis(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    return synthesis_of(tmp_path_factory.mktemp("compile_nodes"), compile_where="cpu_nodes")


@pytest.fixture
def env(synthesis: Synthesis, tmp_path: Path) -> Iterator[Environment]:
    """Deployed: nothing staged, nothing compiled."""
    with new_environment(*synthesis, tmp_path) as made:
        made.cloud.deploy()
        made.cloud.notifications()
        yield made


def compile_graphs(env: Environment, trouble: str = "") -> set[int]:
    """Every compile Job's first pod to its end; their exit codes."""
    codes = {compile_graph(env, pod, trouble).wait() for pod in env.compilers()}
    env.cloud.events()
    return codes


def stage(env: Environment, first_run: FirstRun) -> None:
    """All is staged and the canaries are well."""
    env.put("checkpoints", first_run.contents["checkpoints"])
    assert set(run_canaries(env).values()) == {0}


def assumed() -> Assumptions:
    return assumption_data().for_target(TARGET)


def boot(env: Environment) -> None:
    """The node starts and has its image."""
    assert env.cloud.desired_nodes == 1
    env.cloud.nodes_follow()
    bounds = assumed().bounds
    env.cloud.heartbeat(
        after_minutes=(bounds("node_start_minutes") + bounds("image_pull_minutes")).best
    )


def serve(env: Environment, load: str = "") -> None:
    """Every server is healthy, by its parent's own word. load: how graphs that are there fail."""
    env.serve(LOAD=load)
    for variant in env.ports:
        wait_for_server(env, variant, "healthy")


def load(env: Environment) -> None:
    """The slower server has its weights."""
    minutes = (load_minutes(variant, assumed()).best for variant in env.experiment.variants)
    env.cloud.heartbeat(after_minutes=max(minutes))


def compile_on_the_node(env: Environment) -> None:
    env.cloud.heartbeat(after_minutes=assumed().bounds("compile_minutes").best)


def planned_minutes(env: Environment, where: Literal["accelerator", "cpu_nodes"]) -> float:
    """Billed before the first measured token, by `plan` in its best case."""
    planned = forecast(compiled_where(env.experiment, where), assumed()).unlimited
    return planned.bounds(lambda run: run.billed_minutes_before_first_token).best


def report_of(env: Environment, run_id: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["report", f"s3://{env.cloud.bucket.results}/runs/{run_id}"]) == 0
    return capsys.readouterr().out


def graphs_by_run(env: Environment, run_id: str) -> dict[str, tuple[str, str]]:
    """By variant: where its graphs were from, and why others were rejected."""
    run = json.loads(env.get("results", f"runs/{run_id}/{RUN_FILE}"))
    return {k: (v["graphs_from"], v["rejection"]) for k, v in run["server_starts"].items()}


def test_graphs_that_load_leave_a_quarter_of_the_published_minutes(
    env: Environment, first_run: FirstRun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (env.cloud.desired_nodes, env.cloud.desired_of("compile")) == (0, len(env.ports))
    stage(env, first_run)
    # Both are waited for, whichever is the first to come.
    assert (env.cloud.desired_nodes, env.cloud.desired_of("compile")) == (0, len(env.ports))
    env.cloud.heartbeat(after_minutes=COMPILE_WAIT_MINUTES / 2)
    assert compile_graphs(env) == {0}
    assert (env.cloud.desired_nodes, env.cloud.desired_of("compile")) == (1, 0)
    assert paid_minutes(env) == 0
    boot(env)
    serve(env)
    load(env)
    paid = paid_minutes(env)
    run_id = env.measure()
    assert paid == pytest.approx(planned_minutes(env, "cpu_nodes"))
    assert paid <= PUBLISHED_MINUTES_BEST / 4
    env.wait_for("artifacts", MANIFEST_NAME, len(env.ports))
    folders = {json.loads(env.get("artifacts", k))["folder"] for k in proven(env)}
    assert folders == {
        json.loads(env.get("artifacts", key))["graphs"]["folder"]
        for key in env.keys("artifacts", UNPROVEN_NAME)
    }
    assert graphs_by_run(env, run_id) == dict.fromkeys(env.ports, ("unproven", ""))
    assert "compiled on CPU nodes, proven on the devices" in report_of(env, run_id, capsys)


def proven(env: Environment) -> list[str]:
    return env.keys("artifacts", MANIFEST_NAME)


def test_graphs_that_do_not_load_cost_a_start_and_the_report_says_so(
    env: Environment, first_run: FirstRun, capsys: pytest.CaptureFixture[str]
) -> None:
    stage(env, first_run)
    assert compile_graphs(env) == {0}
    boot(env)
    serve(env, load="crash")
    assert all(env.said(variant).startswith("compiled ") for variant in env.ports)
    # At the worst: a server that crashes at once has not cost these minutes.
    env.cloud.heartbeat(after_minutes=UNPROVEN_LIMIT_MINUTES)
    compile_on_the_node(env)
    load(env)
    paid = paid_minutes(env)
    run_id = env.measure()
    assert paid == pytest.approx(planned_minutes(env, "accelerator") + UNPROVEN_LIMIT_MINUTES)
    env.wait_for("artifacts", REJECTED_NAME, len(env.ports))
    env.wait_for("artifacts", MANIFEST_NAME, len(env.ports))
    found = graphs_by_run(env, run_id)
    assert {where for where, _ in found.values()} == {"rejected"}
    assert all("exit code 7" in why for _, why in found.values())
    said = report_of(env, run_id, capsys)
    assert "those compiled on CPU nodes were rejected" in said
    assert "exit code 7" in said


@pytest.mark.parametrize("trouble", ["nothing", "target"])
def test_a_compile_job_that_fails_costs_what_compiling_on_the_node_costs(
    env: Environment, first_run: FirstRun, trouble: str
) -> None:
    """It made nothing, or graphs of another chip."""
    assert compile_graphs(env, trouble=trouble) == {UserInputError.exit_code}
    assert (env.cloud.desired_nodes, env.cloud.desired_of("compile")) == (0, 0)
    stage(env, first_run)
    boot(env)
    serve(env)
    assert all(env.said(variant).startswith("compiled ") for variant in env.ports)
    compile_on_the_node(env)
    load(env)
    assert paid_minutes(env) == pytest.approx(planned_minutes(env, "accelerator"))
    assert env.keys("artifacts", UNPROVEN_NAME) == []


def test_two_pods_of_a_compile_job_leave_one_set_of_graphs(env: Environment) -> None:
    """As where Kubernetes lost sight of the first one's node, which goes on."""
    started = [compile_graph(env, pod) for number in (1, 2) for pod in env.compilers(number)]
    assert {process.wait() for process in started} == {0}
    env.cloud.events()
    assert env.cloud.desired_of("compile") == 0
    markers = env.keys("artifacts", UNPROVEN_NAME)
    assert len(markers) == len(env.ports)
    named = {json.loads(env.get("artifacts", key))["graphs"]["folder"] for key in markers}
    files = {*env.keys("artifacts", "")} - {*markers}
    assert {key.rpartition("/")[0] for key in files} == named


def test_a_compile_job_that_never_reports_is_waited_for_so_long_and_no_longer(
    env: Environment, first_run: FirstRun
) -> None:
    stage(env, first_run)
    env.cloud.heartbeat(after_minutes=COMPILE_WAIT_MINUTES - 1)
    assert (env.cloud.desired_nodes, env.cloud.desired_of("compile")) == (0, len(env.ports))
    env.cloud.notifications()
    env.cloud.heartbeat(after_minutes=1)
    assert (env.cloud.desired_nodes, env.cloud.desired_of("compile")) == (1, 0)
    (told,) = env.cloud.notifications()
    assert "servers compile what these Jobs have not finished" in told
    assert paid_minutes(env) == 0
    boot(env)
    serve(env)
    compile_on_the_node(env)
    load(env)
    assert paid_minutes(env) == pytest.approx(planned_minutes(env, "accelerator"))
    env.wait_for("artifacts", MANIFEST_NAME, len(env.ports))
    # The Job comes after all: nothing is left to do.
    assert compile_graphs(env) == {0}
    assert env.keys("artifacts", UNPROVEN_NAME) == []
