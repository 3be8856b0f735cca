"""What goes wrong before a server is healthy, and what it costs by the controller's ledger.

Canaries, start wrappers, stagers and the measuring Job's pod are the real programs, around a vLLM
that fails. What takes them minutes has a shorter limit here, and costs the scenario the real one.
Before there were canaries and wrappers that report, nobody noticed such a server for 225 minutes.
"""

import json
import signal
from collections.abc import Mapping

import pytest

from charts.checkpoint_stager import RETRIES
from draftworth.measuring.run_specification import EXIT_FAILED, EXIT_INTERRUPTED
from draftworth.records.checkpoints import FAILED_MARKER
from draftworth.records.results import RUN_FILE
from draftworth.records.servers import LOAD_LIMIT_MINUTES
from tests.end_to_end import programs
from tests.end_to_end.conftest import TARGET, Environment, FirstRun
from tests.support.neuron import RUNTIME, compiled

pytestmark = [pytest.mark.synth, pytest.mark.emulator, pytest.mark.scenarios]

# The best case of `plan`: node_start_minutes and image_pull_minutes of its assumptions.
BOOT_MINUTES = 6
REFUSED_LOAD_MINUTES = 30
# What such a self-test takes by `plan`, and what a device that cannot work may cost.
SELF_TEST_MINUTES, DEVICE_MINUTES = 2, 10
# Of `start`, where its own limit is waited for.
SHORT_MINUTES = "0.01"


def begun(env: Environment, first_run: FirstRun) -> None:
    """The node is up and has the images; the Job's first pod has begun its run.

    It waits for its servers, and loses its CPU node.
    """
    env.stage(first_run.contents)
    process = env.start(env.measurer(1), "llmperf")
    env.wait_for("results", f"runs/{env.job_name}-")
    process.signal(signal.SIGTERM)
    assert process.wait() == EXIT_INTERRUPTED, process.output
    env.cloud.heartbeat(after_minutes=BOOT_MINUTES - 2)


def check_ended(env: Environment, *, at_most_minutes: float) -> str:
    """The nodes go; neither their end nor the hours after it cost more than a drain.

    The mail about it.
    """
    cloud, paid = env.cloud, programs.paid_minutes(env)
    assert 0 < paid <= at_most_minutes
    price = env.experiment.node_price.usd_per_hour
    assert programs.ledger(env).spent_usd == pytest.approx(paid / 60 * price)
    assert cloud.desired_nodes == 0
    cloud.nodes_follow()
    cloud.heartbeat(after_minutes=2)
    assert programs.paid_minutes(env) == pytest.approx(paid + 2)
    cloud.heartbeat(after_minutes=120)
    assert programs.paid_minutes(env) == pytest.approx(paid + 2)
    told = cloud.notifications()
    assert len(told) == 1, told[1][:300]
    return told[0]


def end_run(env: Environment) -> str:
    """The Job's next pod waits no more for servers of which one was given up: the run's reason."""
    process = env.start(env.measurer(2), "llmperf")
    assert process.wait() == EXIT_FAILED, process.output
    (run,) = (json.loads(env.get("results", key)) for key in env.keys("results", f"/{RUN_FILE}"))
    assert run["status"] == "failed"
    return str(run["reason"])


def test_a_compiled_graph_that_does_not_load(env: Environment, first_run: FirstRun) -> None:
    """The controller is the first to notice: the Job's failure that follows is no further mail."""
    env.put("artifacts", first_run.contents["artifacts"])
    begun(env, first_run)
    other, broken = env.ports
    programs.start_server(env, other)
    programs.start_server(env, broken, trouble="hang", load_minutes=SHORT_MINUTES)
    programs.wait_for_server(env, other, "healthy")
    programs.wait_for_server(env, broken, "given_up")
    env.cloud.now_unix_s += 60 * LOAD_LIMIT_MINUTES
    programs.hear_of_server(env, broken)
    told = check_ended(env, at_most_minutes=REFUSED_LOAD_MINUTES)
    why = f"not healthy {SHORT_MINUTES} minutes after its first start"
    assert all(words in told for words in ("server gave up", broken, why))
    assert "was given up" in end_run(env)
    env.cloud.events()
    env.cloud.heartbeat(after_minutes=2)
    assert env.cloud.notifications() == []


def test_a_driver_that_refuses_the_images_runtime(env: Environment, first_run: FirstRun) -> None:
    """The other server, on devices of its own, is not waited for."""
    compiled("neuron.c")
    begun(env, first_run)
    _, broken = env.ports
    (env.node / "sys" / "module" / "neuron" / "version").write_text("2.29.0.0\n")
    programs.start_server(env, broken)
    programs.wait_for_server(env, broken, "given_up")
    env.cloud.now_unix_s += 60 * SELF_TEST_MINUTES
    programs.hear_of_server(env, broken)
    told = check_ended(env, at_most_minutes=DEVICE_MINUTES)
    why = "self-test: Neuron driver 2.29.0.0 needs Neuron runtime 2.33 or later"
    assert all(words in told for words in ("server gave up", broken, why, "self-test: FAILED"))
    assert why in end_run(env)
    (run,) = (json.loads(env.get("results", key)) for key in env.keys("results", f"/{RUN_FILE}"))
    (found,) = run["self_tests"].values()
    assert (found["runtime"], found["devices"]) == (RUNTIME, list(range(8)))


def check_nothing_paid(env: Environment) -> str:
    """No node came up, and none does; the one mail about it."""
    (told,) = env.cloud.notifications()
    env.cloud.heartbeat(after_minutes=60)
    env.cloud.nodes_follow()
    assert (env.cloud.desired_nodes, env.cloud.instances) == (0, 0)
    assert (programs.paid_minutes(env), programs.ledger(env).spent_usd) == (0, 0)
    return told


def put_checkpoints(env: Environment, objects: Mapping[str, bytes]) -> None:
    """All are staged: from here on everybody waits for the canaries."""
    env.put("checkpoints", objects)
    env.cloud.events()
    env.cloud.notifications()


def test_a_stager_whose_last_pod_fails_costs_nothing(env: Environment) -> None:
    env.hub.trouble.corrupt["config.json"] = 1000
    for number in (1, RETRIES):
        env.start(env.stagers(number)[0], "checkpoint-stager").wait()
        assert env.keys("checkpoints", FAILED_MARKER) == []
    env.cloud.notifications()
    env.start(env.stagers(RETRIES + 1)[0], "checkpoint-stager").wait()
    assert "config.json" in programs.hear_of_stager(env, TARGET).reason
    told = check_nothing_paid(env)
    assert all(words in told for words in ("staging failed", f"{RETRIES + 1} tries failed"))
