"""IAM roles that pods take on through EKS Pod Identity: one for each service account."""

from __future__ import annotations

from typing import cast

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
