"""How an experiment gets its node, and how it is run again.

Each scenario is deployed in an emulated account of its own. Those that start where a run has left
something take it from one undisturbed run (`first_run`).
"""

from argparse import Namespace
from collections.abc import Mapping

import pytest

from draftworth.account import artifacts
from tests.end_to_end.cloud import Template
from tests.end_to_end.conftest import DRAFT, TARGET, Environment, FirstRun
from tests.end_to_end.programs import paid_minutes, run_canaries

pytestmark = [pytest.mark.synth, pytest.mark.emulator, pytest.mark.scenarios]


def test_the_node_starts_after_staging_and_canaries(env: Environment, first_run: FirstRun) -> None:
    cloud, staged = env.cloud, first_run.contents["checkpoints"]
    assert (cloud.desired_nodes, cloud.instances) == (0, 0)
    (mail,) = cloud.notifications()
    assert TARGET in mail
    for model in (TARGET, DRAFT):
        env.put("checkpoints", {k: v for k, v in staged.items() if k.startswith(f"{model}/")})
        assert cloud.events() == 1
        assert cloud.desired_nodes == 0
    run_canaries(env)
    assert cloud.desired_nodes == 1
    cloud.nodes_follow()
    assert cloud.instances == 1


def test_on_hold_all_is_tried_without_nodes(
    held: Environment, first_run: FirstRun, templates: Mapping[str, Template]
) -> None:
    cloud, held_job = held.cloud, held.job_name
    held.put("checkpoints", first_run.contents["checkpoints"])
    cloud.events()
    assert set(run_canaries(held).values()) == {0}
    cloud.nodes_follow()
    assert (cloud.desired_nodes, cloud.instances, paid_minutes(held)) == (0, 0, 0)
    assert "0 nodes, on hold" in cloud.notifications()[-1]
    cloud.now_unix_s += 24 * 3600
    cloud.update(templates)
    assert held.job_name != held_job
    assert cloud.desired_nodes == 0
    run_canaries(held)
    assert cloud.desired_nodes == 1


def test_a_failed_canary_on_hold_is_mailed(held: Environment, first_run: FirstRun) -> None:
    cloud, staged = held.cloud, dict(first_run.contents["checkpoints"])
    held.put("checkpoints", {key: data for key, data in staged.items() if "config.json" not in key})
    cloud.events()
    assert set(run_canaries(held).values()) != {0}
    assert "0 nodes, canary failed" in cloud.notifications()[-1]


def test_a_rerun_downloads_nothing_and_compiles_nothing(
    env: Environment,
    first_run: FirstRun,
    repeated_templates: Mapping[str, Template],
    capsys: pytest.CaptureFixture[str],
) -> None:
    cloud = env.cloud
    for bucket, objects in first_run.contents.items():
        env.put(bucket, objects)
    cloud.events()
    assert cloud.desired_nodes == 0
    cloud.now_unix_s += 3600
    cloud.update(repeated_templates)
    run_canaries(env)
    assert cloud.desired_nodes == 1
    assert [stager.run("checkpoint-stager") for stager in env.stagers()] == [0, 0]
    assert env.hub.downloads("model.safetensors") == 0
    capsys.readouterr()
    assert artifacts.run(Namespace(experiments=[env.path], bucket=None, run=False)) == 0
    assert "would compile" not in capsys.readouterr().out
    env.serve()
    assert all(env.start_line(variant).startswith("loaded ") for variant in env.ports)
    assert not first_run.run_id.startswith(env.measurer().owner["metadata"]["name"])
    assert env.keys("artifacts") == list(first_run.contents["artifacts"])


# Failures
