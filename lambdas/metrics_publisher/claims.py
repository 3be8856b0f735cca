"""Claims: who publishes a file, and how many of its calls are done.

PutMetricData is not idempotent, SQS delivers at least once, and two deliveries can run at the same
time. So every file has a claim, a small JSON object `published/<key of the file>.json` in the same
bucket, with conditional writes. It needs no further resource, where the idempotency of Powertools
for AWS Lambda needs a DynamoDB table and a layer, and knows a message as done or not done, not a
file as published up to its third call.

A claim has a lease. Its end is the end of the invocation that holds it, plus `CLOCK_SKEW_SECONDS`:
Lambda kills an invocation at its end, so nobody uses an expired lease. What is done with claims is
decided in `publisher.py`.
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
    """How far a file is published, and until when somebody works on it.

    source_sha256: of the file's bytes; an ETag will not do, it changes under SSE-KMS.
    plan_sha256: of the calls that publish it.
    calls, calls_done: PutMetricData calls, planned and known to have succeeded.
    lease_until_unix_s: until when it is held; 0 when it was given back.
    """

    schema: str = "draftworth.published/2"
    source_sha256: str
    plan_sha256: str
    calls: int
    calls_done: int
    lease_until_unix_s: float


def claim_document(s3: S3Client, bucket: str, key: str) -> S3Document[Claim]:
    """The claim of the file with this key."""
    return S3Document(
        s3=s3,
        bucket=bucket,
        key=claim_key(key),
        kind=Claim,
        repair=f"it says what of {key} is published: restore it, or delete it to publish the file "
        "from the start",
    )
