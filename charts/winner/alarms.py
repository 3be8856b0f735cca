"""Alarms for the cluster that serves the winner fire if tokens per step are below break-even.

Tokens per step are 1 + accepted tokens / drafts, from vLLM's counters. Below the measured
break-even a token costs more than without a draft; the traffic is then not as it was measured.

The PrometheusRule is for the Prometheus Operator, and works for Deployment, KServe and Helm chart.
Without the operator, or with Amazon's managed Prometheus, its `spec` is the rule file.
"""

import json

from charts.winner.annotations import ratio_words
from charts.winner.measured import Export, MeasuredWinner, Object
from draftworth.analysis.handover import CHEAPER
from draftworth.analysis.statistics import Estimate
from draftworth.analysis.winner import WinnerFigures
from draftworth.measuring.counters import ACCEPTED, DRAFTS

RULE_NAME = "SpeculationBelowBreakEven"
# Tokens per step vary between prompts by a quarter and more. So the alarm needs two hours in a row
# below the break-even, each with at least `LEAST_STEPS` steps.
WINDOW_HOURS = 1
LEAST_STEPS = 1000
# The CloudWatch agent's namespace for scraped metrics. The agent publishes a counter as the
# differences between scrapes ("Prometheus metric type conversion by the CloudWatch Agent").
AGENT_NAMESPACE = "ContainerInsights/Prometheus"


def watched(measured: MeasuredWinner) -> tuple[WinnerFigures, Estimate] | None:
    """Return (figures, break-even) of the load to watch; None if no break-even is known.

    Of the loads at which the winner was cheaper, it is the one with the lowest break-even: how many
    requests will be in flight is unknown, and below the lowest break-even no load is cheaper.
    """
    winner = measured.winner
    if not winner.speculates or not winner.has_counters:
        return None
    known = [
        (figures, figures.break_even_tokens_per_step)
        for figures in winner.decisive
        if figures.judgement == CHEAPER and figures.break_even_tokens_per_step
    ]
    return min(known, key=lambda found: found[1].value, default=None)


def why_no_alarm(measured: MeasuredWinner) -> str:
    """Return a sentence why a winner that speculates has no alarm."""
    if measured.winner.has_counters:
        return "No alarm is written: the run could not count steps, so break-even is not known."
    return (
        "No alarm is written: in the run the server published no counters of accepted tokens (the "
        "V0 engine need not have them), by which its tokens a step could be watched."
    )


def break_even_words(figures: WinnerFigures, break_even: Estimate) -> str:
    """Return a sentence with the break-even, which is the threshold of the alarm."""
    measured = figures.tokens_per_step
    own = "" if measured is None else f"; the run had {measured:.2f}"
    return (
        f"Break-even, with its 95% interval: {ratio_words(break_even)} tokens a step at "
        f"{figures.load.label}, the lowest of the loads at which the winner is cheaper{own}."
    )


def prometheus_rule(export: Export, break_even: Estimate) -> Object:
    """Return a PrometheusRule of the Prometheus Operator."""
    labels = f"namespace={json.dumps(export.namespace)},model_name={json.dumps(export.model)}"
    accepted, steps = (
        f"sum(increase({name}{{{labels}}}[{WINDOW_HOURS}h]))" for name in (ACCEPTED, DRAFTS)
    )
    alert: Object = {
        "alert": RULE_NAME,
        "expr": f"1 + {accepted} / {steps} < {break_even.value:.3f} and {steps} >= {LEAST_STEPS}",
        "for": f"{WINDOW_HOURS}h",
        "labels": {"severity": "warning"},
        "annotations": {
            "summary": f"{export.name}: a token costs more than it would without a draft model",
            "description": f"{{{{ $value }}}} tokens a step, {_words(break_even)}",
        },
    }
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": export.metadata(export.annotations),
        "spec": {"groups": [{"name": export.name, "rules": [alert]}]},
    }


def cloudwatch_alarm(export: Export, break_even: Estimate) -> Object:
    """Return a CloudFormation template with the same alarm, for metrics of the CloudWatch agent."""
    steps, accepted = _metric("steps", DRAFTS, export), _metric("accepted", ACCEPTED, export)
    expression = f"IF(steps >= {LEAST_STEPS}, 1 + accepted / steps, {break_even.value:.3f})"
    alarm = {
        "AlarmDescription": f"{export.name}: tokens a step are {_words(break_even)}",
        "Metrics": [
            {"Id": "tokens", "Label": "tokens a step", "Expression": expression},
            steps,
            accepted,
        ],
        "Threshold": round(break_even.value, 3),
        "ComparisonOperator": "LessThanThreshold",
        "EvaluationPeriods": 2,
        "TreatMissingData": "notBreaching",
        "AlarmActions": [{"Ref": "TopicArn"}],
    }
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Parameters": {
            "ClusterName": {"Type": "String", "Description": "EKS cluster that serves the winner"},
            "TopicArn": {"Type": "String", "Description": "SNS topic that the alarm tells"},
        },
        "Resources": {RULE_NAME: {"Type": "AWS::CloudWatch::Alarm", "Properties": alarm}},
    }


def _metric(id_: str, name: str, export: Export) -> Object:
    # The first two dimensions are as in the agent's examples; `model_name` is vLLM's own label.
    dimensions = {
        "ClusterName": {"Ref": "ClusterName"},
        "Namespace": export.namespace,
        "model_name": export.model,
    }
    metric = {
        "Namespace": AGENT_NAMESPACE,
        "MetricName": name,
        "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
    }
    stat = {"Metric": metric, "Period": WINDOW_HOURS * 3600, "Stat": "Sum"}
    return {"Id": id_, "MetricStat": stat, "ReturnData": False}


def _words(break_even: Estimate) -> str:
    return (
        f"below the measured break-even of {break_even.value:.3f}: the traffic is no longer what "
        "was measured. Measure with prompts of today; meanwhile serve without the draft."
    )
