"""The nodes go even if every line of the capacity controller fails."""

from typing import Any

import pytest

from stacks.constructs.backstop import LONGEST_DEPLOY_MINUTES
from tests.end_to_end.cloud import Cloud
from tests.end_to_end.conftest import DEADLINE_MINUTES, Environment
from tests.end_to_end.scheduler import STEP_MINUTES, instance_hours

pytestmark = [pytest.mark.synth, pytest.mark.emulator, pytest.mark.scenarios]
BACKSTOP_HOURS = (LONGEST_DEPLOY_MINUTES + DEADLINE_MINUTES) / 60
# The synthesis, the deploy and a step of the clock.
TOLERANCE_HOURS = 0.1 + STEP_MINUTES / 60


@pytest.fixture
def cloud(env: Environment, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """Return a cloud with a node, and with a controller whose every invocation fails."""
    env.cloud.client("eks").update_nodegroup_config(
        clusterName=env.cloud.names.cluster,
        nodegroupName=env.cloud.names.node_group("spot"),
        scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 1},
    )
    env.cloud.nodes_follow()

    def broken(*_: Any) -> None:
        raise RuntimeError("a line of ours")

    monkeypatch.setattr(Cloud, "invoke_controller", broken)
    return env.cloud


def test_the_backstop_ends_a_broken_controllers_nodes(cloud: Cloud) -> None:
    paid = instance_hours(cloud, hours=2 * BACKSTOP_HOURS)
    assert paid == pytest.approx(BACKSTOP_HOURS, abs=TOLERANCE_HOURS)
    assert (cloud.desired_nodes, cloud.instances) == (0, 0)


def test_without_it_nobody_ends_them(cloud: Cloud) -> None:
    scheduler = cloud.client("scheduler")
    (backstop,) = (s for s in scheduler.list_schedules()["Schedules"] if "Backstop" in s["Name"])
    scheduler.delete_schedule(Name=backstop["Name"], GroupName=backstop["GroupName"])
    assert instance_hours(cloud, hours=24) == 24
