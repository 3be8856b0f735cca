"""The dashboard: which metrics its graphs compare, its sections, pick lists and sizes."""

import functools
import json
from dataclasses import replace
from typing import Any, cast

import aws_cdk as cdk
import pytest
from aws_cdk import aws_cloudwatch, aws_logs, aws_sqs

from draftworth.metrics import definitions
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.load_shapes import ConcurrencyLoad, Load, PoissonLoad
from lambdas.metrics_publisher.handler import FINDINGS_FIELD, HEADLINE_FIELD
from stacks import dashboard
from stacks.dashboard_graphs import COST_RATIO_TITLE
from tests.stacks.rendering import metric_of
from tests.stacks.synthesis import benchmark, experiments, only

pytestmark = [pytest.mark.synth]
QUEUE_ARN = "arn:aws:sqs:us-east-2:123456789012:QUEUE"


def synthesized_widgets(name: str) -> list[dict[str, Any]]:
    """Return the widgets in an experiment's template, with `REF` for what CloudFormation fills."""
    properties = only(benchmark(name), "AWS::CloudWatch::Dashboard")["Properties"]
    _, parts = properties["DashboardBody"]["Fn::Join"]
    text = "".join(part if isinstance(part, str) else "REF" for part in parts)
    widgets: list[dict[str, Any]] = json.loads(text)["widgets"]
    assert widgets
    return widgets


@functools.cache
def body(name: str = "qwen3-32b") -> dict[str, Any]:
    """Return the body of the dashboard of an experiment that is synthesized; tests share it."""
    return body_of(experiments()[name])


@functools.cache
def body_with(*concurrencies: int, variants: int = 2) -> dict[str, Any]:
    """Return the body for qwen3-32b at other loads; tests share it.

    variants: 2 are those of qwen3-32b; otherwise they are `with_variants`.
    """
    experiment = with_loads(*ladder(*concurrencies))
    if variants != len(experiment.variants):
        experiment = with_variants(variants, experiment)
    return body_of(experiment)


def body_of(experiment: ResolvedNeuron) -> dict[str, Any]:
    """Return the body of an experiment's dashboard, as CloudWatch gets it."""
    environment = cdk.Environment(region=experiment.spec.aws.region)
    stack = cdk.Stack(cdk.App(analytics_reporting=False), "stack", env=environment)
    comparison = dashboard.ComparisonDashboard(
        stack,
        "Dashboard",
        experiment=experiment,
        dead_letters=aws_sqs.Queue.from_queue_arn(stack, "Queue", QUEUE_ARN),
        publisher_log=aws_logs.LogGroup.from_log_group_name(stack, "Log", "PUBLISHER-LOG"),
        runs_url="s3://R/runs/",
    )
    resource = cast(aws_cloudwatch.CfnDashboard, comparison.node.default_child)
    parsed: dict[str, Any] = json.loads(stack.resolve(resource.dashboard_body))
    return parsed


def graphs(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [w["properties"] for w in body["widgets"] if w["type"] == "metric"]


def metrics_in(*graphs: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the metrics of graphs, without math expressions."""
    lines = (line for graph in graphs for line in graph["metrics"])
    return [metric_of(line) for line in lines if "expression" not in line[-1]]


def project_metrics(*graphs: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the metrics of graphs that are in this project's CloudWatch namespace."""
    return [m for m in metrics_in(*graphs) if m["namespace"] == definitions.NAMESPACE]


def with_loads(*loads: Load) -> ResolvedNeuron:
    return replace(experiments()["qwen3-32b"], loads=loads)


def with_variants(count: int, experiment: ResolvedNeuron) -> ResolvedNeuron:
    """Return the experiment with `count` variants: the baseline and others that speculate."""
    plain, drafted = experiment.variants
    speculating = (
        replace(drafted, spec=drafted.spec.model_copy(update={"name": f"k{number}"}))
        for number in range(count - 1)
    )
    return replace(experiment, variants=(plain, *speculating))


def ladder(*concurrencies: int) -> list[Load]:
    return [ConcurrencyLoad(concurrency=n) for n in concurrencies]


def test_the_last_verdicts_are_a_log_query() -> None:
    (log_widget,) = [w for w in body()["widgets"] if w["type"] == "log"]
    query = log_widget["properties"]["query"]
    assert query.startswith("SOURCE 'PUBLISHER-LOG' | fields @timestamp, ")
    for field in (HEADLINE_FIELD, FINDINGS_FIELD):
        assert field in query
    assert f"ispresent({HEADLINE_FIELD})" in query


@pytest.mark.parametrize("prompt_class", ["structured", "open_ended"])
@pytest.mark.parametrize("load", ["c1", "c4"])
def test_a_graph_has_all_variants_of_a_traffic(prompt_class: str, load: str) -> None:
    statistics: dict[str, set[tuple[str, str]]] = {}
    for graph in graphs(body_with(1, 4)):
        metrics = project_metrics(graph)
        if {(m["PromptClass"], m["Load"]) for m in metrics} == {(prompt_class, load)}:
            of_graph = {(m["Variant"], m["stat"]) for m in metrics}
            assert statistics.setdefault(metrics[0]["name"], of_graph) == of_graph
    percentiles = {(v, s) for v in ("baseline", "qwen3-1.7b-k7") for s in ("p50", "p90")}
    for name in ("InterTokenLatency", "TTFT", "EndToEndLatency", "RequestOutputThroughput"):
        assert statistics[name] == percentiles
    of_blocks = {("baseline", "Average"), ("qwen3-1.7b-k7", "Average")}
    for name in ("OutputThroughput", "TokensPerStep"):
        assert statistics[name] == of_blocks
    assert statistics["AcceptanceRate"] == {("qwen3-1.7b-k7", "Average")}


def test_no_graph_of_a_comparison_mixes_loads() -> None:
    for graph in graphs(body_with(1, 2, 4)):
        loads = {metric["Load"] for metric in project_metrics(graph)}
        assert len(loads) <= 1 or graph["title"] == definitions.ERRORS.title_and_unit


def cost_ratios(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [graph for graph in graphs(body) if graph["title"] == COST_RATIO_TITLE]


def test_cost_ratio_is_baselines_throughput_over_variants() -> None:
    ratio_graphs = cost_ratios(body_with(1, 4))
    assert len(ratio_graphs) == 4  # two classes at two loads
    for graph in ratio_graphs:
        (ratio,) = (line[0] for line in graph["metrics"] if "expression" in line[0])
        hidden = {metric["id"]: metric for metric in metrics_in(graph)}
        above, below = (hidden[id_] for id_ in ratio["expression"].split(" / "))
        assert above["name"] == below["name"] == "OutputThroughput"
        assert (above["Variant"], below["Variant"]) == ("baseline", ratio["label"])
        assert all(metric["visible"] is False for metric in hidden.values())
        # The metric's period is the whole time range, because in a period of a minute there are
        # never blocks of both variants.
        assert (graph["view"], graph["setPeriodToTimeRange"]) == ("singleValue", True)
    assert "without an interval" in COST_RATIO_TITLE


@pytest.mark.parametrize("baseline_at", [0, 2])
def test_cost_ratios_of_several_variants_share_one_baseline(baseline_at: int) -> None:
    experiment = with_variants(3, with_loads(*ladder(1)))
    baseline, *speculating = experiment.variants
    variants = [*speculating[:baseline_at], baseline, *speculating[baseline_at:]]
    for graph in cost_ratios(body_of(replace(experiment, variants=tuple(variants)))):
        variant_of = {metric["id"]: metric["Variant"] for metric in metrics_in(graph)}
        assert sorted(variant_of.values()) == ["baseline", "k0", "k1"]
        ratios = [line[0] for line in graph["metrics"] if "expression" in line[0]]
        divided = {
            ratio["label"]: [variant_of[id_] for id_ in ratio["expression"].split(" / ")]
            for ratio in ratios
        }
        assert divided == {"k0": ["baseline", "k0"], "k1": ["baseline", "k1"]}


def verdicts(body: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the graphs of a verdict's cost ratios, {title: metrics}."""
    by_title = {graph["title"]: metrics_in(graph) for graph in graphs(body)}
    return {title: m for title, m in by_title.items() if m[0]["name"] == "CostRatio"}


def test_the_last_verdict_is_first_with_its_intervals() -> None:
    shown_body = body_with(1, 4)
    verdict_graphs = verdicts(shown_body)
    assert list(verdict_graphs) == [
        *("traffic mix at c1", "traffic mix at c4"),
        *("structured at c1", "structured at c4", "open_ended at c1", "open_ended at c4"),
    ]
    for metrics in verdict_graphs.values():
        assert [m["name"] for m in metrics] == ["CostRatio", "CostRatioLow", "CostRatioHigh"]
        assert {metric["Variant"] for metric in metrics} == {"qwen3-1.7b-k7"}
    first = graphs(shown_body)[0]
    assert (first["title"], first["view"]) == ("traffic mix at c1", "singleValue")


def test_no_cost_ratio_where_requests_arrive_at_rates() -> None:
    at_a_rate = body_of(with_loads(PoissonLoad(requests_per_second=2.5)))
    assert cost_ratios(at_a_rate) == []
    assert verdicts(at_a_rate) == {}
    assert "cost ratio of a section" not in at_a_rate["widgets"][0]["properties"]["markdown"]
    assert "p2.5" in {metric["Load"] for metric in project_metrics(*graphs(at_a_rate))}


@pytest.mark.parametrize(
    ("variants", "loads", "picked"),
    [
        (2, (1, 4), []),
        (2, tuple(range(1, 8)), []),
        (2, tuple(range(1, 17)), ["Load"]),
        (20, tuple(range(1, 17)), ["PromptClass", "Load"]),
        (100, tuple(range(1, 17)), ["PromptClass", "Load"]),
        (25, (4,), ["PromptClass"]),  # with a single load there is no list of loads
    ],
)
def test_every_dashboard_keeps_cloudwatchs_limits(
    variants: int, loads: tuple[int, ...], picked: list[str]
) -> None:
    large = body_with(*loads, variants=variants)
    assert [variable["property"] for variable in large.get("variables", [])] == picked
    sizes = [len(metrics_in(graph)) for graph in graphs(large)]
    assert len(large["widgets"]) <= 500
    assert max(sizes) <= 500
    assert sum(sizes) <= (dashboard.MAX_METRICS if variants < 100 else 2500)


def test_one_metric_above_the_limit_takes_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = with_loads(*ladder(1, 4))
    metrics = len(metrics_in(*graphs(body_of(experiment))))
    monkeypatch.setattr(dashboard, "MAX_METRICS", metrics)
    assert "variables" not in body_of(experiment)
    monkeypatch.setattr(dashboard, "MAX_METRICS", metrics - 1)
    assert [v["property"] for v in body_of(experiment)["variables"]] == ["Load"]


def test_a_pick_list_begins_with_what_is_shown() -> None:
    picked_body = body_with(*range(1, 17), variants=20)
    lists = {variable["property"]: variable for variable in picked_body["variables"]}
    assert [v["value"] for v in lists["Load"]["values"]] == [f"c{n}" for n in range(1, 17)]
    metrics = project_metrics(*graphs(picked_body))
    assert {(m["PromptClass"], m["Load"]) for m in metrics} == {("structured", "c1")}
    for variable, value in (("PromptClass", "structured"), ("Load", "c1")):
        assert lists[variable]["defaultValue"] == value
        assert (lists[variable]["type"], lists[variable]["inputType"]) == ("property", "select")
    headings = [w["properties"]["markdown"] for w in picked_body["widgets"] if w["type"] == "text"]
    assert headings[1:3] == [
        f"## {dashboard.VERDICT_SECTION}",
        "## Picked prompt class at the picked load",
    ]


def test_every_line_of_a_graph_has_a_label() -> None:
    for loads in ((1, 4), tuple(range(1, 17))):
        for graph in graphs(body_with(*loads)):
            metrics = project_metrics(graph)
            labels = [metric["label"] for metric in metrics if metric.get("visible", True)]
            assert len(labels) == len(set(labels))


def test_dashboard_uses_metrics_that_the_publisher_writes() -> None:
    published = {m.name for m in (*definitions.published(), *definitions.FINDING_METRICS)}
    metrics = project_metrics(*graphs(body()))
    assert {metric["name"] for metric in metrics} <= published
    assert all(set(definitions.DIMENSIONS) <= set(metric) for metric in metrics)


def test_a_point_of_a_graph_is_a_minute() -> None:
    """A metric with a period of its own would override its graph's."""
    for graph in graphs(body()):
        assert graph["period"] == 60
        assert not [metric for metric in metrics_in(graph) if "period" in metric]


@pytest.mark.parametrize("name", tuple(experiments()))
def test_no_two_widgets_of_the_dashboard_overlap(name: str) -> None:
    cells = [
        (x, y)
        for w in synthesized_widgets(name)
        for x in range(w["x"], w["x"] + w["width"])
        for y in range(w["y"], w["y"] + w["height"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < dashboard.GRID_COLUMNS
