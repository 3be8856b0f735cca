"""A search whose likely graphs CPU nodes compile while another candidate is measured.

The load generator resumes their Jobs, the controller gives them nodes, the compile Jobs' pods leave
unproven graphs, and the candidates' servers load those: the real programs, as in
`test_compile_nodes.py` and `test_search.py`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from draftworth.measuring.job import EXIT_COMPLETE
from draftworth.records.codec import load_record
from draftworth.records.search import SEARCH_FILE, SearchResult
from draftworth.records.unproven_graphs import UNPROVEN_NAME, WANTED_KEY
from tests.end_to_end.conftest import (
    DRAFT,
    Environment,
    FirstRun,
    Synthesis,
    new_environment,
    synthesis_of,
)
from tests.end_to_end.pods import Pod
from tests.end_to_end.programs import compile_graph
from tests.end_to_end.slots import Slots, measure, slots_of
from tests.pods.compiled_graphs.pods import eventually
from tests.support.waiting import HANGS_AFTER_SECONDS

pytestmark = [pytest.mark.synth, pytest.mark.emulator]

# Asked for by hand; the other windows are the search's own.
FIRST, SECOND = "qwen3-1.7b-k7", "qwen3-1.7b-k3"
REQUESTS = 12
AHEAD = 2


@pytest.fixture(scope="module")
def searching(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    method = "fused_draft"
    by_hand = [
        {"name": name, "method": method, "draft": {"model": DRAFT}, "window": int(name[-1])}
        for name in (FIRST, SECOND)
    ]
    return synthesis_of(
        tmp_path_factory.mktemp("compile_ahead"),
        compile_where="cpu_nodes",
        requests=(REQUESTS, REQUESTS),
        variants=[{"name": "baseline", "method": "none"}, *by_hand],
        search={"method": method, "drafts": [{"model": DRAFT}], "windows": [3, 5, 7, 9, 11]},
    )


@dataclass(kw_only=True)
class SlotsAndJobs(Slots):
    """A candidate whose Job was resumed is not started before its graph is `compiled`."""

    resumed: list[str] = field(default_factory=list)
    compiled: threading.Event = field(default_factory=threading.Event)
    pods: dict[str, int] = field(default_factory=dict)

    def resume(self, path: str, body: dict[str, Any], authorization: str) -> tuple[int, bytes]:
        answer = super().resume(path, body, authorization)
        self.resumed.append(path.rpartition("/")[2])
        return answer

    def start(self, name: str) -> None:
        if self.resumed:
            self.compiled.wait(HANGS_AFTER_SECONDS)
        self.pods[self.variant_of(name)] = self.number
        super().start(name)

    def said(self, variant: str) -> str:
        """What the variant's last server did at its start."""
        return self.env.said(variant, self.pods[variant])


@pytest.fixture
def env(searching: Synthesis, first_run: FirstRun, tmp_path: Path) -> Iterator[Environment]:
    """Deployed and staged; what is certain is compiled, the graphs of another run are there."""
    with new_environment(*searching, tmp_path) as made:
        made.cloud.deploy()
        made.put("artifacts", first_run.contents["artifacts"])
        (certain,) = (p for p in made.compilers() if variant_of(p) == SECOND)
        assert compile_graph(made, certain).wait() == 0
        made.cloud.events()
        made.stage(first_run.contents)
        yield made


@pytest.fixture
def slots(env: Environment, tmp_path: Path) -> Iterator[SlotsAndJobs]:
    suspended = {pod.owner["metadata"]["name"]: True for pod in compilers(env).values()}
    assert len(suspended) == 3
    with slots_of(SlotsAndJobs, env, tmp_path, suspended=suspended) as made:
        for name, replicas in list(made.replicas.items()):
            if replicas:
                made.start(name)
        yield made


def compilers(env: Environment) -> dict[str, Pod]:
    """Of the likely candidates, by Job."""
    pods = (pod for pod in env.compilers() if pod.owner["spec"]["suspend"])
    return {pod.owner["metadata"]["name"]: pod for pod in pods}


def test_likely_graphs_are_compiled_meanwhile_and_loaded_by_the_candidates_servers(
    env: Environment, slots: SlotsAndJobs
) -> None:
    assert env.cloud.desired_of("compile") == 0
    process = measure(env, slots, 1)
    eventually(lambda: len(slots.resumed) == AHEAD or process.process.poll() is not None)
    assert process.process.poll() is None, process.output

    # The controller gives each a node, and takes it when they are over.
    env.wait_for("results", WANTED_KEY)
    eventually(lambda: len(wanted(env)) == AHEAD)
    env.cloud.events()
    assert env.cloud.desired_of("compile") == AHEAD
    pods = [pod for name, pod in compilers(env).items() if name in slots.resumed]
    assert [compile_graph(env, pod).wait() for pod in pods] == [0] * AHEAD
    env.cloud.events()
    assert env.cloud.desired_of("compile") == 0
    assert len(env.keys("artifacts", UNPROVEN_NAME)) == 1 + AHEAD
    assert env.cloud.desired_nodes == 1, "the search goes on"

    slots.compiled.set()
    assert process.wait() == EXIT_COMPLETE, process.output
    ahead = {variant_of(pod) for pod in pods}
    measured = {*order(env)}
    assert ahead & measured, "no graph was tried: the test would prove nothing"
    for variant in measured:
        loads = variant in {FIRST, SECOND, *ahead}
        assert slots.said(variant).startswith("loaded" if loads else "compiled"), variant


def variant_of(pod: Pod) -> str:
    template = pod.owner["spec"]["template"]
    return str(template["metadata"]["annotations"]["draftworth/variant"])


def wanted(env: Environment) -> dict[str, float]:
    return dict(json.loads(env.get("results", WANTED_KEY))["since_unix_s"])


def order(env: Environment) -> tuple[str, ...]:
    """The candidates that were measured."""
    (key,) = env.keys("results", SEARCH_FILE)
    return tuple(load_record(SearchResult, env.get("results", key)).order)
