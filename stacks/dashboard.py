"""The dashboard's body: the baseline beside speculation, one section a prompt class.

Plain data without CDK: what CloudWatch shows is read and tested as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
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

# A title and lines of metrics, as CloudWatch has them.
Graph = dict[str, Any]


def dashboard_body(
    experiment: ResolvedNeuron, *, cluster_name: str, dead_letter_queue_name: str
) -> dict[str, Any]:
    """The body of the experiment's dashboard, for `AWS::CloudWatch::Dashboard`."""
    classes = [c.name for c in experiment.spec.workload.classes]
    sections: dict[str, list[Graph]] = {
        **{f"Prompt class `{name}`": _comparisons(experiment, name) for name in classes},
        "Neuron devices": [
            _graph(title, [[INSIGHTS_NAMESPACE, name, "ClusterName", cluster_name, {"stat": stat}]])
            for title, name, stat in NEURON_GRAPHS
        ],
        "What went wrong": [
            _graph(
                metrics.ERRORS.title_and_unit,
                [
                    _line(metrics.ERRORS, "Sum", experiment.name, variant.name, name, label=name)
                    for name in classes
                    for variant in experiment.variants
                ],
            ),
            _graph(
                "Result files not published",
                [
                    [
                        *("AWS/SQS", "ApproximateNumberOfMessagesVisible"),
                        *("QueueName", dead_letter_queue_name, {"stat": "Maximum"}),
                    ]
                ],
            ),
        ],
    }
    widgets = _laid_out(sections, region=experiment.spec.aws.region)
    return {"start": "-PT6H", "periodOverride": "inherit", "widgets": list(widgets)}


def _comparisons(experiment: ResolvedNeuron, prompt_class: str) -> list[Graph]:
    """Each figure of every variant that has it, median and 90th percentile."""
    return [
        _graph(
            metric.title_and_unit,
            [
                _line(metric, stat, experiment.name, variant.name, prompt_class, label=stat)
                for variant in experiment.variants
                if not (metric.speculative_only and not variant.speculates)
                for stat in STATISTICS
            ],
        )
        for metric in metrics.published()
        if metric.better and metric is not metrics.ERRORS
    ]


def _graph(title: str, lines: list[list[Any]]) -> Graph:
    return {"title": title, "metrics": lines}


def _line(metric: Metric, stat: str, *dimensions: str, label: str) -> list[Any]:
    """One metric of one variant; its label begins with the variant."""
    pairs = zip(metrics.DIMENSIONS, dimensions, strict=True)
    flat = [text for pair in pairs for text in pair]
    shown = {"stat": stat, "label": f"{dimensions[1]} {label}"}
    return [metrics.NAMESPACE, metric.name, *flat, shown]


def _laid_out(sections: dict[str, list[Graph]], *, region: str) -> Iterator[dict[str, Any]]:
    """Sections from top to bottom, each a heading and rows of three graphs."""
    per_row = GRID_COLUMNS // GRAPH_WIDTH
    top = 0
    for title, graphs in sections.items():
        heading = {"width": GRID_COLUMNS, "height": TITLE_HEIGHT, "x": 0, "y": top}
        yield {"type": "text", **heading, "properties": {"markdown": f"## {title}"}}
        top += TITLE_HEIGHT
        for index, graph in enumerate(graphs):
            row, column = divmod(index, per_row)
            yield {
                "type": "metric",
                "x": column * GRAPH_WIDTH,
                "y": top + row * GRAPH_HEIGHT,
                "width": GRAPH_WIDTH,
                "height": GRAPH_HEIGHT,
                "properties": {
                    "view": "timeSeries",
                    "region": region,
                    "period": PERIOD_SECONDS,
                    "yAxis": {"left": {"min": 0}},
                    **graph,
                },
            }
        top += GRAPH_HEIGHT * -(-len(graphs) // per_row)
