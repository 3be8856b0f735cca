"""S3 buckets that are private, encrypted and TLS only, with an explicit removal policy."""

from typing import cast

from aws_cdk import Duration, RemovalPolicy, Tags, aws_s3
from constructs import Construct

from draftworth.experiment.naming import HOLDS_TAG
from stacks.constructs.roles import accept

ABANDONED_UPLOAD_DAYS = 1
# S3 allows no earlier transition to the class Infrequent Access. It does not move objects below
# 128 KiB, which would be billed there as 128 KiB.
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


def announced(bucket: aws_s3.Bucket) -> aws_s3.IBucket:
    """Make S3 send every event of the bucket to EventBridge; return the bucket.

    Rules filter the events there, and invoke the capacity controller: for example when a whole
    checkpoint is in S3. The CloudFormation property is set directly: CDK's own option would add a
    function that may change the notifications of every bucket in the account.
    """
    resource = cast(aws_s3.CfnBucket, bucket.node.default_child)
    resource.add_property_override(
        "NotificationConfiguration.EventBridgeConfiguration.EventBridgeEnabled",
        True,  # noqa: FBT003
    )
    return cast(aws_s3.IBucket, bucket)


def kept_bucket(scope: Construct, *, holds: str, name: str) -> aws_s3.IBucket:
    """Return a bucket that an earlier stack has left; this stack neither changes nor deletes it.

    Its policy, its encryption and its events on EventBridge are as that stack made them. If it has
    no such events, the capacity controller looks into it at its heartbeat all the same.
    holds: what it holds. name: its name.
    """
    return aws_s3.Bucket.from_bucket_name(scope, holds.capitalize(), name)


def private_bucket(
    scope: Construct,
    *,
    holds: str,
    kept: bool,
    rarely_read: str | None = None,
    old_version_days: int | None = None,
) -> aws_s3.Bucket:
    """Return a private bucket with the tag that says what it holds.

    holds: `checkpoints`, `artifacts` or `results`.
    kept: the bucket and its policy outlive the stack; otherwise the bucket is emptied and deleted.
        If the deploy that creates a kept bucket fails, the bucket, still empty, is deleted.
    rarely_read: a folder whose files move to the storage class Infrequent Access; None: no folder.
    old_version_days: how long S3 keeps the old version of an object that was replaced or deleted;
        None: the bucket has no versions.

    The bucket is encrypted with S3's own keys: a KMS key of ours would cost money after a destroy
    (KMS deletes a key after a week at the earliest) and would not protect better than the roles.
    CloudFormation generates the bucket's name, so that it differs from the name of a bucket that an
    earlier stack of the experiment has left.
    """
    bucket = aws_s3.Bucket(
        scope,
        holds.capitalize(),
        block_public_access=aws_s3.BlockPublicAccess.BLOCK_ALL,
        encryption=aws_s3.BucketEncryption.S3_MANAGED,
        enforce_ssl=True,
        minimum_tls_version=1.2,
        object_ownership=aws_s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        versioned=old_version_days is not None,
        lifecycle_rules=_life_cycle(rarely_read, old_version_days),
        removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if kept else RemovalPolicy.DESTROY,
        auto_delete_objects=not kept,
    )
    Tags.of(bucket).add(HOLDS_TAG, holds)
    if kept and bucket.policy:
        # Otherwise CloudFormation would delete the policy with the stack, and the kept bucket would
        # accept requests without TLS.
        bucket.policy.apply_removal_policy(RemovalPolicy.RETAIN)
    reason = NO_ACCESS_LOG_OF_KEPT if kept else NO_ACCESS_LOG
    accept(bucket, "AwsSolutions-S1", reason=reason)
    return bucket


def _life_cycle(
    rarely_read: str | None, old_version_days: int | None
) -> list[aws_s3.LifecycleRule]:
    """Return life-cycle rules that abort old multipart uploads and expire old versions alone.

    Files in the folder `rarely_read` move to the storage class Infrequent Access, which can be read
    at once. From a cheaper archive class they could be read only hours after a request.
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
    if old_version_days is not None:
        expired = aws_s3.LifecycleRule(
            id="old-versions",
            noncurrent_version_expiration=Duration.days(old_version_days),
            # The marker that a deletion leaves goes when the last version behind it has gone.
            expired_object_delete_marker=True,
        )
        rules.append(expired)
    return rules
