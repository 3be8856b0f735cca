"""The winner's alarms in Prometheus and in CloudWatch fire only below the measured break-even."""

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import promql_parser
import pytest
import yaml

from charts.winner import winner_alarms
from draftworth.records.load_shapes import PoissonLoad
from tests.charts.winner.alarms import break_even, measured, template
from tests.charts.winner.runs import as_read, exported

pytestmark = pytest.mark.synth

SCHEMA = Path(__file__).parent / "fixtures/prometheus-rule.schema.yaml"
MODEL = "Qwen/Qwen3-32B"


def rule() -> Any:
    return as_read([winner_alarms.prometheus_rule(exported(), break_even())])[0]


def alert_of(item: Any) -> Any:
    ((alert,),) = (group["rules"] for group in item["spec"]["groups"])
    return alert


def alarm_of(item: Any) -> Any:
    (resource,) = item["Resources"].values()
    return resource["Properties"]


Counts = Mapping[str, float]


def rings_in_prometheus(item: Any, counts: Counts) -> bool:
    """Return whether the alert's PromQL expression is true for these counts.

    Counts replace its sums, and `max(a, b)` replaces `a >= b or b`; Python evaluates the rest.
    """
    expression = alert_of(item)["expr"]
    for name, counter in winner_alarms.COUNTERS.items():
        a_sum = rf"sum\(increase\({counter}{{[^}}]*}}\[1h\]\)\)"
        expression = re.sub(a_sum, str(counts[name]), expression)
    undrafted = r"\(\([\d.]+ - [\d.]+\) - [\d.]+\)"
    expression = re.sub(rf"\(([\d.]+) >= ({undrafted}) or \2\)", r"max(\1, \2)", expression)
    assert " or " not in expression
    return bool(eval(expression, {}, {"max": max}))  # noqa: S307 (numbers and operators of our own)


def rings_in_cloudwatch(item: Any, counts: Counts) -> bool:
    alarm = alarm_of(item)
    names: dict[str, Any] = {"IF": lambda yes, a, b: a if yes else b, "MAX": max, **counts}
    computed = [m for m in alarm["Metrics"] if "Expression" in m]
    for metric in reversed(computed):
        names[metric["Id"]] = eval(metric["Expression"], {}, names)  # noqa: S307 (our own)
    (returned,) = [m["Id"] for m in alarm["Metrics"] if m.get("ReturnData", True)]
    assert alarm["ComparisonOperator"] == "LessThanThreshold"
    return bool(names[returned] < alarm["Threshold"])


def draft_model(tokens_per_step: float, steps: float) -> Counts:
    """Return the counters of a server whose draft model drafts in every step.

    At each request's end it accepts one more token than it sends.
    """
    tokens, requests = tokens_per_step * steps, steps / 10
    return {
        "generated": tokens + requests,
        "finished": requests,
        "accepted": tokens - steps + requests,
        "drafts": steps,
    }


def n_gram(tokens_per_step: float, steps: float) -> Counts:
    """Return the counters of a server with n-gram drafting, which drafts in one step of five."""
    tokens, requests = tokens_per_step * steps, steps / 10
    return {
        "generated": tokens + requests,
        "finished": requests,
        "accepted": tokens - steps,
        "drafts": steps / 5,
    }


@pytest.mark.parametrize(
    ("made", "rings"), [(rule, rings_in_prometheus), (template, rings_in_cloudwatch)]
)
@pytest.mark.parametrize("counts", [draft_model, n_gram])
def test_it_rings_only_below_break_even(
    made: Callable[[], Any],
    rings: Callable[[Any, Counts], bool],
    counts: Callable[[float, float], Counts],
) -> None:
    item = made()

    def at(tokens: float, steps: float) -> bool:
        return rings(item, counts(tokens, steps))

    assert at(break_even().value * 0.99, winner_alarms.LEAST_STEPS)
    assert not at(break_even().value * 1.01, winner_alarms.LEAST_STEPS)
    assert not at(break_even().value * 0.5, winner_alarms.LEAST_STEPS - 1)


def test_the_threshold_is_the_lowest_break_even() -> None:
    watched = winner_alarms.watched(measured())
    assert watched
    figures, needed = watched
    assert figures.load in measured().winner.cheaper_at
    words = winner_alarms.break_even_words(figures, needed)
    interval = r"[\d.]+ \([\d.]+ to [\d.]+\)"
    assert re.match(rf"Break-even, .*: {interval} tokens per step at c1, the", words)
    assert "the run had" in words


def test_the_rule_is_one_that_the_operator_takes() -> None:
    schema = yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))
    item = rule()
    jsonschema.validate(item, schema)
    wrong = copy.deepcopy(item)
    alert_of(wrong)["four"] = alert_of(wrong).pop("for")
    with pytest.raises(jsonschema.ValidationError, match="four"):
        jsonschema.validate(wrong, schema)


def test_the_query_selects_this_servers_counters() -> None:
    query = alert_of(rule())["expr"]
    promql_parser.parse(query)
    with pytest.raises(ValueError, match="parenthesis"):
        promql_parser.parse(query.replace("))", ")", 1))
    selected = set(re.findall(r"([a-z:_]+){([^}]*)}", query))
    labels = f'namespace="serving",model_name="{MODEL}"'
    assert selected == {(counter, labels) for counter in winner_alarms.COUNTERS.values()}


def test_cloudwatch_metrics_are_this_servers_counters() -> None:
    of_servers = [m["MetricStat"] for m in alarm_of(template())["Metrics"] if "MetricStat" in m]
    assert {m["Metric"]["MetricName"] for m in of_servers} == {*winner_alarms.COUNTERS.values()}
    for stat in of_servers:
        dimensions = {d["Name"]: d["Value"] for d in stat["Metric"]["Dimensions"]}
        assert dimensions == {
            "ClusterName": {"Ref": "ClusterName"},
            "Namespace": "serving",
            "model_name": MODEL,
        }
        assert (stat["Metric"]["Namespace"], stat["Stat"], stat["Period"]) == (
            *("ContainerInsights/Prometheus", "Sum"),
            3600,
        )


def test_a_server_without_counters_has_no_alarm() -> None:
    uncounted = measured(counted=False)
    assert uncounted.winner.speculates
    assert winner_alarms.watched(uncounted) is None
    assert "published no counters of accepted tokens" in winner_alarms.why_no_alarm(uncounted)


def test_uncounted_steps_have_no_alarm() -> None:
    winner = measured().winner
    figures = tuple(replace(f, break_even_tokens_per_step=None) for f in winner.figures)
    uncounted = replace(measured(), winner=replace(winner, figures=figures))
    assert winner_alarms.watched(uncounted) is None
    assert "could not count steps" in winner_alarms.why_no_alarm(uncounted)


def test_the_baseline_needs_no_alarm() -> None:
    assert winner_alarms.watched(measured(pays=False)) is None


def test_a_winner_by_rates_has_no_alarm() -> None:
    by_rates = replace(
        measured(),
        winner=replace(measured().winner, takes_up_to=(PoissonLoad(requests_per_second=2.0),)),
    )
    assert "arrived at rates" in winner_alarms.why_no_alarm(by_rates)
    assert "arrived at rates" not in winner_alarms.why_no_alarm(measured())
