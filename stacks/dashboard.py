"""The dashboard compares the baseline with speculation for each prompt class and load.

If there would be more metrics than `MAX_METRICS`, there are fewer sections, and the user picks the
load (and class) from a list.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import cast

from aws_cdk import Duration, aws_cloudwatch, aws_logs, aws_sqs
from aws_cdk.aws_cloudwatch import IMetric, IWidget
from constructs import Construct

from draftworth.analysis.pairing import TRAFFIC_MIX
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.load_shapes import Load
from stacks.dashboard_graphs import Graph, comparisons, errors, time_series, verdict

GRID_COLUMNS = 24
TITLE_HEIGHT = 1
GUIDE_HEIGHT = 4
WORDS_HEIGHT = 4
HOURS_AT_FIRST = 6
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
# Metrics that the dashboard has in any layout: one for each graph of `NEURON_GRAPHS`, and one for
# the graph of the dead-letter queue.
METRICS_OF_ALL_LAYOUTS = len(NEURON_GRAPHS) + 1
WORDS_TITLE = "The last verdicts, in words: what a token costs, and what a million of them does"
VERDICT_SECTION = "What a token costs with speculation / without: the last complete run's verdict"
GUIDE = """\
**Does speculation pay?** When a run is complete its cost ratios are here with their 95% \
intervals, for your traffic and by class, and its verdict in words. What to know before \
believing it is in the mail and the report: `draftworth report {runs_url}RUN` prints \
it; `aws s3 ls {runs_url}` lists the runs.

Here variants stand side by side, each section one prompt class at one load (`c4`: four requests \
in flight; `p2.5`: 2.5 requests per second, at random times). {cost_ratio}"""
COST_RATIO_GUIDE = (
    "The cost ratio of a section is of the mean throughputs of all blocks in the time range above, "
    "whichever runs and cases they are of, for while a run measures: below 1 the variant is "
    "cheaper per token, without an interval a hint and no verdict."
)

# The possible layouts, each as the dimensions whose value the user picks from a list. The first one
# with at most `MAX_METRICS` metrics is used, else the last one.
PICKED: tuple[tuple[str, ...], ...] = ((), ("Load",), ("PromptClass", "Load"))


class ComparisonDashboard(aws_cloudwatch.Dashboard):
    """The dashboard of an experiment.

    dead_letters: the queue of result files that could not be published.
    publisher_log: the metrics publisher's log, which has each verdict in words.
    runs_url: the folder of all runs, as `s3://BUCKET/FOLDER/`.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        experiment: ResolvedNeuron,
        dead_letters: aws_sqs.IQueue,
        publisher_log: aws_logs.ILogGroup,
        runs_url: str,
    ) -> None:
        picked = _picked_dimensions(experiment)
        region = experiment.spec.aws.region
        super().__init__(
            scope,
            id_,
            dashboard_name=experiment.names.dashboard,
            default_interval=Duration.hours(HOURS_AT_FIRST),
            period_override=aws_cloudwatch.PeriodOverride.INHERIT,
            variables=[*_pick_lists(experiment, picked)],
            widgets=[
                [_guide(experiment, runs_url)],
                [_words(publisher_log, region=region)],
                *_comparison_rows(experiment, picked),
                [_heading("Neuron devices")],
                _neuron_graphs(experiment),
                [_heading("What went wrong")],
                [
                    _errors(experiment, picked).widget(region),
                    _not_published(dead_letters, region=region),
                ],
            ],
        )


def _picked_dimensions(experiment: ResolvedNeuron) -> tuple[str, ...]:
    """Return the metric dimensions (load, prompt class) whose value the user picks from a list.

    () is returned if the dashboard has a section for each prompt class and load. A list replaces
    sections if the dashboard would otherwise have more than `MAX_METRICS` metrics.
    """
    values = _values(experiment)
    for dimensions in PICKED:
        picked = tuple(name for name in dimensions if len(values[name]) > 1)
        graphs = [_errors(experiment, picked)]
        for graphs_of_section in _sections(experiment, picked).values():
            graphs += graphs_of_section
        if METRICS_OF_ALL_LAYOUTS + sum(len(graph.lines) for graph in graphs) <= MAX_METRICS:
            break
    return picked


def _values(experiment: ResolvedNeuron) -> dict[str, list[str]]:
    return {
        "PromptClass": [c.name for c in experiment.spec.workload.classes],
        "Load": [load.label for load in experiment.loads],
    }


def _sections(experiment: ResolvedNeuron, picked: Sequence[str]) -> Mapping[str, list[Graph]]:
    """Return the sections that compare variants, as {heading: graphs}.

    picked: the metric dimensions (`Load`, `PromptClass`) whose value the user picks from a list.
    """
    verdicts = [*_verdicts(experiment, picked)]
    sections = {VERDICT_SECTION: verdicts} if verdicts else {}
    for prompt_class, load in _classes_and_loads(experiment, picked):
        heading = _title(f"Prompt class `{prompt_class}`", load, picked)
        sections[heading] = [*comparisons(experiment, prompt_class, load)]
    return sections


def _classes_and_loads(experiment: ResolvedNeuron, picked: Sequence[str]) -> list[tuple[str, Load]]:
    """Return the (prompt class, load) of each section that compares variants.

    picked: the dimensions whose value the user picks from a list; of each only the first value is
        used, which is selected at first.
    """
    classes = [c.name for c in experiment.spec.workload.classes]
    return list(
        product(
            classes[:1] if "PromptClass" in picked else classes,
            experiment.loads[:1] if "Load" in picked else experiment.loads,
        )
    )


def _title(prompt_class: str, load: Load, picked: Sequence[str]) -> str:
    class_title = "Picked prompt class" if "PromptClass" in picked else prompt_class
    return f"{class_title} at {'the picked load' if 'Load' in picked else load.label}"


def _verdicts(experiment: ResolvedNeuron, picked: Sequence[str]) -> Iterator[Graph]:
    classes_and_loads = _classes_and_loads(experiment, picked)
    with_cost = [(name, load) for name, load in classes_and_loads if load.has_cost_per_token]
    if len(experiment.spec.workload.classes) > 1 and "PromptClass" not in picked:
        loads = dict.fromkeys(load for _, load in with_cost)
        with_cost = [*((TRAFFIC_MIX, load) for load in loads), *with_cost]
    for name, load in with_cost:
        title = _title(name, load, picked)
        yield verdict(experiment, title=title, prompt_class=name, load=load)


def _errors(experiment: ResolvedNeuron, picked: Sequence[str]) -> Graph:
    return errors(experiment, _classes_and_loads(experiment, picked), picked=picked)


def _pick_lists(
    experiment: ResolvedNeuron, picked: Sequence[str]
) -> Iterator[aws_cloudwatch.IVariable]:
    """Yield a drop-down list of each dimension's values; all widgets show the selected value."""
    for dimension in picked:
        values = _values(experiment)[dimension]
        pick_list = aws_cloudwatch.DashboardVariable(
            type=aws_cloudwatch.VariableType.PROPERTY,
            input_type=aws_cloudwatch.VariableInputType.SELECT,
            id=dimension,
            value=dimension,
            label=dimension,
            visible=True,
            default_value=aws_cloudwatch.DefaultValue.value(values[0]),
            values=aws_cloudwatch.Values.from_values(
                *(aws_cloudwatch.VariableValue(value=value, label=value) for value in values)
            ),
        )
        yield cast(aws_cloudwatch.IVariable, pick_list)


def _comparison_rows(
    experiment: ResolvedNeuron, picked: Sequence[str]
) -> Iterator[Sequence[IWidget]]:
    # A row may be wider than the dashboard's grid: CDK then continues it on the next line.
    for heading, graphs in _sections(experiment, picked).items():
        yield [_heading(heading)]
        yield [graph.widget(experiment.spec.aws.region) for graph in graphs]


def _heading(text: str) -> IWidget:
    return _text(f"## {text}", height=TITLE_HEIGHT)


def _guide(experiment: ResolvedNeuron, runs_url: str) -> IWidget:
    has_cost = all(load.has_cost_per_token for load in experiment.loads)
    text = GUIDE.format(runs_url=runs_url, cost_ratio=COST_RATIO_GUIDE if has_cost else "")
    return _text(text.strip(), height=GUIDE_HEIGHT)


def _text(markdown: str, *, height: int) -> IWidget:
    widget = aws_cloudwatch.TextWidget(markdown=markdown, width=GRID_COLUMNS, height=height)
    return cast(IWidget, widget)


def _words(log_group: aws_logs.ILogGroup, *, region: str) -> IWidget:
    # A log query shows the latest verdicts; a text widget would need a function to update it.
    widget = aws_cloudwatch.LogQueryWidget(
        title=WORDS_TITLE,
        log_group_names=[log_group.log_group_name],
        query_string=(
            "fields @timestamp, verdict, findings "
            "| filter ispresent(verdict) | sort @timestamp desc | limit 3"
        ),
        view=aws_cloudwatch.LogQueryVisualizationType.TABLE,
        region=region,
        width=GRID_COLUMNS,
        height=WORDS_HEIGHT,
    )
    return cast(IWidget, widget)


def _neuron_graphs(experiment: ResolvedNeuron) -> list[IWidget]:
    cluster = {"ClusterName": experiment.names.cluster}
    widgets = []
    for title, name, statistic in NEURON_GRAPHS:
        metric = aws_cloudwatch.Metric(
            namespace=INSIGHTS_NAMESPACE,
            metric_name=name,
            dimensions_map=cluster,
            statistic=statistic,
        )
        widgets.append(
            time_series(title, [cast(IMetric, metric)], region=experiment.spec.aws.region)
        )
    return widgets


def _not_published(dead_letters: aws_sqs.IQueue, *, region: str) -> IWidget:
    waiting = dead_letters.metric_approximate_number_of_messages_visible(statistic="Maximum")
    return time_series("Result files not published", [cast(IMetric, waiting)], region=region)
