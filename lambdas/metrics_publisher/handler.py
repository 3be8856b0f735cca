"""The Lambda handler of the metrics publisher: it handles each message of a batch separately.

Environment: `RESULTS_BUCKET`, the bucket whose result files are published. The event source mapping
must report batch item failures (`ReportBatchItemFailures`): then SQS delivers only failed messages
again, and a message becomes a dead letter after the queue's `maxReceiveCount` tries.

The log has one JSON line for each file (and one for a message without a file), with the message id,
bucket, key, and the reason of a failure. A verdict's line has its headline and sentences, which the
dashboard shows.
"""

import functools
import os
import time
import traceback
from collections.abc import Mapping
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from draftworth.untrusted import one_line
from lambdas.metrics_publisher.publish_errors import PublishError
from lambdas.metrics_publisher.publisher import Publication, Publisher
from lambdas.metrics_publisher.s3_events import created_object
from lambdas.runtime import CLIENT_CONFIG, Context, Log, log_line

BUCKET_VARIABLE = "RESULTS_BUCKET"
# How long an invocation may take in a rehearsal on one machine, where Lambda sets no limit.
DEFAULT_INVOCATION_SECONDS = 60.0
# Fields of a verdict's log line, which the dashboard queries.
HEADLINE_FIELD, FINDINGS_FIELD = "verdict", "findings"
# The longest text in a log line. The reason of a failure can quote two S3 keys, each of which has
# up to 1024 characters.
REASON_CHARACTERS = 2000


# Names the failed messages of a batch, `{"batchItemFailures": [{"itemIdentifier": ID}, ...]}`; SQS
# deletes all other messages of the batch.
BatchResponse = dict[str, list[dict[str, str]]]


def handler(event: Mapping[str, Any], context: Context | None) -> BatchResponse:
    """Handle one batch of messages; Lambda calls this function."""
    return handle_batch(event, context, publisher=_publisher())


def handle_batch(
    event: Mapping[str, Any], context: Context | None, *, publisher: Publisher, log: Log = log_line
) -> BatchResponse:
    """Publish the files that an SQS batch names; the response names the messages that failed.

    context: None outside Lambda; then `DEFAULT_INVOCATION_SECONDS` are left.
    """
    seconds = (
        DEFAULT_INVOCATION_SECONDS
        if context is None
        else context.get_remaining_time_in_millis() / 1000
    )
    deadline_unix_s = publisher.clock() + seconds
    failed = [
        message["messageId"]
        for message in event["Records"]
        if not _handle_message(message, publisher, log, deadline_unix_s)
    ]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}


def _handle_message(
    message: Mapping[str, Any], publisher: Publisher, log: Log, deadline_unix_s: float
) -> bool:
    about = {"message_id": message["messageId"]}
    started = time.monotonic()
    try:
        source = created_object(message["body"])
        about |= {"bucket": source.bucket, "key": source.key}
        outcome = publisher.publish(source, deadline_unix_s=deadline_unix_s)
    except Exception as error:  # noqa: BLE001 - logged with its reason, message reported as failed
        log(_failure(about, error))
        return False
    published_before = outcome.already_done > 0 and outcome.calls == 0
    log(
        {
            "level": "WARNING" if outcome.may_repeat_a_call else "INFO",
            "event": "published before" if published_before else "published",
            **about,
            "calls": outcome.calls,
            "calls_already_done": outcome.already_done,
            "may_repeat_a_call": outcome.may_repeat_a_call,
            "seconds": round(time.monotonic() - started, 3),
            **_verdict_words(outcome),
        }
    )
    return True


def _verdict_words(outcome: Publication) -> dict[str, str]:
    if not outcome.words:
        return {}
    headline, *sentences = outcome.words
    findings = one_line(" | ".join(sentences), characters=REASON_CHARACTERS)
    return {HEADLINE_FIELD: headline, FINDINGS_FIELD: findings}


def _failure(about: Mapping[str, str], error: Exception) -> dict[str, Any]:
    retry_helps = error.retry_helps if isinstance(error, PublishError) else None
    entry = {
        "level": "WARNING" if retry_helps else "ERROR",
        "event": "not published",
        **about,
        "error": type(error).__name__,
        "reason": one_line(str(error), characters=REASON_CHARACTERS),
        "retry_helps": retry_helps,
    }
    if not isinstance(error, PublishError | ClientError | BotoCoreError):
        entry["traceback"] = "".join(traceback.format_exception(error))
    return entry


@functools.cache
def _publisher() -> Publisher:
    """Make the publisher at the first event, and keep it as long as Lambda keeps the process."""
    bucket = os.environ.get(BUCKET_VARIABLE)
    if not bucket:
        raise RuntimeError(f"environment variable {BUCKET_VARIABLE} is not set on the function")
    return Publisher(
        s3=boto3.client("s3", config=CLIENT_CONFIG),
        cloudwatch=boto3.client("cloudwatch", config=CLIENT_CONFIG),
        bucket=bucket,
    )
