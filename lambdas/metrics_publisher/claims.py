"""Claims: which invocation publishes a file, and how many of its calls are done.

PutMetricData is not idempotent, SQS delivers at least once, and two deliveries can run at the same
time. So every file has a claim, a small JSON object `published/<key of the file>.json` in the same
bucket, with conditional writes. Powertools for AWS Lambda would need a DynamoDB table and a layer,
and only knows whether a message is done, not how many calls of a file are.

A claim has a lease, which ends `CLOCK_SKEW_SECONDS` after the invocation that holds it. Lambda
kills an invocation at its end, so none uses an expired lease. `publisher.py` uses the claims.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from draftworth.records.results import claim_key
from lambdas.s3_document import Document, S3Document

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

CLOCK_SKEW_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Claim(Document):
    """How far a file is published, and until when an invocation holds it.

    source_sha256: hash of the file's bytes; an ETag changes under SSE-KMS.
    plan_sha256: hash of the calls that publish it.
    calls, calls_done: PutMetricData calls, planned and known to have succeeded.
    lease_until_unix_s: the end of the lease; 0 after it was given back.
    """

    schema: str = "draftworth.published/2"
    source_sha256: str
    plan_sha256: str
    calls: int
    calls_done: int
    lease_until_unix_s: float


def claim_document(s3: S3Client, bucket: str, key: str) -> S3Document[Claim]:
    """Return the claim of the file with this key."""
    return S3Document(
        s3=s3,
        bucket=bucket,
        key=claim_key(key),
        kind=Claim,
        repair=f"it says how much of {key} is published: restore it, or delete it to publish the "
        "file from the start",
    )
