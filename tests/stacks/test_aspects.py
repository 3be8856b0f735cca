"""The aspects give tags and log groups to resources that CDK adds, which have none without them."""

from typing import Any, cast

import aws_cdk as cdk
import pytest
from aws_cdk import aws_lambda, aws_logs
from constructs import Construct

from draftworth.experiment.naming import EXPERIMENT_TAG, PART_TAG, Names
from stacks.aspects import OwnedFunctionLogs, RawResourceTags
from tests.stacks.synthesis import Template, cdk_context, of_type, only

pytestmark = [pytest.mark.synth]
FUNCTION = "AWS::Lambda::Function"
LOG_GROUP = "AWS::Logs::LogGroup"


@pytest.fixture
def stack() -> cdk.Stack:
    # CDK's own validation is off: the resources of these tests lack properties that CloudFormation
    # requires.
    app = cdk.App(
        context=cdk_context(), analytics_reporting=False, builtin_cloud_formation_validation=False
    )
    return cdk.Stack(app, "stack")


def template(stack: cdk.Stack, *aspects: object) -> Template:
    """Add aspects to a stack, synthesize it and return its template."""
    for aspect in aspects:
        cdk.Aspects.of(stack).add(cast(cdk.IAspect, aspect))
    assembly = cast(cdk.App, stack.node.root).synth()
    written: Template = assembly.get_stack_by_name(stack.stack_name).template
    return written


def add_function(stack: cdk.Stack, log_group: aws_logs.LogGroup | None = None) -> None:
    aws_lambda.Function(
        stack,
        "Typed",
        runtime=aws_lambda.Runtime.PYTHON_3_14,
        handler="index.handler",
        code=aws_lambda.Code.from_inline("handler = print"),
        # Like a function of CDK's own framework: it sets the format of its log, but no log group.
        logging_format=aws_lambda.LoggingFormat.JSON,
        log_group=cast(aws_logs.ILogGroup | None, log_group),
    )


def add_raw(scope: Construct, type_: str) -> None:
    """Add a resource as a plain `CfnResource`, as CDK writes some: without a class of its type."""
    cdk.CfnResource(Construct(scope, "Provider"), "Raw", type=type_, properties={"Kept": "value"})


def log_group_of(function: dict[str, Any]) -> Any:
    return function["Properties"].get("LoggingConfig", {}).get("LogGroup")


def test_a_function_of_cdk_owns_its_log(stack: cdk.Stack) -> None:
    add_function(stack)
    add_raw(stack, FUNCTION)
    owned = template(stack, OwnedFunctionLogs())
    log_groups = of_type(owned, LOG_GROUP)
    functions = of_type(owned, FUNCTION).values()
    assert {log_group_of(function)["Ref"] for function in functions} == set(log_groups)
    assert len(log_groups) == len(functions) == 2
    assert {group["Properties"]["RetentionInDays"] for group in log_groups.values()} == {30}
    assert only(owned, FUNCTION, "Typed")["Properties"]["LoggingConfig"]["LogFormat"] == "JSON"


def test_without_the_aspect_no_log_is_owned(stack: cdk.Stack) -> None:
    add_function(stack)
    add_raw(stack, FUNCTION)
    functions = of_type(template(stack), FUNCTION).values()
    assert [log_group_of(function) for function in functions] == [None, None]


def test_a_function_keeps_the_log_group_it_names(stack: cdk.Stack) -> None:
    add_function(stack, aws_logs.LogGroup(stack, "Named"))
    owned = template(stack, OwnedFunctionLogs())
    (log_group,) = of_type(owned, LOG_GROUP)
    assert log_group_of(only(owned, FUNCTION)) == {"Ref": log_group}


def tagged(stack: cdk.Stack) -> Template:
    return template(stack, RawResourceTags(Names(experiment="tried")))


@pytest.mark.parametrize(
    ("type_", "as_mapping"), [("AWS::IAM::Role", False), ("AWS::SSM::Parameter", True)]
)
def test_a_raw_resource_has_tags(stack: cdk.Stack, type_: str, as_mapping: bool) -> None:
    add_raw(stack, type_)
    pairs = {EXPERIMENT_TAG: "tried", PART_TAG: "storage"}
    listed = [{"Key": key, "Value": value} for key, value in pairs.items()]
    resource = only(tagged(stack), type_)
    tags = pairs if as_mapping else listed
    assert resource["Properties"] == {"Kept": "value", "Tags": tags}


def test_without_the_aspect_a_raw_resource_has_none(stack: cdk.Stack) -> None:
    add_raw(stack, "AWS::IAM::Role")
    for key, value in Names(experiment="tried").tags("storage").items():
        cdk.Tags.of(stack).add(key, value)
    assert only(template(stack), "AWS::IAM::Role")["Properties"] == {"Kept": "value"}


def test_a_raw_resource_has_its_parts_tags(stack: cdk.Stack) -> None:
    add_raw(Construct(stack, "cluster"), "AWS::IAM::Role")
    role = only(tagged(stack), "AWS::IAM::Role")
    assert {"Key": PART_TAG, "Value": "cluster"} in role["Properties"]["Tags"]


def test_a_custom_resource_takes_no_tags(stack: cdk.Stack) -> None:
    add_raw(stack, "Custom::Tried")
    assert only(tagged(stack), "Custom::Tried")["Properties"] == {"Kept": "value"}
