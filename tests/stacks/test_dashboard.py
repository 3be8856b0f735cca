"""The dashboard: what stands beside what, and what it says of itself."""

from dataclasses import replace
from typing import Any

import pytest

from draftworth.metrics import definitions
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.load_shapes import ConcurrencyLoad, Load, PoissonLoad
from lambdas.metrics_publisher.handler import FINDINGS_FIELD, HEADLINE_FIELD
from stacks import dashboard
from tests.stacks.synthesis import experiments

pytestmark = [pytest.mark.synth]


def body(name: str = "qwen3-32b") -> dict[str, Any]:
    return body_of(experiments()[name])


def body_of(experiment: ResolvedNeuron) -> dict[str, Any]:
    return dashboard.dashboard_body(
        experiment,
        cluster_name="CLUSTER",
        dead_letter_queue_name="QUEUE",
        publisher_log_group_name="PUBLISHER-LOG",
        runs_url="s3://R/runs/",
    )


def test_the_last_verdicts_stand_there_in_words_from_the_publishers_log() -> None:
    (words,) = [w for w in body()["widgets"] if w["type"] == "log"]
    query = words["properties"]["query"]
    assert query.startswith("SOURCE 'PUBLISHER-LOG' | fields @timestamp, ")
    for field in (HEADLINE_FIELD, FINDINGS_FIELD):
        assert field in query
    assert f"ispresent({HEADLINE_FIELD})" in query


def graphs(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [w["properties"] for w in body["widgets"] if w["type"] == "metric"]


def ours(body: dict[str, Any]) -> list[list[Any]]:
    """The lines of the dashboard that show this project's metrics."""
    lines = (line for graph in graphs(body) for line in graph["metrics"])
    return [line for line in lines if line[0] == definitions.NAMESPACE]


def with_loads(*loads: Load) -> ResolvedNeuron:
    return replace(experiments()["qwen3-32b"], loads=loads)


def with_variants(count: int, experiment: ResolvedNeuron) -> ResolvedNeuron:
    """The baseline and so many others, each speculating."""
    plain, drafted = experiment.variants
    others = (
        replace(drafted, spec=drafted.spec.model_copy(update={"name": f"k{number}"}))
        for number in range(count - 1)
    )
    return replace(experiment, variants=(plain, *others))


def ladder(*concurrencies: int) -> list[Load]:
    return [ConcurrencyLoad(concurrency=n) for n in concurrencies]


@pytest.mark.parametrize("prompt_class", ["structured", "open_ended"])
@pytest.mark.parametrize("load", ["c1", "c4"])
def test_dashboard_shows_every_variant_of_a_class_and_load_in_one_graph(
    prompt_class: str, load: str
) -> None:
    shown: dict[str, set[tuple[str, str]]] = {}
    for graph in graphs(body_of(with_loads(*ladder(1, 4)))):
        lines = [line for line in graph["metrics"] if line[0] == definitions.NAMESPACE]
        if {(line[7], line[9]) for line in lines} == {(prompt_class, load)}:
            of_graph = {(line[5], line[-1]["stat"]) for line in lines}
            assert shown.setdefault(lines[0][1], of_graph) == of_graph
    both = {(v, s) for v in ("baseline", "qwen3-1.7b-k7") for s in ("p50", "p90")}
    for name in ("InterTokenLatency", "TTFT", "EndToEndLatency", "RequestOutputThroughput"):
        assert shown[name] == both
    of_blocks = {("baseline", "Average"), ("qwen3-1.7b-k7", "Average")}
    for name in ("OutputThroughput", "TokensPerStep"):
        assert shown[name] == of_blocks
    assert shown["AcceptanceRate"] == {("qwen3-1.7b-k7", "Average")}


def test_no_graph_of_a_comparison_mixes_loads() -> None:
    for graph in graphs(body_of(with_loads(*ladder(1, 2, 4)))):
        loads = {line[9] for line in graph["metrics"] if line[0] == definitions.NAMESPACE}
        assert len(loads) <= 1 or graph["title"] == definitions.ERRORS.title_and_unit


def cost_ratios(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [graph for graph in graphs(body) if graph["title"] == dashboard.COST_RATIO_TITLE]


def test_a_cost_ratio_is_the_baselines_throughput_over_a_variants() -> None:
    found = cost_ratios(body_of(with_loads(*ladder(1, 4))))
    assert len(found) == 4  # two classes at two loads
    for graph in found:
        (ratio,) = (line[0] for line in graph["metrics"] if isinstance(line[0], dict))
        hidden = {m[-1]["id"]: m for m in graph["metrics"] if m[0] == definitions.NAMESPACE}
        above, below = (hidden[name] for name in ratio["expression"].split(" / "))
        assert (above[1], above[5], below[5]) == ("OutputThroughput", "baseline", ratio["label"])
        assert all(m[-1]["visible"] is False for m in hidden.values())
        # A period that is the whole range: blocks of two variants never end in one minute.
        assert (graph["view"], graph["setPeriodToTimeRange"]) == ("singleValue", True)
    assert "without an interval" in dashboard.COST_RATIO_TITLE


def verdicts(body: dict[str, Any]) -> dict[str, list[list[Any]]]:
    """Lines of the cost ratios that a verdict has, by title."""
    return {
        graph["title"]: graph["metrics"]
        for graph in graphs(body)
        if graph["metrics"][0][1:2] == ["CostRatio"]
    }


def test_the_last_verdict_stands_first_with_both_ends_of_its_intervals() -> None:
    shown = body_of(with_loads(*ladder(1, 4)))
    found = verdicts(shown)
    assert list(found) == [
        *("traffic mix at c1", "traffic mix at c4"),
        *("structured at c1", "structured at c4", "open_ended at c1", "open_ended at c4"),
    ]
    for lines in found.values():
        assert [line[1] for line in lines] == ["CostRatio", "CostRatioLow", "CostRatioHigh"]
        assert {line[5] for line in lines} == {"qwen3-1.7b-k7"}
    first = next(w for w in shown["widgets"] if w["type"] == "metric")
    assert first["properties"]["title"] == "traffic mix at c1"
    assert first["properties"]["view"] == "singleValue"


def test_there_is_no_cost_ratio_where_requests_arrive_at_a_rate() -> None:
    rates = body_of(with_loads(PoissonLoad(requests_per_second=2.5)))
    assert cost_ratios(rates) == []
    assert verdicts(rates) == {}
    assert "cost ratio of a section" not in rates["widgets"][0]["properties"]["markdown"]
    assert "p2.5" in {line[9] for line in ours(rates)}


@pytest.mark.parametrize(
    ("variants", "loads", "picked"),
    [
        (2, (1, 4), []),
        (2, tuple(range(1, 8)), []),
        (2, tuple(range(1, 17)), ["Load"]),
        (20, tuple(range(1, 17)), ["PromptClass", "Load"]),
        (100, tuple(range(1, 17)), ["PromptClass", "Load"]),
        (25, (4,), ["PromptClass"]),  # nothing to pick from one load
    ],
)
def test_a_dashboard_keeps_cloudwatchs_limits_however_many_loads_and_variants(
    variants: int, loads: tuple[int, ...], picked: list[str]
) -> None:
    shown = body_of(with_variants(variants, with_loads(*ladder(*loads))))
    assert [variable["property"] for variable in shown.get("variables", [])] == picked
    sizes = [sum(isinstance(m[0], str) for m in graph["metrics"]) for graph in graphs(shown)]
    assert len(shown["widgets"]) <= 500
    assert max(sizes) <= 500
    assert sum(sizes) <= (dashboard.MAX_METRICS if variants < 100 else 2500)


def test_a_pick_list_has_every_value_and_begins_with_the_one_that_is_shown() -> None:
    shown = body_of(with_variants(20, with_loads(*ladder(*range(1, 17)))))
    lists = {variable["property"]: variable for variable in shown["variables"]}
    assert [v["value"] for v in lists["Load"]["values"]] == [f"c{n}" for n in range(1, 17)]
    assert {(line[7], line[9]) for line in ours(shown)} == {("structured", "c1")}
    for variable, value in (("PromptClass", "structured"), ("Load", "c1")):
        assert lists[variable]["defaultValue"] == value
    headings = [w["properties"]["markdown"] for w in shown["widgets"] if w["type"] == "text"]
    assert headings[1:3] == [
        f"## {dashboard.VERDICT_SECTION}",
        "## Picked prompt class at the picked load",
    ]


def test_every_line_of_a_graph_has_a_label_of_its_own() -> None:
    for loads in ((1, 4), tuple(range(1, 17))):
        for graph in graphs(body_of(with_loads(*ladder(*loads)))):
            labels = [
                m[-1]["label"] for m in graph["metrics"] if m[-1].get("visible", "label" in m[-1])
            ]
            assert len(labels) == len(set(labels))


def test_dashboard_uses_metrics_that_the_publisher_writes() -> None:
    known = {metric.name for metric in (*definitions.published(), *definitions.FINDING_METRICS)}
    lines = ours(body())
    assert {line[1] for line in lines} <= known
    assert all(tuple(line[2:-1:2]) == definitions.DIMENSIONS for line in lines)


@pytest.mark.parametrize("name", tuple(experiments()))
def test_no_two_widgets_of_the_dashboard_overlap(name: str) -> None:
    cells = [
        (x, y)
        for w in body(name)["widgets"]
        for x in range(w["x"], w["x"] + w["width"])
        for y in range(w["y"], w["y"] + w["height"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < dashboard.GRID_COLUMNS
