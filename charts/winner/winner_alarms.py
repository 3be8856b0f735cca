"""Alarms for the cluster that serves the winner fire if tokens per step are below break-even.

Below the measured break-even a token costs more than without a draft model. Then the traffic is no
longer like the measured traffic.

Tokens per step are computed from vLLM's counters, by the rule of `draftworth.metrics.steps`: all
tokens except the first of each request, divided by the number of steps. vLLM does not count all
steps, so the larger of two numbers is used. The first is the number of tokens that are not accepted
drafted tokens, because each step yields one such token. The second is the number of steps with
drafted tokens. It is larger if vLLM counted accepted tokens after the end of an output, because
these make the first number too small.

The PrometheusRule is for the Prometheus Operator, and works for Deployment, KServe and Helm chart.
Without the operator, or with Amazon's managed Prometheus, its `spec` is the rule file.
"""

from charts.manifest_files import Object
from charts.winner.exported_server import Export
from charts.winner.measured_winner import MeasuredWinner
from charts.winner.winner_annotations import ratio_words
from draftworth.analysis.statistics import Estimate
from draftworth.decision.winner import WinnerFigures
from draftworth.measuring.server_counters import ACCEPTED, DRAFTS, FINISHED, GENERATED

# Tokens per step vary between prompts by a quarter and more. So the alarm fires only after two
# hours in a row below the break-even, each with at least `LEAST_STEPS` steps.
WINDOW_HOURS = 1
LEAST_STEPS = 1000
ALARM = "SpeculationBelowBreakEven"
COUNTERS = {"generated": GENERATED, "finished": FINISHED, "accepted": ACCEPTED, "drafts": DRAFTS}


def watched(measured: MeasuredWinner) -> tuple[WinnerFigures, Estimate] | None:
    """Return the figures of one load, and its break-even: the alarm's threshold in tokens per step.

    The figures are the winner's measured ones. Of the loads at which the winner was cheaper, the
    load is the one with the lowest break-even: how many requests will be in flight is unknown, and
    below the lowest break-even the winner is cheaper at no load. None if there can be no alarm: the
    winner is the baseline, its server has no counter of accepted tokens, no break-even is known, or
    the lowest is at most 1 token per step, which every server reaches.
    """
    winner = measured.winner
    if not winner.speculates or not winner.has_counters:
        return None
    thresholds = [
        (figures, break_even)
        for figures in winner.decisive
        if figures.pays and (break_even := figures.break_even_tokens_per_step)
    ]
    lowest = min(thresholds, key=lambda threshold: threshold[1].value, default=None)
    return lowest if lowest and lowest[1].value > 1 else None


def why_no_alarm(measured: MeasuredWinner) -> str:
    """Return a sentence that says why a winner that speculates has no alarm."""
    if measured.winner.takes_up_to:
        return (
            "No alarm is written: requests arrived at rates, at which a token has no cost, so no "
            "number of tokens per step is its break-even."
        )
    if measured.winner.has_counters:
        return (
            "No alarm is written: the run could not count steps, so break-even is not known, or a "
            "step is no dearer than the baseline's, so every number of tokens per step pays."
        )
    return (
        "No alarm is written: in the run the server published no counters of accepted tokens (the "
        "V0 engine need not have them), by which its tokens per step could be watched."
    )


def break_even_words(figures: WinnerFigures, break_even: Estimate) -> str:
    """Return a sentence with the break-even, which is the threshold of the alarm.

    figures: the winner's figures at the load whose break-even it is, as `watched` returns them.
    """
    measured = figures.tokens_per_step
    in_the_run = "" if measured is None else f"; the run had {measured:.2f}"
    return (
        f"Break-even, with its 95% interval: {ratio_words(break_even)} tokens per step at "
        f"{figures.load.label}, the lowest of the loads at which the winner is cheaper{in_the_run}."
    )


def prometheus_rule(export: Export, break_even: Estimate) -> Object:
    """Return a PrometheusRule with the alarm for tokens per step below the break-even.

    break_even: in tokens per step; its value, without the interval, is the threshold.
    """
    tokens, steps = _tokens_and_steps(export)
    alert = {
        "alert": ALARM,
        "expr": f"{tokens} / {steps} < {break_even.value:.3f} and {steps} >= {LEAST_STEPS}",
        "for": f"{WINDOW_HOURS}h",
        "labels": {"severity": "warning"},
        "annotations": {
            "summary": f"{export.name}: a token costs more than it would without a draft model",
            "description": f"{{{{ $value }}}} tokens per step, {_words(break_even)}",
        },
    }
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": export.metadata(export.annotations),
        "spec": {"groups": [{"name": export.name, "rules": [alert]}]},
    }


def _tokens_and_steps(export: Export) -> tuple[str, str]:
    """Return two PromQL expressions: the tokens and the steps of the last hour.

    The tokens are all output tokens except the first of each request; the alarm divides them by
    the steps.
    """
    labels = f'namespace="{export.namespace}",model_name="{export.model}"'
    sums = {
        name: f"sum(increase({counter}{{{labels}}}[{WINDOW_HOURS}h]))"
        for name, counter in COUNTERS.items()
    }
    tokens = f"({sums['generated']} - {sums['finished']})"
    undrafted = f"({tokens} - {sums['accepted']})"
    # The steps are the larger of both counts: PromQL's `or` gives its right side if the comparison
    # on its left is false.
    return tokens, f"({sums['drafts']} >= {undrafted} or {undrafted})"


def _words(break_even: Estimate) -> str:
    return (
        f"below the measured break-even of {break_even.value:.3f}: the traffic is no longer what "
        "was measured. Measure with prompts of today; meanwhile serve without the draft."
    )


def cloudwatch_alarm(export: Export, break_even: Estimate) -> Object:
    """Return a CloudFormation template with the alarm for tokens per step below the break-even.

    The alarm uses the metrics that the CloudWatch agent scrapes from vLLM.
    """
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Parameters": {
            "ClusterName": {"Type": "String", "Description": "EKS cluster that serves the winner"},
            "TopicArn": {"Type": "String", "Description": "SNS topic that the alarm tells"},
        },
        "Resources": {
            ALARM: {
                "Type": "AWS::CloudWatch::Alarm",
                "Properties": {
                    "AlarmDescription": f"{export.name}: tokens per step are {_words(break_even)}",
                    "Metrics": _metrics(export, break_even),
                    "Threshold": round(break_even.value, 3),
                    "ComparisonOperator": "LessThanThreshold",
                    "EvaluationPeriods": 2,
                    "TreatMissingData": "notBreaching",
                    "AlarmActions": [{"Ref": "TopicArn"}],
                },
            }
        },
    }


def _metrics(export: Export, break_even: Estimate) -> list[Object]:
    enough = f"steps >= {LEAST_STEPS}"
    return [
        {
            "Id": "tokens_per_step",
            "Label": "tokens per step",
            # With too few steps the value is the threshold itself, at which no alarm fires.
            "Expression": f"IF({enough}, tokens / steps, {break_even.value:.3f})",
        },
        _computed("steps", "MAX([drafts, tokens - accepted])"),
        _computed("tokens", "generated - finished"),
        *(_counted(id_, counter, export) for id_, counter in COUNTERS.items()),
    ]


def _computed(id_: str, expression: str) -> Object:
    return {"Id": id_, "Expression": expression, "ReturnData": False}


def _counted(id_: str, counter: str, export: Export) -> Object:
    # The names of the first two dimensions are those of the CloudWatch agent's examples;
    # `model_name` is a label of vLLM's metrics.
    dimensions = {
        "ClusterName": {"Ref": "ClusterName"},
        "Namespace": export.namespace,
        "model_name": export.model,
    }
    metric = {
        # The agent publishes a counter as the differences between scrapes ("Prometheus metric type
        # conversion by the CloudWatch Agent"), in this namespace.
        "Namespace": "ContainerInsights/Prometheus",
        "MetricName": counter,
        "Dimensions": [{"Name": name, "Value": value} for name, value in dimensions.items()],
    }
    statistic = {"Metric": metric, "Period": 3600 * WINDOW_HOURS, "Stat": "Sum"}
    return {"Id": id_, "MetricStat": statistic, "ReturnData": False}
