"""Log groups that a stack owns, so that they go with it, and the functions that write them.

A service creates a missing log group by itself, without expiry, and nobody deletes it. So each is
made first under the name that its writer uses, and deleted after its writer.
"""

from collections.abc import Mapping
from typing import cast

from aws_cdk import (
    CfnResource,
    Duration,
    RemovalPolicy,
    aws_cloudwatch,
    aws_iam,
    aws_lambda,
    aws_logs,
)
from constructs import Construct, IConstruct

RETENTION = aws_logs.RetentionDays.ONE_MONTH
MEMORY_MIB = 512


def owned_log_group(
    scope: Construct, id_: str, *, log_group_name: str | None = None
) -> aws_logs.LogGroup:
    """Return a log group that keeps lines for a month and goes with its stack."""
    return aws_logs.LogGroup(
        scope,
        id_,
        log_group_name=log_group_name,
        retention=RETENTION,
        removal_policy=RemovalPolicy.DESTROY,
    )


def own_function_logs(function: IConstruct, *, scope: Construct, id_: str) -> None:
    """Send a function's log to an owned group; for functions of CDK that take no log group.

    function: the CloudFormation resource or the construct around it. It refers to the group, and so
        is created after it and deleted before it.
    """
    group = owned_log_group(scope, id_)
    resource = cast(CfnResource, function.node.default_child or function)
    resource.add_property_override("LoggingConfig.LogGroup", group.log_group_name)


def function_role(
    scope: Construct, *, log_group: aws_logs.LogGroup, description: str
) -> aws_iam.Role:
    """Return the role of a function, with the right to write its log.

    CDK's basic execution policy is left out, because it may create log groups: a line that is
    written after the group was destroyed would bring it back.
    """
    role = aws_iam.Role(
        scope,
        "Role",
        assumed_by=aws_iam.ServicePrincipal("lambda.amazonaws.com"),
        description=description,
    )
    log_group.grant_write(role)
    return role


def python_function(
    scope: Construct,
    *,
    description: str,
    handler: str,
    code: aws_lambda.Code,
    role: aws_iam.Role,
    log_group: aws_logs.LogGroup,
    timeout: Duration,
    environment: Mapping[str, str],
) -> aws_lambda.Function:
    """Return a function of this repository's code."""
    return aws_lambda.Function(
        scope,
        "Function",
        description=description,
        runtime=aws_lambda.Runtime.PYTHON_3_14,
        architecture=aws_lambda.Architecture.ARM_64,
        handler=handler,
        code=code,
        role=cast(aws_iam.IRole, role),
        log_group=cast(aws_logs.ILogGroup, log_group),
        timeout=timeout,
        memory_size=MEMORY_MIB,
        environment=dict(environment),
    )


def failure_alarm(
    scope: Construct, id_: str, description: str, metric: aws_cloudwatch.Metric, *, periods: int = 1
) -> aws_cloudwatch.Alarm:
    """Return an alarm for a count that is above 0 in so many periods in a row."""
    return aws_cloudwatch.Alarm(
        scope,
        id_,
        alarm_description=description,
        metric=metric,
        threshold=0,
        comparison_operator=aws_cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        evaluation_periods=periods,
        treat_missing_data=aws_cloudwatch.TreatMissingData.NOT_BREACHING,
    )
