"""IAM roles of pods (EKS Pod Identity), policy statements, and accepted findings.

Findings come from cdk-nag and from CDK's own validation; each is accepted with a reason.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from aws_cdk import Acknowledgment, Stack, Validations, aws_iam, aws_s3
from constructs import Construct, IConstruct

AWS_MANAGED_POLICY = "arn:<AWS::Partition>:iam::aws:policy/"
OBJECTS_OF_A_FOLDER = (
    "Objects of one folder of one bucket: their names are not known before they are written."
)
POD_IDENTITY_PRINCIPAL = "pods.eks.amazonaws.com"
# A condition for `s3:PutObject` under which no object is replaced: a request must have the header
# `If-None-Match`, for which S3 accepts only `*`. Requests of a multipart upload cannot have it and
# are refused ("Enforce conditional writes", Amazon S3 User Guide), so an object is put as a whole.
CREATED_NOT_REPLACED: Mapping[str, Any] = {"Null": {"s3:if-none-match": "false"}}


def pod_role(
    scope: Construct,
    id_: str,
    *,
    description: str,
    cluster_name: str,
    namespace: str,
    service_account: str,
) -> aws_iam.Role:
    """Return a role that EKS Pod Identity can assume for one service account of one cluster only.

    The conditions compare the tags that Pod Identity sets on each session, as AWS documents it
    ("Create IAM role with trust policy", "Target IAM roles", EKS User Guide). The cluster's ARN
    includes account and region. `aws:SourceArn` is not used: AWS documents its value only for other
    EKS principals, and with a guessed value volumes got no credentials
    (awslabs/mountpoint-s3-csi-driver, issue 781).
    """
    cluster = Stack.of(scope).format_arn(
        service="eks", resource="cluster", resource_name=cluster_name
    )
    tags = {
        "eks-cluster-arn": cluster,
        "kubernetes-namespace": namespace,
        "kubernetes-service-account": service_account,
    }
    conditions = {"StringEquals": {f"aws:RequestTag/{key}": tags[key] for key in tags}}
    principal = aws_iam.ServicePrincipal(POD_IDENTITY_PRINCIPAL, conditions=conditions)
    return aws_iam.Role(
        scope,
        id_,
        assumed_by=cast(aws_iam.IPrincipal, principal.with_session_tags()),
        description=description,
    )


def allow(
    sid: str | None,
    actions: Sequence[str],
    resources: Sequence[str],
    conditions: Mapping[str, Any] | None = None,
) -> aws_iam.PolicyStatement:
    """Return a policy statement that allows `actions` on `resources` under `conditions`.

    sid: the statement's id in the policy; None: it has none. resources: ARNs, or patterns of ARNs.
    conditions: {operator: {condition key: value}}; None: the statement always holds.
    """
    return aws_iam.PolicyStatement(
        sid=sid, actions=list(actions), resources=list(resources), conditions=conditions
    )


def grant(role: aws_iam.Role, *statements: aws_iam.PolicyStatement) -> None:
    """Add policy statements to a role."""
    for statement in statements:
        role.add_to_policy(statement)


def accept(construct: IConstruct, *finding_ids: str, reason: str) -> None:
    """Accept cdk-nag's findings on a construct and on all constructs in its subtree.

    finding_ids: such as `AwsSolutions-S1`. reason: why they are accepted, which the report shows.
    """
    rules = [
        Acknowledgment(id=f"AwsSolutions::{finding_id}", reason=reason)
        for finding_id in finding_ids
    ]
    Validations.of(construct).acknowledge(*rules)


def accept_managed_policies(construct: IConstruct, *names: str, reason: str) -> None:
    """Accept cdk-nag's finding that a construct's role has AWS managed policies.

    names: the policies' names, such as `AmazonEKS_CNI_Policy`. reason: why this is accepted.
    """
    ids = (f"AwsSolutions-IAM4[Policy::{AWS_MANAGED_POLICY}{name}]" for name in names)
    accept(construct, *ids, reason=reason)


def accept_folders(role: IConstruct, bucket: aws_s3.IBucket, *folders: str) -> None:
    """Accept cdk-nag's finding that the role may use all objects that match patterns of keys.

    folders: the patterns, such as `runs/*`.
    """
    arn = Stack.of(bucket).resolve(bucket.bucket_arn)
    # The ARN of a bucket that an earlier stack has left is text already.
    name = arn if isinstance(arn, str) else f"<{'.'.join(arn['Fn::GetAtt'])}>"
    ids = (f"AwsSolutions-IAM5[Resource::{name}/{folder}]" for folder in folders)
    accept(role, *ids, reason=OBJECTS_OF_A_FOLDER)
