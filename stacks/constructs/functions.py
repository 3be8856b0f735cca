"""Lambda functions, and log groups that belong to the stack and are deleted with it.

An AWS service creates a missing log group itself; that group has no retention and is never deleted.
So the stack creates a log group before the resource that writes to it, and deletes the group later.
"""

from collections.abc import Mapping
from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch, aws_iam, aws_lambda, aws_logs
from constructs import Construct

RETENTION = aws_logs.RetentionDays.ONE_MONTH
MEMORY_MIB = 512


def owned_log_group(
    scope: Construct, id_: str, *, log_group_name: str | None = None
) -> aws_logs.LogGroup:
    """Return a log group that keeps events for a month and is deleted with its stack."""
    return aws_logs.LogGroup(
        scope,
        id_,
        log_group_name=log_group_name,
        retention=RETENTION,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )


def function_role(
    scope: Construct, *, log_group: aws_logs.LogGroup, description: str
) -> aws_iam.Role:
    """Return the role of a function, with the right to write its log.

    The role lacks CDK's basic execution policy, which allows the creation of log groups: a late log
    event would create the group again after the stack has deleted it.
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
    timeout: cdk.Duration,
    environment: Mapping[str, str],
) -> aws_lambda.Function:
    """Return a Lambda function that runs a Python function of this repository.

    handler: the dotted path of the Python function. code: the package with its module.
    role, log_group: as `function_role` and `owned_log_group` make them.
    environment: {variable: value}.
    """
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
    """Return an alarm that fires when `metric` is above 0 in `periods` periods in a row."""
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
