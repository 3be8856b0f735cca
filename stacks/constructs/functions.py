"""Runtime, log and role of every function of this app."""

from collections.abc import Mapping
from typing import cast

from aws_cdk import Duration, aws_iam, aws_lambda, aws_logs
from constructs import Construct

MEMORY_MIB = 512


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
