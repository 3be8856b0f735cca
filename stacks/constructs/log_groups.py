"""Log groups that a stack owns, so that they go with it.

A service creates a missing log group by itself, without expiry, and nobody deletes it. So each is
made first under the name that its writer uses, and deleted after its writer.
"""

from typing import cast

from aws_cdk import CfnResource, RemovalPolicy, aws_logs
from constructs import Construct, IConstruct

RETENTION = aws_logs.RetentionDays.ONE_MONTH


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
