"""An emulated AWS on loopback, with the results bucket, queue and metrics of the deployed app.

moto's server answers real boto3 calls over HTTP. As in the deployed app, a new result file in the
bucket sends a message to the queue, and the queue has a dead-letter queue.
"""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import boto3
from moto.moto_api._internal.models import moto_api_backend
from moto.server import ThreadedMotoServer

from draftworth.records.results import MAX_RECEIVE_COUNT, result_file_events

REGION: Literal["us-east-2"] = "us-east-2"
RESULTS_BUCKET = "draftworth-rehearsal-results"
_RULE = "result-files"
_CONFIGURATION_FILES = ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")


@dataclass(frozen=True, kw_only=True)
class Emulator:
    """boto3 clients of the emulated AWS, and the URLs of its queues."""

    s3: Any
    sqs: Any
    cloudwatch: Any
    queue_url: str
    dead_letter_queue_url: str


@contextmanager
def embedded_aws() -> Iterator[Emulator]:
    """Start the emulated AWS with bucket, queues and event rule; stop it at the end."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else it logs each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        moto_api_backend.reset()  # all servers of a process share moto's state
        with _without_aws_configuration():
            yield _create(f"http://{host}:{port}")
    finally:
        server.stop()


def _create(endpoint_url: str) -> Emulator:
    session = boto3.Session(
        aws_access_key_id="rehearsal", aws_secret_access_key="rehearsal", region_name=REGION
    )
    s3 = session.client("s3", endpoint_url=endpoint_url)
    sqs = session.client("sqs", endpoint_url=endpoint_url)
    cloudwatch = session.client("cloudwatch", endpoint_url=endpoint_url)
    s3.create_bucket(
        Bucket=RESULTS_BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
    )
    dead_letter_url = sqs.create_queue(QueueName="results-dead-letters")["QueueUrl"]
    dead_letters = _arn(sqs, dead_letter_url)
    redrive = {"deadLetterTargetArn": dead_letters, "maxReceiveCount": MAX_RECEIVE_COUNT}
    queue_url = sqs.create_queue(
        QueueName="results",
        Attributes={"RedrivePolicy": json.dumps(redrive), "VisibilityTimeout": "0"},
    )["QueueUrl"]
    s3.put_bucket_notification_configuration(
        Bucket=RESULTS_BUCKET, NotificationConfiguration={"EventBridgeConfiguration": {}}
    )
    events = session.client("events", endpoint_url=endpoint_url)
    events.put_rule(Name=_RULE, EventPattern=json.dumps(result_file_events(RESULTS_BUCKET)))
    events.put_targets(Rule=_RULE, Targets=[{"Id": "queue", "Arn": _arn(sqs, queue_url)}])
    return Emulator(
        s3=s3,
        sqs=sqs,
        cloudwatch=cloudwatch,
        queue_url=queue_url,
        dead_letter_queue_url=dead_letter_url,
    )


@contextmanager
def _without_aws_configuration() -> Iterator[None]:
    """Hide the user's AWS configuration, which moto would read too and which may be invalid."""
    names = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", *_CONFIGURATION_FILES)
    before = {name: os.environ.pop(name) for name in names if name in os.environ}
    os.environ.update(dict.fromkeys(_CONFIGURATION_FILES, os.devnull))
    try:
        yield
    finally:
        for name in _CONFIGURATION_FILES:
            del os.environ[name]
        os.environ.update(before)


def _arn(sqs: Any, queue_url: str) -> str:
    attributes = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])
    return str(attributes["Attributes"]["QueueArn"])
