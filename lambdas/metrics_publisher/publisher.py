"""Publishes a result file to CloudWatch, so that its values are counted once.

The guarantee: however often and by however many invocations at once a file is published, each of
its PutMetricData calls is repeated only if nobody can know whether it succeeded. PutMetricData is
not idempotent, SQS delivers at least once, and two deliveries can run at the same time. So every
file has a claim: a small JSON object `published/<key of the file>.json` in the same bucket, changed
by conditional writes, with the number of the file's calls that are done. The claim is written after
each call, and the next delivery continues after the last recorded call. (Powertools for AWS Lambda
would need a DynamoDB table and a layer, and records only whether a message is done.) A claim has a
lease until `CLOCK_SKEW_SECONDS` after the end of the invocation that holds it. Lambda kills an
invocation at its end, so none uses an expired lease.

The exception: a call that CloudWatch accepted, but whose success was not recorded. Either the
function died, or could not reach S3, before it wrote the claim; or CloudWatch's answer was lost (a
read time-out, or a 5xx in its place) and boto3 or the next delivery sent the call again. Then the
values of that ONE call count twice: the minute's minimum and maximum stay, its Sum and SampleCount
grow. No value is ever lost. The log has `may_repeat_a_call` if a delivery takes a file over after
an invocation died. Result files do not change, and the report reads only them.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from draftworth.metrics.definitions import NAMESPACE
from draftworth.records import results
from draftworth.records.codec import RecordError, load_record
from draftworth.records.findings import Verdict
from draftworth.untrusted import TooLargeError, read_at_most
from lambdas.metrics_publisher.metric_data_calls import Plan, plan_block, plan_verdict
from lambdas.metrics_publisher.publish_errors import (
    ClaimedError,
    NotNowError,
    PublishError,
    UnusableError,
)
from lambdas.metrics_publisher.s3_events import ObjectCreated
from lambdas.s3_document import ConflictError, DocumentError, S3Document, Stored

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_s3 import S3Client

# How old and how far ahead a time may be for CloudWatch (PutMetricData), less a minute.
OLDEST_SECONDS = 14 * 24 * 3600 - 60
NEWEST_SECONDS = 2 * 3600 - 60
# How far the clocks of two invocations may differ.
CLOCK_SKEW_SECONDS = 30.0
# In these last seconds before its end, an invocation begins no further call.
RESERVE_SECONDS = 5.0

_FAILURES = (PublishError, ConflictError, ClientError, BotoCoreError)
F = TypeVar("F", results.BlockResult, Verdict)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """How many PutMetricData calls of a file are done, and until when an invocation may make more.

    written_by: a random id, by which a writer recognizes its own write.
    source_sha256: hash of the file's bytes; no ETag is used, because SSE-KMS changes ETags.
    plan_sha256: hash of the calls that publish the file.
    calls, calls_done: how many calls are planned, and how many have certainly succeeded.
    lease_until_unix_s: the end of the lease; 0 if the invocation has ended the lease itself.
    """

    schema: str = "draftworth.published/2"
    written_by: str = ""
    source_sha256: str
    plan_sha256: str
    calls: int
    calls_done: int
    lease_until_unix_s: float


@dataclass(frozen=True, kw_only=True)
class Publication:
    """What was published of a file at one delivery of its SQS message.

    calls: PutMetricData calls made by this delivery; 0 if the file was published already.
    already_done: calls that earlier deliveries had made.
    may_repeat_a_call: whether an earlier invocation died while it published the file.
    words: a verdict's decision and headline, then the sentences of its findings; empty for a block.
    """

    calls: int
    already_done: int
    may_repeat_a_call: bool = False
    words: tuple[str, ...] = ()


@dataclass(kw_only=True)
class Publisher:
    """Publishes the result files of one bucket; `clock` gives Unix seconds."""

    s3: S3Client
    cloudwatch: CloudWatchClient
    bucket: str
    clock: Callable[[], float] = time.time

    def publish(self, source: ObjectCreated, *, deadline_unix_s: float) -> Publication:
        """Publish one file, unless an earlier delivery of its message has published it.

        source: the file, as the message names it.
        After any error but UnusableError the next delivery can succeed.
        deadline_unix_s: when Lambda ends this invocation.
        """
        self._check_source(source)
        data, written_at_unix_s = self._read(source.key)
        plan = _plan(source.key, data, written_at_unix_s)
        try:
            return self._publish_once(source.key, data, plan, deadline_unix_s)
        except ConflictError as error:
            raise ClaimedError("claimed_now", why=error) from error
        except DocumentError as error:
            raise UnusableError("not_a_claim", why=error) from error

    def _read(self, key: str) -> tuple[bytes, float]:
        try:
            response = self.s3.get_object(Bucket=self.bucket, Key=key)
            data = read_at_most(response["Body"], results.RESULT_LIMIT_BYTES)
            return data, response["LastModified"].timestamp()
        except self.s3.exceptions.NoSuchKey as error:
            raise UnusableError("gone", key=key, bucket=self.bucket) from error
        except TooLargeError as error:
            raise UnusableError("not_a_result", why=error) from error

    def _publish_once(
        self, key: str, data: bytes, plan: Plan, deadline_unix_s: float
    ) -> Publication:
        claims = S3Document(
            s3=self.s3,
            bucket=self.bucket,
            key=results.claim_key(key),
            kind=Claim,
            repair=f"it says how much of {key} is published: restore it, or delete it to publish "
            "the file from the start",
        )
        stored, done = claims.read(), 0
        sha256 = hashlib.sha256(data).hexdigest()
        if stored is not None:
            done = stored.document.calls_done
            _check_same_file(key, stored.document, sha256)
            if done == stored.document.calls:
                return Publication(calls=0, already_done=done, words=plan.words)
        self._check_timestamps(plan)
        if stored is not None:
            self._check_free(key, stored.document, plan)
        claim = Claim(
            source_sha256=sha256,
            plan_sha256=plan.sha256,
            calls=len(plan.calls),
            calls_done=done,
            lease_until_unix_s=deadline_unix_s + CLOCK_SKEW_SECONDS,
        )
        self._put(claims, claims.write(claim, over=stored), plan, deadline_unix_s)
        return Publication(
            calls=len(plan.calls) - done,
            already_done=done,
            may_repeat_a_call=stored is not None and stored.document.lease_until_unix_s > 0,
            words=plan.words,
        )

    def _check_free(self, key: str, claim: Claim, plan: Plan) -> None:
        seconds_left = claim.lease_until_unix_s - self.clock()
        if seconds_left > 0:
            raise ClaimedError("claimed", claim=claim, seconds=seconds_left)
        if claim.calls_done and claim.plan_sha256 != plan.sha256:
            claim_key = results.claim_key(key)
            raise UnusableError("another_grouping", claim=claim, claim_key=claim_key)

    def _put(
        self, claims: S3Document[Claim], held: Stored[Claim], plan: Plan, deadline_unix_s: float
    ) -> None:
        claim = held.document
        try:
            for call in plan.calls[claim.calls_done :]:
                if self.clock() > deadline_unix_s - RESERVE_SECONDS:
                    raise NotNowError("no_time_left", claim=claim, seconds=RESERVE_SECONDS)
                self.cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=list(call))
                claim = replace(claim, calls_done=claim.calls_done + 1)
                held = claims.write(claim, over=held)
        except _FAILURES:
            # End the lease, so the next delivery goes on at once. If this fails, the lease expires.
            with contextlib.suppress(*_FAILURES):
                claims.write(replace(claim, lease_until_unix_s=0.0), over=held)
            raise

    def _check_source(self, source: ObjectCreated) -> None:
        if source.bucket != self.bucket:
            raise UnusableError("another_bucket", given=source.bucket, allowed=self.bucket)
        if not any(fnmatchcase(source.key, pattern) for pattern in results.PUBLISHED_FILES):
            allowed = ", ".join(results.PUBLISHED_FILES)
            raise UnusableError("another_key", given=source.key, allowed=allowed)

    def _check_timestamps(self, plan: Plan) -> None:
        if plan.first_minute is None or plan.last_minute is None:
            return
        now = self.clock()
        first, last = plan.first_minute, plan.last_minute
        if first < now - OLDEST_SECONDS:
            raise UnusableError("too_old", minute=_utc(first), now=_utc(now))
        if last > now + NEWEST_SECONDS:
            raise UnusableError("too_new", minute=_utc(last), now=_utc(now))


def _plan(key: str, data: bytes, written_at_unix_s: float) -> Plan:
    if key.endswith(results.RESULT_SUFFIX):
        return plan_block(_load(results.BlockResult, key, data))
    return plan_verdict(_load(Verdict, key, data), written_at_unix_s=written_at_unix_s)


def _load(kind: type[F], key: str, data: bytes) -> F:
    """Return the record in a file's bytes `data`; raise UnusableError if it is invalid or a copy.

    A copy has another S3 key than its record, and its values would be counted twice.
    """
    try:
        record = load_record(kind, data)
    except RecordError as error:
        raise UnusableError("not_a_result", why=error) from error
    if key != record.key:
        raise UnusableError("copied", given=key, own=record.key)
    return record


def _check_same_file(key: str, claim: Claim, sha256: str) -> None:
    if claim.source_sha256 != sha256:
        claim_key = results.claim_key(key)
        raise UnusableError("changed", key=key, claim=claim, sha256=sha256, claim_key=claim_key)


def _utc(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="minutes")
