"""Buckets: private, TLS only, encrypted, and with a stated deletion policy."""

from __future__ import annotations

from typing import cast

from aws_cdk import Duration, RemovalPolicy, aws_s3
from constructs import Construct

from stacks.constructs.accepted_findings import accept

ABANDONED_UPLOAD_DAYS = 1
NO_ACCESS_LOG = (
    "The bucket lives as long as one experiment and is reached by a handful of roles, each limited "
    "to its folders. S3 delivers access logs hours late, into a bucket that cdk destroy has to "
    "empty and delete: it would fail on them. CloudTrail data events serve who wants a trail."
)
NO_ACCESS_LOG_OF_KEPT = (
    "The bucket outlives its experiment and holds copies of published checkpoints, which one role "
    "may read. A bucket for its access logs would have to be kept as well, and grow with nobody to "
    "empty it. CloudTrail data events serve who wants a trail."
)


def announce_on_event_bridge(bucket: aws_s3.Bucket) -> None:
    """Have S3 send every change in the bucket to EventBridge; rules choose from it.

    Written on the bucket itself, beside what notifications it has: CDK's way would bring a function
    that may change the notifications of every bucket in the account.
    """
    resource = cast(aws_s3.CfnBucket, bucket.node.default_child)
    resource.add_property_override(
        "NotificationConfiguration.EventBridgeConfiguration.EventBridgeEnabled",
        True,  # noqa: FBT003
    )


def private_bucket(scope: Construct, id_: str, *, kept: bool) -> aws_s3.Bucket:
    """A bucket; `kept`: it outlives the stack, policy included, else it is emptied and deleted.

    Encrypted with S3's own keys: a key of ours would be paid for after each destroy (keys are
    deleted a week later at the earliest) and open nothing to fewer people than the roles already
    do. Not versioned: result files are written once, artifacts are addressed by content,
    checkpoints can be staged again; old versions would only be paid for.
    """
    bucket = aws_s3.Bucket(
        scope,
        id_,
        block_public_access=aws_s3.BlockPublicAccess.BLOCK_ALL,
        encryption=aws_s3.BucketEncryption.S3_MANAGED,
        enforce_ssl=True,
        minimum_tls_version=1.2,
        object_ownership=aws_s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        lifecycle_rules=[
            aws_s3.LifecycleRule(
                id="abandoned-uploads",
                abort_incomplete_multipart_upload_after=Duration.days(ABANDONED_UPLOAD_DAYS),
            )
        ],
        removal_policy=RemovalPolicy.RETAIN if kept else RemovalPolicy.DESTROY,
        auto_delete_objects=not kept,
    )
    if kept and bucket.policy:
        # Else the bucket would stay and its refusal of requests without TLS would go.
        bucket.policy.apply_removal_policy(RemovalPolicy.RETAIN)
    reason = NO_ACCESS_LOG_OF_KEPT if kept else NO_ACCESS_LOG
    accept(bucket, "AwsSolutions-S1", reason=reason)
    return bucket
