"""The graphs of the dashboard: which metrics each one has, and how CloudWatch draws it.

A graph is plain data until it is drawn, because the layout of the dashboard depends on the number
of metrics in all graphs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from aws_cdk import Duration, aws_cloudwatch
from aws_cdk.aws_cloudwatch import GraphWidget, IMetric, IWidget, MathExpression, SingleValueWidget

from draftworth.metrics import definitions
from draftworth.metrics.definitions import Metric
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.load_shapes import Load

# In columns and rows of CloudWatch's grid, which has 24 columns.
GRAPH_WIDTH = 8
GRAPH_HEIGHT = 6
PERIOD_MINUTES = 1
STATISTICS = ("p50", "p90")
COST_RATIO_TITLE = "Cost ratio so far = baseline's throughput / variant's, without an interval"


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of a graph: a statistic of a metric, for one variant, prompt class and load.

    statistic: CloudWatch's name for it, such as `p50`, `Average` or `Sum`.
    label: what the legend says after the variant's name.
    """

    metric: Metric
    statistic: str
    experiment: str
    variant: str
    prompt_class: str
    load: str
    label: str = ""

    def cloudwatch_metric(self) -> aws_cloudwatch.Metric:
        dimensions = (self.experiment, self.variant, self.prompt_class, self.load)
        return aws_cloudwatch.Metric(
            namespace=definitions.NAMESPACE,
            metric_name=self.metric.name,
            dimensions_map=dict(zip(definitions.DIMENSIONS, dimensions, strict=True)),
            statistic=self.statistic,
            label=f"{self.variant} {self.label}".strip(),
        )


@dataclass(frozen=True, kw_only=True)
class TimeSeries:
    """A graph that shows its lines over time, in contrast to `LatestValues`."""

    title: str
    lines: Sequence[Line]

    def widget(self, region: str) -> IWidget:
        return time_series(self.title, _metrics(self.lines), region=region)


@dataclass(frozen=True, kw_only=True)
class LatestValues:
    """A graph that shows only the latest value of each of its lines, as a number."""

    title: str
    lines: Sequence[Line]

    def widget(self, region: str) -> IWidget:
        widget = SingleValueWidget(
            title=self.title,
            metrics=_metrics(self.lines),
            region=region,
            period=Duration.minutes(PERIOD_MINUTES),
            width=GRAPH_WIDTH,
            height=GRAPH_HEIGHT,
        )
        return cast(IWidget, widget)


@dataclass(frozen=True, kw_only=True)
class CostRatios:
    """For each variant a number: the baseline's throughput divided by the variant's.

    CloudWatch aggregates each throughput over the whole time range of the dashboard. With a shorter
    period a ratio could have no value, because the blocks of two variants end in different minutes.
    lines: the throughput of each variant, the baseline's first; the graph does not show them.
    """

    lines: Sequence[Line]
    title: str = COST_RATIO_TITLE

    def widget(self, region: str) -> IWidget:
        baseline, *throughputs = _metrics(self.lines)
        ratios = [
            MathExpression(
                expression=f"throughput0 / throughput{number}",
                using_metrics={"throughput0": baseline, f"throughput{number}": throughput},
                label=line.variant,
            )
            for number, (line, throughput) in enumerate(
                zip(self.lines[1:], throughputs, strict=True), start=1
            )
        ]
        widget = SingleValueWidget(
            title=self.title,
            metrics=[cast(IMetric, ratio) for ratio in ratios],
            set_period_to_time_range=True,
            region=region,
            period=Duration.minutes(PERIOD_MINUTES),
            width=GRAPH_WIDTH,
            height=GRAPH_HEIGHT,
        )
        return cast(IWidget, widget)


Graph = TimeSeries | LatestValues | CostRatios


def time_series(title: str, metrics: Sequence[IMetric], *, region: str) -> IWidget:
    """Return a graph of metrics over time whose axis begins at 0."""
    widget = GraphWidget(
        title=title,
        left=metrics,
        left_y_axis=aws_cloudwatch.YAxisProps(min=0),
        region=region,
        period=Duration.minutes(PERIOD_MINUTES),
        width=GRAPH_WIDTH,
        height=GRAPH_HEIGHT,
    )
    return cast(IWidget, widget)


def comparisons(experiment: ResolvedNeuron, prompt_class: str, load: Load) -> Iterator[Graph]:
    """Yield a graph for each metric that compares variants, at one prompt class and load.

    A graph has lines for all variants to which its metric applies.
    """
    line = _line_of(experiment, prompt_class, load)
    for metric in definitions.published():
        if not metric.better or metric is definitions.ERRORS:
            continue
        # A metric that is not measured per request has one value per block (all requests of a
        # variant in one round), so its average is shown and no percentiles.
        statistics = STATISTICS if metric.of_request else ("Average",)
        lines = [
            line(metric=metric, statistic=statistic, variant=variant.name, label=statistic)
            for variant in experiment.variants
            if variant.speculates or not metric.speculative_only
            for statistic in statistics
        ]
        yield TimeSeries(title=metric.title_and_unit, lines=lines)
        if metric is definitions.OUTPUT_THROUGHPUT and load.has_cost_per_token:
            yield _cost_ratios(experiment, prompt_class, load)


def _cost_ratios(experiment: ResolvedNeuron, prompt_class: str, load: Load) -> CostRatios:
    line = _line_of(experiment, prompt_class, load)
    baseline_first = sorted(experiment.variants, key=lambda variant: not variant.is_baseline)
    lines = [
        line(metric=definitions.OUTPUT_THROUGHPUT, statistic="Average", variant=variant.name)
        for variant in baseline_first
    ]
    return CostRatios(lines=lines)


def verdict(experiment: ResolvedNeuron, *, title: str, prompt_class: str, load: Load) -> Graph:
    """Return the graph of each variant's cost ratio in the last verdict, with its 95% interval.

    The cost ratio is what a token costs with the variant, divided by what it costs with the
    baseline. prompt_class: may also be the mix of all classes (`TRAFFIC_MIX`).
    """
    line = _line_of(experiment, prompt_class, load)
    lines = [
        line(metric=metric, statistic="Average", variant=variant.name, label=label)
        for variant in experiment.variants
        if not variant.is_baseline
        for metric, label in zip(definitions.FINDING_METRICS, ("", "low", "high"), strict=True)
    ]
    return LatestValues(title=title, lines=lines)


def errors(
    experiment: ResolvedNeuron,
    classes_and_loads: Sequence[tuple[str, Load]],
    *,
    picked: Sequence[str],
) -> Graph:
    """Return the graph of failed requests, with a line for each variant, class and load.

    picked: the dimensions whose value the user picks from a list; the legend does not name their
        values.
    """
    lines = []
    for prompt_class, load in classes_and_loads:
        names = {"PromptClass": prompt_class, "Load": load.label}
        label = " ".join(value for dimension, value in names.items() if dimension not in picked)
        line = _line_of(experiment, prompt_class, load)
        lines += [
            line(metric=definitions.ERRORS, statistic="Sum", variant=variant.name, label=label)
            for variant in experiment.variants
        ]
    return TimeSeries(title=definitions.ERRORS.title_and_unit, lines=lines)


def _line_of(experiment: ResolvedNeuron, prompt_class: str, load: Load) -> partial[Line]:
    return partial(Line, experiment=experiment.name, prompt_class=prompt_class, load=load.label)


def _metrics(lines: Sequence[Line]) -> list[IMetric]:
    return [cast(IMetric, line.cloudwatch_metric()) for line in lines]
