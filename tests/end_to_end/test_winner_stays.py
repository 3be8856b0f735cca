"""A winner that stays, from the first request of its run to the end of its budget.

The measuring Job's program, the controller and the publisher are the real ones. Deployments and the
Service `winner` are changed through a stand-in for the Kubernetes API, which starts and ends the
servers.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from charts.names import server_name
from draftworth.measuring.job import EXIT_COMPLETE, EXIT_INTERRUPTED, WINNER_SERVICE
from draftworth.records.codec import load_record
from draftworth.records.live import KEPT_FILE, KeptWinner, LiveProbe
from draftworth.records.results import RUN_FILE
from pods.llmperf.kubernetes_servers import NO_SERVER
from tests.end_to_end.conftest import (
    Environment,
    FirstRun,
    Synthesis,
    new_environment,
    synthesis_of,
)
from tests.end_to_end.slots import Slots, measure, slots_of
from tests.pods.compiled_graphs.pods import eventually
from tests.support.experiments import shipped

pytestmark = [pytest.mark.synth, pytest.mark.emulator]

# At the price of a node, so long: for its looks, and for another pod to begin.
SERVING_SECONDS = 40
REQUESTS = 16


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    budget_usd = SERVING_SECONDS / 3600 * shipped("qwen3-32b")["aws"]["price"]["usd_per_hour"]
    return synthesis_of(
        tmp_path_factory.mktemp("winner_stays"),
        requests=(REQUESTS, REQUESTS),
        after={"kind": "serve", "budget_usd": budget_usd, "probe_seconds": 1},
    )


@pytest.fixture
def env(serving: Synthesis, first_run: FirstRun, tmp_path: Path) -> Iterator[Environment]:
    """Deployed and staged, the node is up."""
    with new_environment(*serving, tmp_path) as made:
        made.cloud.deploy()
        made.stage(first_run.contents)
        made.cloud.notifications()
        yield made


@pytest.fixture
def slots(env: Environment, tmp_path: Path) -> Iterator[Slots]:
    """Both servers run, and no client finds a winner."""
    with slots_of(env, tmp_path, selectors={WINNER_SERVICE: None}) as made:
        for name, count in made.replicas.items():
            if count:
                made.start(name)
        yield made


def probes(env: Environment) -> list[LiveProbe]:
    keys = sorted(key for key in env.keys("results") if key.startswith("live/"))
    return [load_record(LiveProbe, env.get("results", key)) for key in keys]


def test_it_is_looked_at_by_two_pods_and_goes_when_its_budget_is_spent(
    env: Environment, slots: Slots
) -> None:
    first = measure(env, slots, 1)
    eventually(lambda: probes(env) or first.process.poll() is not None)
    assert first.process.poll() is None, first.output

    # The run is over, the loser stopped, and clients find the winner.
    (key,) = env.keys("results", f"/{KEPT_FILE}")
    kept = load_record(KeptWinner, env.get("results", key))
    (run_key,) = env.keys("results", f"/{RUN_FILE}")
    assert run_key.split("/")[1] == kept.run_id
    assert {name for name, count in slots.replicas.items() if count} == {*kept.servers}
    selector = slots.selectors[WINNER_SERVICE]
    assert selector
    assert selector["app.kubernetes.io/instance"] in kept.servers
    env.cloud.events()
    assert env.cloud.desired_nodes == 1
    (told,) = env.cloud.notifications()
    assert "serving" in told
    assert kept.variant in told

    first.signal(signal.SIGTERM)
    assert first.wait() == EXIT_INTERRUPTED, first.output
    seen = len(probes(env))
    second = measure(env, slots, 2)
    assert second.wait() == EXIT_COMPLETE, second.output

    # The next pod measured nothing again, looked on, and left things as the deploy had them.
    assert env.keys("results", f"/{RUN_FILE}") == [run_key]
    looks = probes(env)
    assert len(looks) > seen
    assert [look.number for look in looks] == [*range(1, len(looks) + 1)]
    assert {look.variant for look in looks} == {kept.variant}
    selector = slots.selectors[WINNER_SERVICE]
    assert selector
    assert selector["app.kubernetes.io/instance"] == NO_SERVER
    assert sum(slots.replicas.values()) == len(env.experiment.variants)
    published = {e["key"] for e in env.cloud.publish() if e["event"] == "published"}
    assert {k for k in env.keys("results") if k.startswith("live/")} <= published

    # The Job says that it is over: the node goes, whatever is left of the controller's limits.
    env.cloud.heartbeat()
    assert env.cloud.desired_nodes == 0
    (told,) = env.cloud.notifications()
    assert "serving over" in told


def test_the_service_of_the_winner_is_the_one_that_the_job_may_change(env: Environment) -> None:
    """What the program asks for is what the role has."""
    (role,) = (o for o in env.cluster.of_kind("Role") if "scale" in o["metadata"]["name"])
    names = {json.dumps(rule["resourceNames"]) for rule in role["rules"]}
    assert json.dumps([WINNER_SERVICE]) in names
    own = [server_name(variant.slot) for variant in env.experiment.variants]
    assert any(set(own) <= set(json.loads(name)) for name in names)
