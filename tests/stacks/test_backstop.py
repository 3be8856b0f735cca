"""The backstop: when it begins, what it asks EKS for, and what a later deploy does with it."""

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template
from botocore.validate import ParamValidator

from draftworth.records.codec import load_record
from draftworth.records.deployment import CapacityPlan
from stacks.constructs.backstop import LONGEST_DEPLOY_MINUTES, backstop
from tests.lambdas.capacity_controller.fakes import model_of
from tests.lambdas.capacity_controller.plans import make_plan
from tests.stacks.synthesis import SYNTHESIZED_AT, benchmark, experiments, of_type, only

pytestmark = [pytest.mark.synth]
SCHEDULE = "AWS::Scheduler::Schedule"
GROUP_ARN = "arn:aws:eks:us-east-2:111122223333:nodegroup/c/n/0a1b"


def of(name: str) -> dict[str, Any]:
    properties: dict[str, Any] = only(benchmark(name), SCHEDULE, "Backstop")["Properties"]
    return properties


def made(synthesized_at: datetime) -> dict[str, dict[str, Any]]:
    """Return the backstops, {logical id: resource}, of a stack with nothing else."""
    stack = cdk.Stack()
    role = cdk.aws_iam.Role(
        stack, "Role", assumed_by=cdk.aws_iam.ServicePrincipal("scheduler.amazonaws.com")
    )
    backstop(
        stack,
        plan=make_plan(),
        nodegroup_arn=GROUP_ARN,
        group_name="schedules",
        role=role,
        synthesized_at=synthesized_at,
    )
    template: dict[str, Any] = dict(Template.from_stack(stack).to_json())
    return of_type(template, SCHEDULE)


@pytest.mark.parametrize("name", tuple(experiments()))
def test_it_comes_after_every_deadline(name: str) -> None:
    deployment = only(benchmark(name), "Custom::DraftworthDeployment")["Properties"]
    plan = load_record(CapacityPlan, deployment["Plan"])
    begins = datetime.fromisoformat(of(name)["StartDate"])
    last_deploy = SYNTHESIZED_AT.replace(second=0) + timedelta(minutes=LONGEST_DEPLOY_MINUTES)
    assert begins - last_deploy == timedelta(minutes=plan.deadline_minutes)


@pytest.mark.parametrize("name", tuple(experiments()))
def test_eks_takes_its_request_for_zero(name: str) -> None:
    def in_eks_words(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key[0].lower() + key[1:]: in_eks_words(item) for key, item in value.items()}

    request = in_eks_words(json.loads(of(name)["Target"]["Input"]))
    model = model_of("eks", "UpdateNodegroupConfig")
    assert not ParamValidator().validate(request, model.input_shape).has_errors()
    assert request["scalingConfig"] == {"minSize": 0, "maxSize": 1, "desiredSize": 0}
    assert request["nodegroupName"] == experiments()[name].names.node_group(
        experiments()[name].spec.aws.capacity.kind
    )


def test_no_node_starts_before_it_exists() -> None:
    (backstop_id,) = (k for k in of_type(benchmark(), SCHEDULE) if "Backstop" in k)
    assert backstop_id in only(benchmark(), "Custom::DraftworthDeployment")["DependsOn"]


def test_a_later_deploy_updates_no_schedule() -> None:
    """A rollback would set a `StartDate` again that is past by then, which AWS refuses."""
    earlier, later = made(SYNTHESIZED_AT), made(SYNTHESIZED_AT + timedelta(minutes=1))
    assert not earlier.keys() & later.keys()


def test_the_machines_time_zone_changes_nothing() -> None:
    elsewhere = SYNTHESIZED_AT.astimezone(timezone(timedelta(hours=9)))
    assert made(elsewhere) == made(SYNTHESIZED_AT)
