"""Claims: who publishes a file, and how far they got.

PutMetricData is not idempotent, SQS delivers at least once, and two deliveries can run at the same
time. So every file has a claim, a small JSON object `published/<key of the file>.json` in the same
bucket. S3's conditional writes make it safe: `If-None-Match: *` lets one of two deliveries create
it, `If-Match: <ETag>` lets a write through only if nobody wrote in between ("How to prevent object
overwrites with conditional writes", Amazon S3 User Guide). It needs no further resource, where the
idempotency of Powertools for AWS Lambda needs a DynamoDB table and a layer, and knows a message as
done or not done, not a file as published up to its third call.

A claim has a lease. Its end is the end of the invocation that holds it, plus `CLOCK_SKEW_SECONDS`:
Lambda kills an invocation at its end, so a lease that has run out belongs to nobody who lives.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypedDict

from botocore.exceptions import ClientError

from lambdas.metrics_publisher.errors import ClaimedError, UnusableError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

CLAIM_SCHEMA = "draftworth.published/1"
CLAIMS_FOLDER = "published"
CLOCK_SKEW_SECONDS = 30.0

_NOT_FOUND = {"NoSuchKey", "404"}
# 412: the condition does not hold. 409: another conditional write is under way. 404: If-Match on an
# object that is gone.
_CONFLICTS = _NOT_FOUND | {"PreconditionFailed", "412", "ConditionalRequestConflict", "409"}


class _Condition(TypedDict, total=False):
    IfNoneMatch: str
    IfMatch: str


@dataclass(frozen=True, kw_only=True)
class Claim:
    """How far a file is published, and by whom.

    source_sha256: of the file's bytes; an ETag will not do, it changes under SSE-KMS.
    plan_sha256: of the calls that publish it.
    calls, calls_done: PutMetricData calls, planned and known to have succeeded.
    holder: the delivery that holds it, a random id.
    lease_until_unix_s: until when it is held; 0 when it was given back.
    """

    schema: str = CLAIM_SCHEMA
    source_sha256: str
    plan_sha256: str
    calls: int
    calls_done: int
    holder: str
    lease_until_unix_s: float

    @property
    def published(self) -> bool:
        """All of the file is in CloudWatch."""
        return self.calls_done == self.calls


@dataclass(frozen=True, kw_only=True)
class StoredClaim:
    """A claim as it is in the bucket, with the ETag that the next write must match."""

    claim: Claim
    etag: str


def claim_key(key: str) -> str:
    """Where the claim of a file is. Outside the prefix of result files: it raises no event."""
    return f"{CLAIMS_FOLDER}/{key}.json"


class ClaimStore:
    """Reads and writes the claims of one bucket."""

    def __init__(self, *, s3: S3Client, bucket: str) -> None:
        self._s3 = s3
        self._bucket = bucket

    def read(self, key: str) -> StoredClaim | None:
        """The claim of a file, None if there is none."""
        try:
            answer = self._s3.get_object(Bucket=self._bucket, Key=claim_key(key))
        except ClientError as error:
            if _code(error) in _NOT_FOUND:
                return None
            raise
        return StoredClaim(claim=_parse(answer["Body"].read(), key), etag=answer["ETag"])

    def write(self, key: str, claim: Claim, *, over: StoredClaim | None) -> StoredClaim:
        """Write a claim over the one that was read, or where there was none.

        Raises:
            ClaimedError: somebody else wrote in between.
        """
        condition: _Condition = {"IfNoneMatch": "*"} if over is None else {"IfMatch": over.etag}
        body = json.dumps(asdict(claim), indent=1).encode() + b"\n"
        try:
            answer = self._s3.put_object(
                Bucket=self._bucket,
                Key=claim_key(key),
                Body=body,
                ContentType="application/json",
                **condition,
            )
        except ClientError as error:
            if _code(error) not in _CONFLICTS:
                raise
            return self._own_write(key, claim, error)
        return StoredClaim(claim=claim, etag=answer["ETag"])

    def _own_write(self, key: str, claim: Claim, conflict: ClientError) -> StoredClaim:
        """boto3 repeats a write whose answer got lost, and then meets its own first try."""
        stored = self.read(key)
        if stored is not None and stored.claim == claim:
            return stored
        raise ClaimedError(
            f"another delivery claimed the file at this moment ({_code(conflict)}); "
            "the next delivery of this message finds it published or goes on with it"
        ) from conflict


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _parse(data: bytes, key: str) -> Claim:
    try:
        claim = Claim(**json.loads(data))
    except (ValueError, TypeError) as error:
        raise UnusableError(
            f"{claim_key(key)} is not a claim ({error}); it says what of {key} is published, "
            "restore it, or delete it to publish the file from the start"
        ) from error
    if claim.schema != CLAIM_SCHEMA:
        raise UnusableError(
            f"{claim_key(key)}: schema: given {claim.schema!r}, allowed {CLAIM_SCHEMA!r}"
        )
    return claim
