"""The dashboard's body compares the baseline with speculation for each prompt class and load.

It is plain data without CDK, as CloudWatch gets it. If there would be more metrics than
`MAX_METRICS`, there are fewer sections, and the user picks the load (and class) from a list.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from draftworth.analysis.pairing import TRAFFIC_MIX
from draftworth.metrics import definitions
from draftworth.metrics.definitions import Metric
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.load_shapes import Load

GRID_COLUMNS = 24
GRAPH_WIDTH = 8
GRAPH_HEIGHT = 6
TITLE_HEIGHT = 1
GUIDE_HEIGHT = 4
WORDS_HEIGHT = 4
PERIOD_SECONDS = 60
STATISTICS = ("p50", "p90")
# CloudWatch's quotas: 500 widgets per dashboard, 500 metrics per widget and 2,500 per dashboard,
# including hidden metrics. 500 metrics in all are within the quotas, and people can still read the
# page. A single section may have more: 1,500 with 100 variants, the maximum.
MAX_METRICS = 500

INSIGHTS_NAMESPACE = "ContainerInsights"
# (title, metric, statistic) of node metrics, whose only dimension here is the cluster's name.
NEURON_GRAPHS = (
    ("NeuronCore utilisation (%)", "node_neuroncore_utilization", "Average"),
    ("NeuronCore memory (bytes)", "node_neuroncore_memory_usage_total", "Average"),
    ("Neuron execution errors", "node_neuron_execution_errors_total", "Sum"),
)
COST_RATIO_TITLE = "Cost ratio so far = baseline's throughput / variant's, without an interval"
WORDS_TITLE = "The last verdicts, in words: what a token costs, and what a million of them does"
VERDICT_SECTION = "What a token costs with speculation / without: the last complete run's verdict"
GUIDE = """\
**Does speculation pay?** When a run is complete its cost ratios are here with their 95% \
intervals, for your traffic and by class, and its verdict in words. What to know before \
believing it is in the mail and the report: `draftworth report {runs_url}RUN` prints \
it; `aws s3 ls {runs_url}` lists the runs.

Here variants stand side by side, each section one prompt class at one load (`c4`: four requests \
in flight; `p2.5`: 2.5 requests a second, at random times). {cost_ratio}"""
COST_RATIO_GUIDE = (
    "The cost ratio of a section is of the mean throughputs of all blocks in the time range above, "
    "whichever runs and cases they are of, for while a run measures: below 1 the variant is "
    "cheaper per token, without an interval a hint and no verdict."
)

# The `properties` of a CloudWatch metric widget: title, view, metrics.
Graph = dict[str, Any]
Sections = Mapping[str, list[Graph]]
# In each row, the dimensions with a selection list; the first row within `MAX_METRICS` is used.
PICKED: tuple[tuple[str, ...], ...] = ((), ("Load",), ("PromptClass", "Load"))


def dashboard_body(
    experiment: ResolvedNeuron,
    *,
    cluster_name: str,
    dead_letter_queue_name: str,
    publisher_log_group_name: str,
    runs_url: str,
) -> dict[str, Any]:
    """Return the body of the experiment's dashboard, for `AWS::CloudWatch::Dashboard`."""
    picked, sections = _sections_that_fit(
        experiment, _neuron_graphs(cluster_name), _not_published(dead_letter_queue_name)
    )
    variables = {"variables": [*_pick_lists(experiment, picked)]} if picked else {}
    return {
        "start": "-PT6H",
        "periodOverride": "inherit",
        **variables,
        "widgets": [
            _guide(experiment, runs_url),
            _words(publisher_log_group_name, region=experiment.spec.aws.region),
            *_laid_out(sections, region=experiment.spec.aws.region),
        ],
    }


def _sections_that_fit(
    experiment: ResolvedNeuron, neuron: list[Graph], not_published: Graph
) -> tuple[tuple[str, ...], Sections]:
    """Return the dimensions whose value the user picks from a list, and each section's graphs."""
    values = _values(experiment)
    for dimensions in PICKED:
        picked = tuple(name for name in dimensions if len(values[name]) > 1)
        verdict = [*_verdict(experiment, picked)]
        sections = {
            **({VERDICT_SECTION: verdict} if verdict else {}),
            **{
                _heading(f"Prompt class `{name}`", load, picked): [
                    *_comparisons(experiment, name, load)
                ]
                for name, load in _shown(experiment, picked)
            },
            "Neuron devices": neuron,
            "What went wrong": [_errors(experiment, picked), not_published],
        }
        graphs = (graph for graphs in sections.values() for graph in graphs)
        if sum(map(_metric_count, graphs)) <= MAX_METRICS:
            break
    return picked, sections


def _values(experiment: ResolvedNeuron) -> dict[str, list[str]]:
    return {
        "PromptClass": [c.name for c in experiment.spec.workload.classes],
        "Load": [load.label for load in experiment.loads],
    }


def _metric_count(graph: Graph) -> int:
    return sum(isinstance(line[0], str) for line in graph["metrics"])


def _shown(experiment: ResolvedNeuron, picked: tuple[str, ...]) -> Iterator[tuple[str, Load]]:
    """Return each section's (class, load); for a dimension that is picked, only its first value."""
    classes = [c.name for c in experiment.spec.workload.classes]
    return product(
        classes[:1] if "PromptClass" in picked else classes,
        experiment.loads[:1] if "Load" in picked else experiment.loads,
    )


def _heading(prompt_class: str, load: Load, picked: tuple[str, ...]) -> str:
    named = "Picked prompt class" if "PromptClass" in picked else prompt_class
    return f"{named} at {'the picked load' if 'Load' in picked else load.label}"


def _pick_lists(experiment: ResolvedNeuron, picked: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yield a drop-down list of each dimension's values; all widgets show the selected value."""
    for dimension in picked:
        values = _values(experiment)[dimension]
        yield {
            "type": "property",
            "property": dimension,
            "inputType": "select",
            "id": dimension,
            "label": dimension,
            "defaultValue": values[0],
            "visible": True,
            "values": [{"label": value, "value": value} for value in values],
        }


def _comparisons(experiment: ResolvedNeuron, prompt_class: str, load: Load) -> Iterator[Graph]:
    for metric in definitions.published():
        if not metric.better or metric is definitions.ERRORS:
            continue
        lines = [
            _line(metric, stat, experiment.name, v.name, prompt_class, load.label, label=stat)
            for v in experiment.variants
            if not (metric.speculative_only and not v.speculates)
            # A metric without `of_request` has one value per block, so only its average is shown.
            for stat in (STATISTICS if metric.of_request else ("Average",))
        ]
        yield _graph(metric.title_and_unit, lines)
        if metric is definitions.OUTPUT_THROUGHPUT and load.has_cost_per_token:
            yield _cost_ratios(experiment, prompt_class, load)


def _verdict(experiment: ResolvedNeuron, picked: tuple[str, ...]) -> Iterator[Graph]:
    for name, load in _traffics(experiment, picked):
        lines = [
            _line(metric, "Average", experiment.name, variant.name, name, load.label, label=label)
            for variant in experiment.variants
            if not variant.is_baseline
            for metric, label in zip(definitions.FINDING_METRICS, ("", "low", "high"), strict=True)
        ]
        title = _heading(name, load, picked)
        yield {"title": title, "view": "singleValue", "metrics": lines}


def _traffics(experiment: ResolvedNeuron, picked: tuple[str, ...]) -> Iterator[tuple[str, Load]]:
    shown = _shown(experiment, picked)
    with_cost = [(name, load) for name, load in shown if load.has_cost_per_token]
    if len(experiment.spec.workload.classes) > 1 and "PromptClass" not in picked:
        yield from ((TRAFFIC_MIX, load) for load in dict.fromkeys(load for _, load in with_cost))
    yield from with_cost


def _cost_ratios(experiment: ResolvedNeuron, prompt_class: str, load: Load) -> Graph:
    # The ratio is for the whole time range, as blocks of two variants end in different minutes.
    variants = experiment.variants
    (baseline,) = (index for index, variant in enumerate(variants) if variant.is_baseline)
    throughputs, ratios = [], []
    for index, variant in enumerate(variants):
        names = (experiment.name, variant.name, prompt_class, load.label)
        line = _line(definitions.OUTPUT_THROUGHPUT, "Average", *names, label="")
        line[-1] |= {"id": f"throughput{index}", "visible": False}
        throughputs.append(line)
        if index != baseline:
            formula = f"throughput{baseline} / throughput{index}"
            ratios.append([{"expression": formula, "id": f"ratio{index}", "label": variant.name}])
    return {
        "title": COST_RATIO_TITLE,
        "view": "singleValue",
        "setPeriodToTimeRange": True,
        "metrics": [*ratios, *throughputs],
    }


def _errors(experiment: ResolvedNeuron, picked: tuple[str, ...]) -> Graph:
    lines = []
    for name, load in _shown(experiment, picked):
        values = {"PromptClass": name, "Load": load.label}
        label = " ".join(value for key, value in values.items() if key not in picked)
        for variant in experiment.variants:
            names = (experiment.name, variant.name, name, load.label)
            lines.append(_line(definitions.ERRORS, "Sum", *names, label=label))
    return _graph(definitions.ERRORS.title_and_unit, lines)


def _neuron_graphs(cluster_name: str) -> list[Graph]:
    return [
        _graph(title, [[INSIGHTS_NAMESPACE, name, "ClusterName", cluster_name, {"stat": stat}]])
        for title, name, stat in NEURON_GRAPHS
    ]


def _not_published(dead_letter_queue_name: str) -> Graph:
    line = ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", dead_letter_queue_name]
    return _graph("Result files not published", [[*line, {"stat": "Maximum"}]])


def _graph(title: str, lines: list[list[Any]]) -> Graph:
    axis = {"left": {"min": 0}}
    return {"title": title, "view": "timeSeries", "yAxis": axis, "metrics": lines}


def _line(metric: Metric, stat: str, *dimensions: str, label: str) -> list[Any]:
    pairs = zip(definitions.DIMENSIONS, dimensions, strict=True)
    flat = [text for pair in pairs for text in pair]
    shown = {"stat": stat, "label": f"{dimensions[1]} {label}".strip()}
    return [definitions.NAMESPACE, metric.name, *flat, shown]


def _guide(experiment: ResolvedNeuron, runs_url: str) -> dict[str, Any]:
    has_cost = all(load.has_cost_per_token for load in experiment.loads)
    text = GUIDE.format(runs_url=runs_url, cost_ratio=COST_RATIO_GUIDE if has_cost else "")
    return _wide("text", 0, GUIDE_HEIGHT, {"markdown": text.strip()})


def _wide(kind: str, top: int, height: int, properties: dict[str, Any]) -> dict[str, Any]:
    place = {"width": GRID_COLUMNS, "height": height, "x": 0, "y": top}
    return {"type": kind, **place, "properties": properties}


def _words(log_group_name: str, *, region: str) -> dict[str, Any]:
    # A log query shows the latest verdicts; a text widget would need a function to update it.
    query = (
        f"SOURCE '{log_group_name}' | fields @timestamp, verdict, findings "
        "| filter ispresent(verdict) | sort @timestamp desc | limit 3"
    )
    shown = {"query": query, "title": WORDS_TITLE, "region": region, "view": "table"}
    return _wide("log", GUIDE_HEIGHT, WORDS_HEIGHT, shown)


def _laid_out(sections: Sections, *, region: str) -> Iterator[dict[str, Any]]:
    per_row = GRID_COLUMNS // GRAPH_WIDTH
    top = GUIDE_HEIGHT + WORDS_HEIGHT
    for title, graphs in sections.items():
        yield _wide("text", top, TITLE_HEIGHT, {"markdown": f"## {title}"})
        top += TITLE_HEIGHT
        for index, graph in enumerate(graphs):
            row, column = divmod(index, per_row)
            yield {
                "type": "metric",
                "x": column * GRAPH_WIDTH,
                "y": top + row * GRAPH_HEIGHT,
                "width": GRAPH_WIDTH,
                "height": GRAPH_HEIGHT,
                "properties": {"region": region, "period": PERIOD_SECONDS, **graph},
            }
        top += GRAPH_HEIGHT * -(-len(graphs) // per_row)
