"""Buckets: private, TLS only, encrypted, and with a stated deletion policy."""

from typing import cast

from aws_cdk import Duration, RemovalPolicy, Tags, aws_s3
from constructs import Construct

from draftworth.experiment.naming import HOLDS_TAG
from stacks.constructs.roles import accept

ABANDONED_UPLOAD_DAYS = 1
# S3 moves nothing sooner into the class, and nothing below 128 KiB, which would cost as much as
# 128.
INFREQUENT_ACCESS_DAYS = 30
NO_ACCESS_LOG = (
    "The bucket lives as long as one experiment and is reached by a handful of roles, each limited "
    "to its folders. S3 delivers access logs hours late, into a bucket that cdk destroy has to "
    "empty and delete: it would fail on them. For a trail there are CloudTrail data events."
)
NO_ACCESS_LOG_OF_KEPT = (
    "The bucket outlives its experiment; after it no role of the stack can read it. A bucket for "
    "its access logs would have to be kept as well, and grow with nobody to empty it. For a "
    "trail there are CloudTrail data events."
)


def announce_on_event_bridge(bucket: aws_s3.Bucket) -> None:
    """Have S3 send every change in the bucket to EventBridge, where rules choose.

    The bucket's own property is set: CDK's way would add a function that may change the
    notifications of every bucket in the account.
    """
    resource = cast(aws_s3.CfnBucket, bucket.node.default_child)
    resource.add_property_override(
        "NotificationConfiguration.EventBridgeConfiguration.EventBridgeEnabled",
        True,  # noqa: FBT003
    )


def private_bucket(
    scope: Construct, *, holds: str, kept: bool, rarely_read: str | None = None
) -> aws_s3.Bucket:
    """Return a bucket.

    kept: the bucket outlives the stack, policy included; otherwise it is emptied and deleted. It
        goes all the same where the deploy that makes it fails, while nothing is in it.
    rarely_read: a folder whose files are kept for reference.

    Encrypted with S3's own keys: a key of ours would cost money after each destroy (keys are
    deleted a week later at the earliest) and keep out nobody whom the roles let in. Not versioned:
    result files are written once, artifacts are addressed by content, and checkpoints can be staged
    again. Without a name: names that CloudFormation makes collide with no bucket that was kept
    before.
    """
    bucket = aws_s3.Bucket(
        scope,
        holds.capitalize(),
        block_public_access=aws_s3.BlockPublicAccess.BLOCK_ALL,
        encryption=aws_s3.BucketEncryption.S3_MANAGED,
        enforce_ssl=True,
        minimum_tls_version=1.2,
        object_ownership=aws_s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        lifecycle_rules=_life_cycle(rarely_read),
        removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if kept else RemovalPolicy.DESTROY,
        auto_delete_objects=not kept,
    )
    Tags.of(bucket).add(HOLDS_TAG, holds)
    if kept and bucket.policy:
        # Otherwise the bucket would stay without its refusal of requests without TLS.
        bucket.policy.apply_removal_policy(RemovalPolicy.RETAIN)
    reason = NO_ACCESS_LOG_OF_KEPT if kept else NO_ACCESS_LOG
    accept(bucket, "AwsSolutions-S1", reason=reason)
    return bucket


def _life_cycle(rarely_read: str | None) -> list[aws_s3.LifecycleRule]:
    """Nothing expires. Files that are rarely read move to a cheaper class and can be read at once.

    Classes that cost still less need a request hours before a file can be read.
    """
    rules = [
        aws_s3.LifecycleRule(
            id="abandoned-uploads",
            abort_incomplete_multipart_upload_after=Duration.days(ABANDONED_UPLOAD_DAYS),
        )
    ]
    if rarely_read is not None:
        transition = aws_s3.Transition(
            storage_class=aws_s3.StorageClass.INFREQUENT_ACCESS,
            transition_after=Duration.days(INFREQUENT_ACCESS_DAYS),
        )
        moved = aws_s3.LifecycleRule(id="rarely-read", prefix=rarely_read, transitions=[transition])
        rules.append(moved)
    return rules
