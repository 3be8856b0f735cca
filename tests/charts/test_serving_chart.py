"""A search in the cluster: candidates that run in turn, each in a chart of its own."""

from itertools import chain
from pathlib import Path

import pytest

from charts.benchmark_charts import benchmark_charts, in_steps
from charts.names import server_name
from charts.serving_chart import CandidateChart
from stacks.constructs.applied_charts import EARLIER_MAX_EVENT_BYTES, update_event_bytes
from tests.charts.rendering import BINDINGS, Object, of_kind, rendered
from tests.support.experiments import resolved
from tests.support.snapshot import assert_snapshot

pytestmark = pytest.mark.synth

NAME = "qwen3-32b-search"
SNAPSHOTS = Path(__file__).parent / "snapshots"


def candidate_charts() -> dict[str, list[Object]]:
    charts = {id_: o for id_, o in rendered(NAME).items() if id_.startswith("candidate-")}
    assert len(charts) == 26
    return charts


def test_servers_are_the_reviewed_ones() -> None:
    """The snapshot has a line per server: chart, name, replicas, claim template, artifact key."""
    lines = []
    for chart, objects in rendered(NAME).items():
        for server in (item for item in objects if item["kind"] == "Deployment"):
            pod = server["spec"]["template"]["spec"]
            (claim,) = (c["resourceClaimTemplateName"] for c in pod["resourceClaims"])
            env = {e["name"]: e.get("value") for e in pod["containers"][0]["env"]}
            name, replicas = server["metadata"]["name"], server["spec"]["replicas"]
            lines.append(f"{chart} {name} {replicas} {claim} {env['ARTIFACT_KEY']}")
    assert_snapshot("\n".join([*lines, ""]), SNAPSHOTS / f"{NAME}.servers.txt")


def of_all() -> list[Object]:
    return of_kind("Deployment", NAME)


def test_a_candidates_server_is_called_by_its_slot() -> None:
    """In an experiment without a search, the same variant's server has another name."""
    (by_hand,) = (s for v in resolved().variants for s in v.slots if s.is_home and s.number == 1)
    server = f"slot1-{server_name(by_hand)}"
    assert server in [deployment["metadata"]["name"] for deployment in of_all()]
    assert server not in [server_name(s) for v in resolved().variants for s in v.slots]


def test_candidates_in_one_chart_exceed_an_update() -> None:
    together = [*chain.from_iterable(candidate_charts().values())]
    assert update_event_bytes(together) > 1.5 * EARLIER_MAX_EVENT_BYTES
    for objects in candidate_charts().values():
        assert update_event_bytes(objects) < EARLIER_MAX_EVENT_BYTES / 4


def test_candidates_are_applied_in_one_step() -> None:
    charts = benchmark_charts(resolved(NAME), BINDINGS)
    sizes = [len(step) for step in in_steps(charts)]
    assert sizes == [1, 1, 1, 1, 1, 26, 1, 1]
    assert [len(step) for step in in_steps(benchmark_charts(resolved(), BINDINGS))] == [1] * 7
    assert sum(isinstance(chart, CandidateChart) for chart in charts) == 26
