"""Emulates the AWS services that the publisher uses: bucket, EventBridge, queues, metrics."""

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from draftworth.metrics.definitions import NAMESPACE, TTFT, Metric, dimension_values
from draftworth.records.codec import dump_record
from draftworth.records.results import MAX_RECEIVE_COUNT, BlockResult, claim_key, result_file_events
from lambdas.metrics_publisher.handler import BatchResponse, handle_batch
from lambdas.metrics_publisher.publisher import Publication, Publisher
from lambdas.metrics_publisher.s3_events import ObjectCreated
from tests.support.blocks import START_UNIX_S

BUCKET = "results-111122223333"


@functools.cache
def _session() -> boto3.Session:
    """Return one session for all tests: every new session parses the services' models again."""
    return boto3.Session()


def key_of(block: BlockResult) -> str:
    return f"runs/{block.run_id}/blocks/{block.stem}.result.json"


class KilledError(BaseException):
    """Stands for a process that dies: no code may catch this."""


class Aws:
    """Real boto3 clients of an emulated account, and the publisher that uses them."""

    def __init__(self) -> None:
        self.now = START_UNIX_S + 3600
        self.log: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.s3: Any = _session().client("s3")
        self.cloudwatch: Any = _session().client("cloudwatch")
        self.cloudwatch.meta.events.register(
            "provide-client-params.cloudwatch.PutMetricData",
            lambda params, **_: self.calls.append(params),
        )
        self.publisher = Publisher(
            s3=self.s3, cloudwatch=self.cloudwatch, bucket=BUCKET, clock=lambda: self.now
        )
        self.s3.create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-east-2"}
        )

    def connect(self) -> None:
        """Make EventBridge send the bucket's events to the queue."""
        self.sqs: Any = _session().client("sqs")
        self.dead_letters = self.sqs.create_queue(QueueName="dead")["QueueUrl"]
        redrive = {
            "deadLetterTargetArn": self._queue_arn(self.dead_letters),
            "maxReceiveCount": MAX_RECEIVE_COUNT,
        }
        self.queue = self.sqs.create_queue(
            QueueName="results",
            Attributes={"RedrivePolicy": json.dumps(redrive), "VisibilityTimeout": "0"},
        )["QueueUrl"]
        self.s3.put_bucket_notification_configuration(
            Bucket=BUCKET, NotificationConfiguration={"EventBridgeConfiguration": {}}
        )
        events = _session().client("events")
        events.put_rule(Name="results", EventPattern=json.dumps(result_file_events(BUCKET)))
        targets = [{"Id": "queue", "Arn": self._queue_arn(self.queue)}]
        events.put_targets(Rule="results", Targets=targets)

    def _queue_arn(self, url: str) -> str:
        names = ["QueueArn"]
        arn: str = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"][
            "QueueArn"
        ]
        return arn

    def upload(self, block: BlockResult) -> str:
        return self.upload_bytes(key_of(block), dump_record(block))

    def upload_bytes(self, key: str, data: bytes) -> str:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=data)
        return key

    def publish(self, key: str, *, seconds: float = 60.0) -> Publication:
        source = ObjectCreated(bucket=BUCKET, key=key)
        return self.publisher.publish(source, deadline_unix_s=self.now + seconds)

    def claim(self, key: str) -> dict[str, Any]:
        answer = self.s3.get_object(Bucket=BUCKET, Key=claim_key(key))
        claim: dict[str, Any] = json.loads(answer["Body"].read())
        return claim

    def handle(self, event: dict[str, Any], *, seconds: float = 60.0) -> BatchResponse:
        context = SimpleNamespace(get_remaining_time_in_millis=lambda: int(seconds * 1000))
        return handle_batch(
            event, context, publisher=self.publisher, log=lambda entry: self.log.append(dict(entry))
        )

    def messages(self, url: str) -> list[Any]:
        messages: list[Any] = self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get(
            "Messages", []
        )
        return messages

    def deliver(self) -> BatchResponse:
        """Handle one batch of messages as Lambda's event source mapping does."""
        messages = self.messages(self.queue)
        records = [{"messageId": m["MessageId"], "body": m["Body"]} for m in messages]
        answer = self.handle({"Records": records})
        failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        for message in messages:
            if message["MessageId"] not in failed:
                self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
        return answer

    def read(self, block: BlockResult, metric: Metric, statistic: str) -> dict[datetime, float]:
        """Return one statistic by minute, as a dashboard reads it."""
        return self.read_by(
            dimension_values(block), metric.name, statistic, since_unix_s=block.started_at_unix_s
        )

    def read_by(
        self, dimensions: Mapping[str, str], metric: str, statistic: str, *, since_unix_s: float
    ) -> dict[datetime, float]:
        start = datetime.fromtimestamp(since_unix_s, UTC) - timedelta(minutes=2)
        named = {
            "Namespace": NAMESPACE,
            "MetricName": metric,
            "Dimensions": [{"Name": n, "Value": v} for n, v in dimensions.items()],
        }
        answer = self.cloudwatch.get_metric_data(
            StartTime=start,
            EndTime=start + timedelta(hours=12),
            ScanBy="TimestampAscending",
            MetricDataQueries=[
                {"Id": "m", "MetricStat": {"Metric": named, "Period": 60, "Stat": statistic}}
            ],
        )["MetricDataResults"][0]
        return dict(zip(answer["Timestamps"], answer["Values"], strict=True))

    def count(self, block: BlockResult, metric: Metric = TTFT) -> float:
        """Return how many values CloudWatch has of a block's metric."""
        return sum(self.read(block, metric, "SampleCount").values())

    def on_put(self, action: Callable[[int], object], *, when: str = "before-call") -> None:
        """Run `action` before or after every PutMetricData call, with the call's number, from 1.

        when: botocore's event, `before-call` or `after-call`.
        """
        self.cloudwatch.meta.events.register(
            f"{when}.cloudwatch.PutMetricData", lambda **_: action(len(self.calls))
        )

    def throttle(self, *numbers: int) -> None:
        """Have CloudWatch refuse the PutMetricData calls with these numbers."""
        answer = (SimpleNamespace(status_code=400), {"Error": {"Code": "Throttling"}})
        self.cloudwatch.meta.events.register(
            "before-call.cloudwatch.PutMetricData",
            lambda **_: answer if len(self.calls) in numbers else None,
        )

    def kill_at_put(self, number: int, *, when: str) -> None:
        """Raise KilledError before or after (`when`) the PutMetricData call of this number."""

        def kill(current: int) -> None:
            if current == number:
                raise KilledError

        self.on_put(kill, when=when)


@pytest.fixture
def aws() -> Iterator[Aws]:
    with mock_aws():
        yield Aws()


@pytest.fixture
def chain(aws: Aws) -> Aws:
    """Return `aws` with the bucket's events connected to the queue."""
    aws.connect()
    return aws


@pytest.fixture
def small_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send two metric data in each call, so that a small file needs several calls."""
    monkeypatch.setattr("lambdas.metrics_publisher.metric_data_calls.MAX_DATA_PER_CALL", 2)
