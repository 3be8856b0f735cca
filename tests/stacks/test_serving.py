"""An experiment whose winner goes on serving: what its stack has more than another's."""

from __future__ import annotations

import json
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_sns
from aws_cdk.assertions import Template

from draftworth.analysis import metrics
from draftworth.analysis.live_metrics import ALARM_DIMENSIONS, DRIFTED, LIVE, published_live
from draftworth.experiment.afterwards import ServeOnDevices
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.capacity import CapacityPlan, ServingPlan
from draftworth.records.codec import load_record
from draftworth.records.results import LIVE_FOLDER, PUBLISHED_FILES
from stacks.capacity_plan import capacity_plan
from stacks.constructs.drift_alarm import DriftAlarm
from stacks.dashboard import LIVE_SECTION
from tests.stacks.rendering import rights
from tests.stacks.synthesis import SERVE_UNTIL, Resource, experiments, of_type, only, synthesis
from tests.stacks.test_dashboard import body_of
from tests.support.experiments import changed
from tests.support.live import make_probe

pytestmark = [pytest.mark.synth]
ALARM = "AWS::CloudWatch::Alarm"


def after(**values: Any) -> ServeOnDevices:
    return ServeOnDevices(**{"kind": "serve", "budget_usd": 40.0, **values})


def resource(kind: str, fragment: str = "", *, name: str = "serving") -> Resource:
    return only(synthesis().template(name, "benchmark"), kind, fragment)


# The plan


def serving_plan(experiment: ResolvedNeuron) -> ServingPlan | None:
    return capacity_plan(experiment, job_name="llmperf-x").serving


def test_the_controller_is_told_the_limits_of_serving() -> None:
    told = load_record(
        CapacityPlan, resource("Custom::DraftworthDeployment")["Properties"]["Plan"]
    ).serving
    until = SERVE_UNTIL.timestamp()
    assert told == ServingPlan(nodes=1, budget_usd=40.0, serve_until_unix_s=until)
    assert serving_plan(experiments()["on-demand"]) is None


@pytest.mark.parametrize(("replicas", "nodes"), [("one", 1), ("every_slot", 2)])
def test_one_server_needs_one_node_and_one_in_every_slot_all(replicas: Any, nodes: int) -> None:
    """Of two nodes, one a variant."""
    small = changed(experiments()["small-nodes"], after=after(replicas=replicas))
    assert small.placement.nodes == 2
    assert serving_plan(small) == ServingPlan(nodes=nodes, budget_usd=40.0, serve_until_unix_s=None)


# The alarm


def test_the_drift_alarm_looks_at_the_finding_that_the_publisher_writes() -> None:
    alarm = resource(ALARM, "Drift")["Properties"]
    named = {d["Name"]: d["Value"] for d in alarm["Dimensions"]}
    probe = replace(make_probe(), experiment="serving")
    written = [names for names, values in published_live(probe) if DRIFTED in values]
    assert named in written
    assert named == {"Experiment": "serving"}
    assert (alarm["Namespace"], alarm["MetricName"]) == (metrics.NAMESPACE, DRIFTED.name)


def test_it_rings_as_soon_as_a_look_has_the_finding() -> None:
    alarm = resource(ALARM, "Drift")["Properties"]
    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("GreaterThanOrEqualToThreshold", 1)
    assert (alarm["EvaluationPeriods"], alarm["Period"]) == (1, 60)
    assert alarm["TreatMissingData"] == "notBreaching"
    topic = next(iter(of_type(synthesis().template("serving", "benchmark"), "AWS::SNS::Topic")))
    assert [action["Ref"] for action in alarm["AlarmActions"]] == [topic]
    assert "drifted" in alarm["AlarmDescription"]
    assert "Next: " in alarm["AlarmDescription"]


def test_there_is_none_where_nothing_serves() -> None:
    alarms = of_type(synthesis().template("qwen3-32b", "benchmark"), ALARM)
    assert len(alarms) == 2
    assert not [name for name in alarms if "Drift" in name]


# The dashboard


def graphs_of(experiment: ResolvedNeuron, section: str) -> list[dict[str, Any]]:
    """What stands below a heading."""
    found, below = [], False
    for widget in body_of(experiment)["widgets"]:
        if widget["type"] == "text":
            below = widget["properties"]["markdown"] == f"## {section}"
        elif below:
            found.append(widget["properties"])
    return found


def test_the_dashboard_shows_live_figures_and_the_margin_with_a_line_at_break_even() -> None:
    margin, *others = graphs_of(experiments()["serving"], LIVE_SECTION)
    assert margin["metrics"][0][:4] == [
        *(metrics.NAMESPACE, "TokensPerStepOverBreakEven"),
        *(ALARM_DIMENSIONS[0], "serving"),
    ]
    (line,) = margin["annotations"]["horizontal"]
    assert line["value"] == 1
    written = {m.name for _, values in published_live(make_probe()) for m in values}
    for graph in others:
        ((search,),) = graph["metrics"]
        assert f'Load="{LIVE}"' in search["expression"]
        assert any(f'MetricName="{name}"' in search["expression"] for name in written)
        dimensions = ",".join(metrics.DIMENSIONS)
        assert search["expression"].startswith(f"SEARCH('{{{metrics.NAMESPACE},{dimensions}}} ")
    assert [graph["title"].partition(" (")[0] for graph in others] == [
        *("Time to first token", "Inter-token latency", "End-to-end latency"),
        *("Output tokens per step", "Acceptance rate"),
    ]


def test_the_dashboard_of_an_experiment_that_serves_nothing_has_no_live_section() -> None:
    assert graphs_of(experiments()["qwen3-32b"], LIVE_SECTION) == []


# Rights and events


def test_the_load_generator_may_write_probes_only_where_a_winner_serves() -> None:
    def live(name: str) -> list[str]:
        lines = rights(synthesis().template(name, "benchmark"))
        return sorted(
            line for line in lines if line.startswith("WorkloadRolesllmperf") and "live/" in line
        )

    once = '{"Null": {"s3:if-none-match": "false"}}'
    listed = json.dumps({"StringLike": {"s3:prefix": ["runs/*", "live/*"]}})
    assert live("qwen3-32b") == []
    assert live("serving") == [
        "WorkloadRolesllmperf | s3:GetObject | ${Results.Arn}/live/*",
        f"WorkloadRolesllmperf | s3:ListBucket | ${{Results.Arn}} | if {listed}",
        f"WorkloadRolesllmperf | s3:PutObject | ${{Results.Arn}}/live/* | if {once}",
    ]


def test_a_probe_raises_an_event_for_the_publisher_and_its_claim_none() -> None:
    probe = make_probe()
    assert probe.key.startswith(f"{LIVE_FOLDER}/")
    assert any(fnmatchcase(probe.key, pattern) for pattern in PUBLISHED_FILES)
    claim = f"published/{probe.key}.json"
    assert not any(fnmatchcase(claim, pattern) for pattern in PUBLISHED_FILES)
    rule = only(synthesis().template("serving", "storage"), "AWS::Events::Rule")["Properties"]
    wildcards = [key["wildcard"] for key in rule["EventPattern"]["detail"]["object"]["key"]]
    assert tuple(wildcards) == PUBLISHED_FILES


@pytest.mark.parametrize(("seconds", "period"), [(1, 60), (60, 60), (61, 120), (3600, 3600)])
def test_a_period_of_the_alarm_holds_a_look(seconds: float, period: int) -> None:
    stack = cdk.Stack(cdk.App(analytics_reporting=False))
    topic = aws_sns.Topic(stack, "Topic")
    serve = after(probe_seconds=seconds)
    DriftAlarm(stack, "DriftAlarm", experiment="x", after=serve, topic=topic)
    Template.from_stack(stack).has_resource_properties(ALARM, {"Period": period})
