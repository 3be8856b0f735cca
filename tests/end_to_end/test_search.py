"""A search from its first candidate to its end, with what may be lost on the way.

Deployments are scaled through a stand-in for the Kubernetes API, which starts and ends the servers.
"""

import json
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from charts.names import server_name
from draftworth.measuring.run_specification import EXIT_COMPLETE, EXIT_INTERRUPTED
from draftworth.records.codec import load_record
from draftworth.records.results import BlockResult, RunResult
from draftworth.records.search import SEARCH_FILE, SearchResult
from tests.end_to_end import conftest
from tests.end_to_end.pods import Process
from tests.end_to_end.test_scenarios import blocks
from tests.pods.compiled_graphs.pods import eventually
from tests.pods.measuring.stand_in_kubernetes import StandInKubernetes, stand_in_kubernetes

pytestmark = [pytest.mark.synth, pytest.mark.emulator, pytest.mark.scenarios]

# Asked for by hand, in this order, whatever they show; the window of 9 is the search's own.
FIRST, SECOND, THIRD = "qwen3-1.7b-k7", "qwen3-1.7b-k3", "qwen3-1.7b-k5"
REQUESTS = 12


@pytest.fixture(scope="module")
def searching(tmp_path_factory: pytest.TempPathFactory) -> conftest.Synthesis:
    method = "fused_draft"
    by_hand = [
        {
            "name": name,
            "method": method,
            "draft": {"model": conftest.DRAFT},
            "window": int(name[-1]),
        }
        for name in (FIRST, SECOND, THIRD)
    ]
    return conftest.synthesis_of(
        tmp_path_factory.mktemp("search"),
        requests=(REQUESTS, REQUESTS),
        variants=[{"name": "baseline", "method": "none"}, *by_hand],
        search={"method": method, "drafts": [{"model": conftest.DRAFT}], "windows": [3, 5, 7, 9]},
    )


@pytest.fixture
def env(searching: conftest.Synthesis, tmp_path: Path) -> Iterator[conftest.Environment]:
    with conftest.new_environment(*searching, tmp_path) as made:
        made.cloud.deploy()
        yield made


@dataclass(kw_only=True)
class Slots(StandInKubernetes):
    """Deployments whose replicas are servers that run here. number: of their next pods."""

    env: conftest.Environment
    number: int = 1
    running: dict[str, Process] = field(default_factory=dict)

    def scale(self, name: str, replicas: int) -> dict[str, Any]:
        was = self.replicas[name]
        answer = super().scale(name, replicas)
        if replicas and not was:
            self.start(name)
        if was and not replicas:
            self.running.pop(name).end()
        return answer

    def start(self, name: str) -> None:
        pod = self.env.server(self.variant_of(name), self.number)
        self.number += 1
        self.running[name] = self.env.start(pod, "vllm", SAID=str(pod.folder / "said"))

    def variant_of(self, name: str) -> str:
        variants = self.env.experiment.variants
        (found,) = (variant.name for variant in variants if server_name(variant.slot) == name)
        return found

    def lose_node(self) -> None:
        """Every server goes; Kubernetes makes other pods of those that should run."""
        self.env.lose_servers()
        self.running.clear()
        for name, replicas in self.replicas.items():
            if replicas:
                self.start(name)


@pytest.fixture
def slots(env: conftest.Environment, tmp_path: Path) -> Iterator[Slots]:
    """As a deploy leaves them: the baseline and the first candidate run."""
    folder = tmp_path / "kubernetes"
    folder.mkdir()
    deployments = env.cluster.of_kind("Deployment")
    replicas = {d["metadata"]["name"]: d["spec"]["replicas"] for d in deployments}
    made = Slots(replicas=replicas, env=env)
    with stand_in_kubernetes(folder, made):
        assert sum(made.replicas.values()) == 2
        yield made


def measure(env: conftest.Environment, slots: Slots, number: int) -> Process:
    at = urlsplit(slots.url)
    return env.start(
        env.measurer(number),
        "llmperf",
        KUBERNETES_SERVICE_HOST=str(at.hostname),
        KUBERNETES_SERVICE_PORT=str(at.port),
        POD_FOLDER=str(slots.folder),
    )


def wait_for_candidate(env: conftest.Environment, process: Process, variant: str) -> None:
    eventually(
        lambda: (
            any(block.variant == variant for block in blocks(env))
            or process.process.poll() is not None
        )
    )
    assert process.process.poll() is None, process.output


def test_a_search_loses_its_pod_and_its_node_and_goes_on_with_the_candidate_it_was_at(
    env: conftest.Environment, slots: Slots, first_run: conftest.FirstRun
) -> None:
    env.stage(first_run.contents)
    for name, replicas in list(slots.replicas.items()):
        if replicas:
            slots.start(name)

    first = measure(env, slots, 1)
    wait_for_candidate(env, first, SECOND)
    first.signal(signal.SIGTERM)
    assert first.wait() == EXIT_INTERRUPTED, first.output
    assert env.cloud.desired_nodes == 1

    before, asked = blocks(env), len(slots.asked)
    second = measure(env, slots, 2)
    eventually(lambda: len(blocks(env)) > len(before) or second.process.poll() is not None)
    slots.lose_node()
    env.wait_for("results", "/interrupted/")
    assert second.wait() == EXIT_COMPLETE, second.output

    # It began with the candidate that the first pod was at, and the baseline stayed up.
    later = slots.asked[asked:]
    started = [name for name, replicas in later if replicas]
    own = {v.name: server_name(v.slot) for v in env.experiment.variants}
    assert set(started[:2]) == {own["baseline"], own[SECOND]}
    assert (own["baseline"], 0) not in slots.asked
    # And ended as the deploy had it.
    assert {n for n, r in slots.replicas.items() if r} == {own["baseline"], own[FIRST]}
    check_result(env, before)


def check_result(env: conftest.Environment, before: list[BlockResult]) -> None:
    """Every block once, the search's own file, and no node any more."""
    (key,) = env.keys("results", "/run.json")
    run = load_record(RunResult, env.get("results", key))
    assert (run.status, run.reason, run.shortened) == ("complete", "", "")
    assert run.interruptions
    measured = blocks(env)
    assert {b.stem for b in before} <= {b.stem for b in measured}
    places = Counter((b.case, b.variant, b.round) for b in measured)
    assert set(places.values()) == {1}
    (found_key,) = env.keys("results", SEARCH_FILE)
    found = load_record(SearchResult, env.get("results", found_key))
    assert found.order[:3] == (FIRST, SECOND, THIRD)
    assert found.ended
    told = json.loads(env.get("results", found_key))
    assert told["run_id"] == run.run_id
    env.cloud.events()
    assert env.cloud.desired_nodes == 0
    env.cloud.nodes_follow()
    assert env.cloud.instances == 0
