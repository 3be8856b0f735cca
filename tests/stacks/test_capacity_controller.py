"""The capacity controller: its deployment resource, function, rights, events and notifications."""

import json
from typing import Any

import pytest

from charts.names import server_name
from draftworth.records.codec import load_record
from draftworth.records.deployment import (
    PATHS,
    STATE_KEY,
    STOP_KEY,
    UNREADABLE_STATE_KEY,
    CapacityPlan,
)
from draftworth.records.servers import COMPILE_LIMIT_MINUTES
from stacks.constructs.capacity_controller import ANSWER_TIMEOUT_MINUTES, TIMEOUT_MINUTES
from tests.stacks.rendering import collapsed, granted_in, may, rights
from tests.stacks.synthesis import benchmark, experiments, of_type, only, synthesis
from tests.support.event_patterns import matches

pytestmark = [pytest.mark.synth]
NAMES = tuple(experiments())
FRAGMENT = "CapacityController"
ROLE = "CapacityControllerRole"
DEPLOYMENT = "Custom::DraftworthDeployment"
RULE = "AWS::Events::Rule"


def properties(kind: str, fragment: str = FRAGMENT, name: str = "qwen3-32b") -> dict[str, Any]:
    resource_properties: dict[str, Any] = only(benchmark(name), kind, fragment)["Properties"]
    return resource_properties


def plan(name: str) -> CapacityPlan:
    return load_record(CapacityPlan, properties(DEPLOYMENT, name=name)["Plan"])


def pattern(fragment: str) -> dict[str, Any]:
    event_pattern: dict[str, Any] = collapsed(properties(RULE, fragment)["EventPattern"])
    return event_pattern


# The deployment


@pytest.mark.parametrize("name", NAMES)
def test_the_function_is_told_the_experiments_plan(name: str) -> None:
    experiment, controller_plan = experiments()[name], plan(name)
    aws, capacity = experiment.spec.aws, experiment.spec.aws.capacity
    assert controller_plan.experiment == name
    assert controller_plan.nodes == experiment.placement.nodes
    canaries = (*(variant.name for variant in experiment.canaries), PATHS)
    assert controller_plan.variants == canaries
    needed = [v for v in experiment.variants if v.is_baseline or not experiment.spec.search]
    assert controller_plan.servers == tuple(server_name(slot) for v in needed for slot in v.slots)
    assert controller_plan.startup_minutes > COMPILE_LIMIT_MINUTES, (
        "a node joins before a start begins"
    )
    assert (controller_plan.deadline_minutes, controller_plan.budget_usd) == (
        aws.deadline_minutes,
        aws.accelerator_budget_usd,
    )
    assert controller_plan.price_usd_per_node_hour == experiment.node_price.usd_per_hour
    assert controller_plan.availability_zone == aws.availability_zone
    assert controller_plan.capacity == capacity.kind
    assert controller_plan.reservation_id == capacity.reservation_id
    assert controller_plan.hold is aws.hold is (name == "small-nodes")


@pytest.mark.parametrize("name", NAMES)
def test_the_plan_names_this_deployments_job_and_nodegroup(name: str) -> None:
    controller_plan = plan(name)
    group = only(synthesis().template(name, "cluster"), "AWS::EKS::Nodegroup", "Accelerator")
    assert controller_plan.nodegroup_name == group["Properties"]["NodegroupName"]
    assert controller_plan.nodegroup_tags.items() <= group["Properties"]["Tags"].items()
    manifests = collapsed(of_type(benchmark(name), "Custom::AWSCDK-EKS-KubernetesResource"))
    assert f'"name":"{controller_plan.job_name}"' in json.dumps(manifests).replace("\\", "")


def test_every_model_is_staged_and_drafts_bring_tokenizers() -> None:
    controller_plan = plan("qwen3-32b")
    assert [m.model for m in controller_plan.models] == ["Qwen/Qwen3-32B", "Qwen/Qwen3-1.7B"]
    assert [draft.vocabulary for draft in controller_plan.drafts] == ["own"]
    head = plan("llama-3.1-8b-eagle3")
    assert [draft.vocabulary for draft in head.drafts] == ["own_or_none"]
    assert len(plan("on-demand").drafts) == 1, "two variants with one draft wait for it once"


def test_a_lost_answer_costs_minutes_not_hours() -> None:
    deployment = properties(DEPLOYMENT)
    assert deployment["ServiceTimeout"] == str(ANSWER_TIMEOUT_MINUTES * 60)
    assert TIMEOUT_MINUTES < ANSWER_TIMEOUT_MINUTES, "one invocation fits, and a retry"


# The function


def test_only_experiments_with_a_capacity_block_look_up() -> None:
    right = (ROLE, "ec2:DescribeCapacityReservations", "*")
    assert may(granted_in(benchmark("llama-3.1-8b-eagle3")), *right)
    assert not may(granted_in(benchmark("small-nodes"), conditional=True), *right)


# The events that invoke it


def s3_event(bucket: str, key: str, kind: str = "Object Created") -> dict[str, Any]:
    variables = properties("AWS::Lambda::Function")["Environment"]["Variables"]
    name = collapsed(variables[f"{bucket.upper()}_BUCKET"])
    return {
        "source": "aws.s3",
        "detail-type": kind,
        "detail": {"bucket": {"name": name}, "object": {"key": key}},
    }


@pytest.mark.parametrize(
    ("rule", "event"),
    [
        ("Staged", ("checkpoints", "Qwen/Qwen3-32B/main/_READY.json")),
        ("Staged", ("checkpoints", "Qwen/Qwen3-32B/main/_FAILED.json")),
        ("Reported", ("results", "control/canary/JOB/baseline.json")),
        ("Reported", ("results", "control/serving/qwen3-1.7b-k7.json")),
        ("RunOver", ("results", "runs/JOB-89abcdef/run.json")),
        ("Stopped", ("results", STOP_KEY)),
        ("Stopped", ("results", STOP_KEY, "Object Deleted")),
    ],
)
def test_the_function_is_woken_by_what_matters(rule: str, event: tuple[str, ...]) -> None:
    assert matches(pattern(rule), s3_event(*event))


@pytest.mark.parametrize(
    "event",
    [
        ("checkpoints", "Qwen/Qwen3-32B/main/model.safetensors"),
        ("results", "runs/JOB-89abcdef/blocks/0001.result.json"),
        ("results", STATE_KEY),
        ("results", UNREADABLE_STATE_KEY),
        ("results", "published/runs/JOB/blocks/0001.result.json.json"),
        ("checkpoints", "runs/JOB-89abcdef/run.json"),
        ("checkpoints", "control/canary/JOB/baseline.json"),
        ("results", "runs/JOB-89abcdef/journal/0001-0000-started.json"),
    ],
)
def test_the_function_sleeps_through_the_rest(event: tuple[str, ...]) -> None:
    rules = ("Staged", "Reported", "RunOver", "Stopped")
    assert not any(matches(pattern(rule), s3_event(*event)) for rule in rules)


@pytest.mark.parametrize(
    ("group", "woken"),
    [("eks-draftworth-qwen3-32b-accelerator-spot-0a1b", True), ("eks-draftworth-other-1", False)],
)
def test_its_own_node_groups_instances_wake_it(group: str, woken: bool) -> None:
    event = {
        "source": "aws.autoscaling",
        "detail-type": "EC2 Instance Launch Unsuccessful",
        "detail": {"AutoScalingGroupName": group},
    }
    assert matches(pattern("NodesChanged"), event) is woken


def test_no_function_may_change_the_notifications_of_buckets() -> None:
    everything = [line for _, t in synthesis().templates() for line in rights(t)]
    assert not [line for line in everything if "s3:PutBucketNotification" in line]


# Its notifications


@pytest.mark.parametrize("name", NAMES)
def test_the_experiments_address_if_any_is_subscribed(name: str) -> None:
    subscriptions = of_type(benchmark(name), "AWS::SNS::Subscription").values()
    endpoints = [s["Properties"]["Endpoint"] for s in subscriptions]
    address = experiments()[name].spec.aws.notify_email
    assert endpoints == ([address] if address else [])
