"""Sends a run's result files through the metrics publisher, and reads the metrics back."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from draftworth.errors import DraftworthError
from draftworth.measuring.server_lifecycle import Progress
from draftworth.metrics.definitions import NAMESPACE, TTFT, dimension_values
from draftworth.records.results import RESULT_SUFFIX, BlockResult, values_of
from draftworth.records.run_folder import Run
from lambdas.metrics_publisher.handler import handle_batch
from lambdas.metrics_publisher.publisher import Publisher
from rehearsal.embedded_aws import RESULTS_BUCKET, Emulator

_PERIOD_SECONDS = 60


def publish(emulator: Emulator, run: Run, progress: Progress) -> None:
    """Publish all queued result files to the embedded CloudWatch, and count the samples there.

    Raise DraftworthError if a file was not published or a sample is missing.
    """
    published = _feed(emulator, progress)
    results = [key for key in published if key.endswith(RESULT_SUFFIX)]
    verdict = " and the verdict" if len(results) < len(published) else ""
    progress(f"publisher: {len(results)} result files{verdict} into CloudWatch")
    series: dict[str, list[BlockResult]] = {}
    for block in run.blocks:
        name = f"{block.prompt_class}/{block.load.label}/{block.variant}"
        series.setdefault(name, []).append(block)
    for name, blocks in series.items():
        progress(f"CloudWatch: {_compared(emulator, run, name, blocks)}")


def _feed(emulator: Emulator, progress: Progress) -> list[str]:
    publisher = Publisher(s3=emulator.s3, cloudwatch=emulator.cloudwatch, bucket=RESULTS_BUCKET)
    published: list[str] = []

    def log(entry: Mapping[str, Any]) -> None:
        if entry["event"] == "published":
            published.append(entry["key"])
        if entry["level"] != "INFO":
            progress(f"publisher: {entry['event']}: {entry.get('key')}: {entry.get('reason')}")

    while messages := _receive(emulator, emulator.queue_url):
        # The fields of an event of Lambda's SQS event source (AWS Lambda developer guide).
        records = [
            {"messageId": m["MessageId"], "body": m["Body"], "eventSource": "aws:sqs"}
            for m in messages
        ]
        answer = handle_batch({"Records": records}, None, publisher=publisher, log=log)
        failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        for message in messages:
            if message["MessageId"] not in failed:
                emulator.sqs.delete_message(
                    QueueUrl=emulator.queue_url, ReceiptHandle=message["ReceiptHandle"]
                )
    if dead := _receive(emulator, emulator.dead_letter_queue_url):
        raise DraftworthError(
            f"{len(dead)} result files could not be published: their messages are in the "
            "dead-letter queue and their reasons in the log lines above"
        )
    return published


def _receive(emulator: Emulator, queue_url: str) -> list[Any]:
    answer = emulator.sqs.receive_message(QueueUrl=queue_url, MaxNumberOfMessages=10)
    return list(answer.get("Messages", []))


def _compared(emulator: Emulator, run: Run, name: str, blocks: Sequence[BlockResult]) -> str:
    start = datetime.fromtimestamp(run.result.started_at_unix_s, UTC)
    end = datetime.fromtimestamp(run.result.ended_at_unix_s, UTC)
    period = timedelta(seconds=_PERIOD_SECONDS)
    points = emulator.cloudwatch.get_metric_statistics(
        Namespace=NAMESPACE,
        MetricName=TTFT.name,
        Dimensions=[
            {"Name": key, "Value": value} for key, value in dimension_values(blocks[0]).items()
        ],
        StartTime=start - period,
        EndTime=end + period,
        Period=_PERIOD_SECONDS,
        Statistics=["SampleCount", "Sum"],
    )["Datapoints"]
    samples = int(sum(point["SampleCount"] for point in points))
    measured = sum(len(values_of(block.requests, TTFT.field)) for block in blocks)
    if samples != measured:
        raise DraftworthError(
            f"CloudWatch has {samples} TTFT samples of {name}, the result files {measured}"
        )
    mean_ms = sum(point["Sum"] for point in points) / samples if samples else 0.0
    return f"TTFT of {name}: {samples} samples, mean {mean_ms:.1f} ms"
