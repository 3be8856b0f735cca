"""Findings of cdk-nag and of CDK's own validation that are accepted, each with its reason."""

from aws_cdk import Acknowledgment, Stack, Validations, aws_s3
from constructs import IConstruct

_PLUGIN = "AwsSolutions"
AWS_MANAGED_POLICY = "arn:<AWS::Partition>:iam::aws:policy/"
OBJECTS_OF_A_FOLDER = (
    "Objects of one folder of one bucket: their names are not known before they are written."
)


def accept(construct: IConstruct, *finding_ids: str, reason: str) -> None:
    """Accept findings of cdk-nag on a construct and on what is below it."""
    rules = [
        Acknowledgment(id=f"{_PLUGIN}::{finding_id}", reason=reason) for finding_id in finding_ids
    ]
    Validations.of(construct).acknowledge(*rules)


def accept_managed_policies(construct: IConstruct, *names: str, reason: str) -> None:
    """Accept policies that AWS maintains, by name."""
    ids = (f"AwsSolutions-IAM4[Policy::{AWS_MANAGED_POLICY}{name}]" for name in names)
    accept(construct, *ids, reason=reason)


def accept_folders(role: IConstruct, bucket: aws_s3.IBucket, *folders: str) -> None:
    """Accept rights to all objects of folders (patterns in the bucket)."""
    arn = ".".join(Stack.of(bucket).resolve(bucket.bucket_arn)["Fn::GetAtt"])
    ids = (f"AwsSolutions-IAM5[Resource::<{arn}>/{folder}]" for folder in folders)
    accept(role, *ids, reason=OBJECTS_OF_A_FOLDER)
