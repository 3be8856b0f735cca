"""Programs of a run, real ones and stand-ins, and what the controller makes of their records.

A scenario's clock is moved by hand, a program's is the machine's: the times of a record are moved
to the scenario's once the program has written it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from charts.names import service_name
from draftworth.records.checkpoints import FailedModel, failed_key
from draftworth.records.codec import dump_record, load_record
from draftworth.records.controller_state import Deployment, State
from draftworth.records.deployment import PATHS, CanaryReport, canary_key
from draftworth.records.servers import ServerPhase, ServerState, server_state_key
from tests.end_to_end.pods import Process
from tests.lambdas.capacity_controller.plans import make_report, make_server
from tests.pods.compiled_graphs.pods import eventually
from tests.support.registry import NO_REGISTRY

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Environment

R = TypeVar("R", CanaryReport, FailedModel, ServerState)


def ledger(env: Environment) -> Deployment:
    """Return the controller's record of the deployed Job's nodes and cost."""
    deployment = load_record(State, env.get("results", "control/capacity.json")).deployment
    assert deployment is not None
    return deployment


def paid_minutes(env: Environment) -> float:
    return ledger(env).node_time.node_seconds / 60


def run_canaries(env: Environment) -> dict[str, int]:
    """Run every variant's canary once; return their exit codes by variant.

    The canary of the measuring Job's paths is not run, because there is no listener here; its
    report is written.
    """
    impatient = ("--patience-seconds=0", "--poll-seconds=0.05")
    # Tests ask no registry outside this machine, and on it is none.
    options = (*impatient, f"--serving-image={NO_REGISTRY}/server:1")
    started = [env.start(pod, "canary", *options) for pod in env.canaries()]
    tried = [variant.name for variant in env.experiment.canaries]
    codes = dict(zip(tried, [process.wait() for process in started], strict=True))
    for variant in codes:
        key = canary_key(env.job_name, variant)
        _move(env, "results", key, CanaryReport, "reported_at_unix_s")
    _report_of_canary(env, PATHS)
    env.cloud.events()
    return codes


def hear_of_stager(env: Environment, model: str) -> FailedModel:
    """Return the failure that a staging Job recorded, once it has failed for good."""
    key = failed_key(model, "main")
    failed = _move(env, "checkpoints", key, FailedModel, "failed_at_unix_s")
    env.cloud.events()
    return failed


def start_server(env: Environment, variant: str, *, trouble: str = "", **limits: str) -> Process:
    """Start a variant's first container, with other limits if they are named."""
    pod = env.server(variant)
    (container,) = (c for c in pod.spec["containers"] if c["name"] == "vllm")
    options = [f"--{name.replace('_', '-')}={value}" for name, value in limits.items()]
    after = container["command"].index("start") + 1
    container["command"][after:after] = options
    return env.start(pod, "vllm", START_NOTES=str(pod.folder / "start_notes"), TROUBLE=trouble)


def wait_for_server(env: Environment, variant: str, phase: ServerPhase) -> None:
    key = server_state_key(service_name(variant))
    eventually(
        lambda: (
            key in env.keys("results")
            and load_record(ServerState, env.get("results", key)).phase == phase
        ),
        every_seconds=0.2,
    )


def hear_of_server(env: Environment, variant: str) -> None:
    """Give the controller the last state of a server."""
    key = server_state_key(service_name(variant))
    if key in env.keys("results"):
        _move(env, "results", key, ServerState, "since_unix_s")
    env.cloud.events()


def _move(env: Environment, bucket: str, key: str, kind: type[R], time: str) -> R:
    """Rewrite a program's record as if it had been written at the scenario's time."""
    moved: dict[str, Any] = {time: env.cloud.now_unix_s}
    record = replace(load_record(kind, env.get(bucket, key)), **moved)
    env.put(bucket, {key: dump_record(record)})
    return record


# Records of programs that would take too long here.


def reports_of_canaries(env: Environment) -> None:
    """Write a successful report of every canary."""
    for name in (*(variant.name for variant in env.experiment.canaries), PATHS):
        _report_of_canary(env, name)
    env.cloud.events()


def _report_of_canary(env: Environment, name: str) -> None:
    report = make_report(env.job_name, name, reported_at_unix_s=env.cloud.now_unix_s)
    env.put("results", {canary_key(env.job_name, name): dump_record(report)})


def reports_of_servers(env: Environment) -> None:
    """Write a healthy state of every variant's server."""
    for variant in env.ports:
        state = make_server(variant, since_unix_s=env.cloud.now_unix_s)
        env.put("results", {server_state_key(state.server): dump_record(state)})
    env.cloud.events()
