"""The dashboard's body: the baseline beside speculation, one section a prompt class.

Plain data without CDK: what CloudWatch shows is read and tested as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from draftworth.analysis import metrics
from draftworth.analysis.metrics import Metric
from draftworth.planning.resolved import ResolvedNeuron

GRID_COLUMNS = 24
GRAPH_WIDTH = 8
GRAPH_HEIGHT = 6
TITLE_HEIGHT = 1
PERIOD_SECONDS = 60
STATISTICS = ("p50", "p90")

INSIGHTS_NAMESPACE = "ContainerInsights"
# Title, metric, statistic; each of the node, with the cluster as its only dimension.
NEURON_GRAPHS = (
    ("NeuronCore utilisation (%)", "node_neuroncore_utilization", "Average"),
    ("NeuronCore memory (bytes)", "node_neuroncore_memory_usage_total", "Average"),
    ("Neuron execution errors", "node_neuron_execution_errors_total", "Sum"),
)

Widget = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Section:
    title: str
    graphs: tuple[dict[str, Any], ...]


def dashboard_body(
    experiment: ResolvedNeuron, *, cluster_name: str, dead_letter_queue_name: str
) -> dict[str, Any]:
    """The body of the experiment's dashboard, for `AWS::CloudWatch::Dashboard`."""
    sections = [
        *(_class_section(experiment, c.name) for c in experiment.spec.workload.classes),
        _neuron_section(cluster_name),
        _publishing_section(experiment, dead_letter_queue_name),
    ]
    widgets = _laid_out(sections, region=experiment.spec.aws.region)
    return {"start": "-PT6H", "periodOverride": "inherit", "widgets": list(widgets)}


def _class_section(experiment: ResolvedNeuron, prompt_class: str) -> _Section:
    shown = (m for m in metrics.published() if m.better and m is not metrics.ERRORS)
    graphs = tuple(_comparison(experiment, prompt_class, metric) for metric in shown)
    return _Section(title=f"Prompt class `{prompt_class}`", graphs=graphs)


def _comparison(experiment: ResolvedNeuron, prompt_class: str, metric: Metric) -> dict[str, Any]:
    """One figure of every variant that has it, median and 90th percentile."""
    lines = [
        _line(
            *(experiment.name, variant.name, prompt_class),
            metric=metric,
            stat=stat,
            label=f"{variant.name} {stat}",
        )
        for variant in experiment.variants
        if not (metric.speculative_only and variant.is_baseline)
        for stat in STATISTICS
    ]
    return {"title": metric.title_and_unit, "metrics": lines}


def _line(*dimensions: str, metric: Metric, stat: str, label: str) -> list[Any]:
    pairs = zip(metrics.DIMENSIONS, dimensions, strict=True)
    flat = [text for pair in pairs for text in pair]
    return [metrics.NAMESPACE, metric.name, *flat, {"stat": stat, "label": label}]


def _neuron_section(cluster_name: str) -> _Section:
    graphs = tuple(
        {
            "title": title,
            "metrics": [
                [INSIGHTS_NAMESPACE, metric, "ClusterName", cluster_name, {"stat": statistic}]
            ],
        }
        for title, metric, statistic in NEURON_GRAPHS
    )
    return _Section(title="Neuron devices", graphs=graphs)


def _publishing_section(experiment: ResolvedNeuron, dead_letter_queue_name: str) -> _Section:
    errors = [
        _line(
            *(experiment.name, variant.name, prompt_class.name),
            metric=metrics.ERRORS,
            stat="Sum",
            label=f"{variant.name} {prompt_class.name}",
        )
        for prompt_class in experiment.spec.workload.classes
        for variant in experiment.variants
    ]
    dead_letters = [
        "AWS/SQS",
        "ApproximateNumberOfMessagesVisible",
        "QueueName",
        dead_letter_queue_name,
        {"stat": "Maximum"},
    ]
    graphs = (
        {"title": metrics.ERRORS.title_and_unit, "metrics": errors},
        {"title": "Result files not published", "metrics": [dead_letters]},
    )
    return _Section(title="What went wrong", graphs=graphs)


def _laid_out(sections: list[_Section], *, region: str) -> Iterator[Widget]:
    """Sections from top to bottom, each a heading and rows of three graphs."""
    per_row = GRID_COLUMNS // GRAPH_WIDTH
    top = 0
    for section in sections:
        yield _widget(
            "text", 0, top, GRID_COLUMNS, TITLE_HEIGHT, {"markdown": f"## {section.title}"}
        )
        top += TITLE_HEIGHT
        for index, graph in enumerate(section.graphs):
            row, column = divmod(index, per_row)
            y = top + row * GRAPH_HEIGHT
            properties = {
                "view": "timeSeries",
                "region": region,
                "period": PERIOD_SECONDS,
                "yAxis": {"left": {"min": 0}},
                **graph,
            }
            yield _widget("metric", column * GRAPH_WIDTH, y, GRAPH_WIDTH, GRAPH_HEIGHT, properties)
        top += GRAPH_HEIGHT * -(-len(section.graphs) // per_row)


def _widget(
    kind: str, x: int, y: int, width: int, height: int, properties: dict[str, Any]
) -> Widget:
    return {
        "type": kind,
        "x": x,
        "y": y,
        "width": width,
        "height": height,
        "properties": properties,
    }
