"""IAM roles that pods take on through EKS Pod Identity, and the statements of every role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from aws_cdk import aws_iam
from constructs import Construct

POD_IDENTITY_PRINCIPAL = "pods.eks.amazonaws.com"


def pod_role(scope: Construct, id_: str, *, description: str) -> aws_iam.Role:
    """A role that only EKS Pod Identity can hand out."""
    principal = aws_iam.ServicePrincipal(POD_IDENTITY_PRINCIPAL).with_session_tags()
    return aws_iam.Role(
        scope,
        id_,
        assumed_by=cast(aws_iam.IPrincipal, principal),
        description=description,
    )


def allow(
    sid: str | None,
    actions: Sequence[str],
    resources: Sequence[str],
    conditions: Mapping[str, Any] | None = None,
) -> aws_iam.PolicyStatement:
    """A statement that allows actions on resources."""
    return aws_iam.PolicyStatement(
        sid=sid, actions=list(actions), resources=list(resources), conditions=conditions
    )


def grant(role: aws_iam.Role, *statements: aws_iam.PolicyStatement) -> None:
    """Give a role these rights."""
    for statement in statements:
        role.add_to_policy(statement)
