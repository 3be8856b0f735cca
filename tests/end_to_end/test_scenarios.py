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
from tests.end_to_end.programs import run_canaries

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
