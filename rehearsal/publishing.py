"""The run's result files through the publisher function, and its metrics read back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from draftworth.analysis.metrics import DIMENSIONS, NAMESPACE, TTFT
from draftworth.errors import DraftworthError
from draftworth.records.reading import Run
from lambdas.metrics_publisher.handler import handle_batch
from lambdas.metrics_publisher.publisher import Publisher
from rehearsal.emulator import RESULTS_BUCKET, Emulator, feed
from rehearsal.endpoints import Progress

_PERIOD_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Series:
    """One metric as CloudWatch has it, over the run."""

    variant: str
    prompt_class: str
    samples: int
    mean_ms: float


def publish(emulator: Emulator, run: Run, progress: Progress) -> None:
    """Feed the queue to the publisher, read CloudWatch back, and compare with the files.

    Raises:
        DraftworthError: a file could not be published, or CloudWatch has other samples than the
            files.
    """
    publisher = Publisher(s3=emulator.s3, cloudwatch=emulator.cloudwatch, bucket=RESULTS_BUCKET)
    published: list[str] = []

    def log(entry: Mapping[str, Any]) -> None:
        if entry["event"] == "published":
            published.append(entry["key"])
        if entry["level"] != "INFO":
            progress(f"publisher: {entry['event']}: {entry.get('key')}: {entry.get('reason')}")

    feed(emulator, lambda event: dict(handle_batch(event, None, publisher=publisher, log=log)))
    progress(f"publisher: {len(published)} result files into CloudWatch")
    for series in read_back(emulator, run):
        _check(series, run)
        progress(
            f"CloudWatch: TTFT of {series.prompt_class}/{series.variant}: "
            f"{series.samples} samples, mean {series.mean_ms:.1f} ms"
        )


def read_back(emulator: Emulator, run: Run) -> Iterator[Series]:
    """TTFT of every variant and class from CloudWatch."""
    for prompt_class in dict.fromkeys(block.prompt_class for block in run.blocks):
        for variant in run.result.variants:
            values = (run.result.experiment, variant, prompt_class)
            answer = emulator.cloudwatch.get_metric_statistics(
                Namespace=NAMESPACE,
                MetricName=TTFT.name,
                Dimensions=[
                    {"Name": name, "Value": value}
                    for name, value in zip(DIMENSIONS, values, strict=True)
                ],
                StartTime=_moment(run.result.started_at_unix_s - _PERIOD_SECONDS),
                EndTime=_moment(run.result.ended_at_unix_s) + timedelta(seconds=_PERIOD_SECONDS),
                Period=_PERIOD_SECONDS,
                Statistics=["SampleCount", "Sum"],
            )
            points = answer["Datapoints"]
            samples = sum(point["SampleCount"] for point in points)
            total = sum(point["Sum"] for point in points)
            yield Series(
                variant=variant,
                prompt_class=prompt_class,
                samples=int(samples),
                mean_ms=total / samples if samples else 0.0,
            )


def _check(series: Series, run: Run) -> None:
    measured = sum(
        record.counts and record.ttft_s is not None
        for block in run.blocks
        for record in block.requests
        if (block.variant, block.prompt_class) == (series.variant, series.prompt_class)
    )
    if series.samples != measured:
        raise DraftworthError(
            f"CloudWatch has {series.samples} TTFT samples of {series.prompt_class}/"
            f"{series.variant}, the result files {measured}"
        )


def _moment(unix_s: float) -> datetime:
    return datetime.fromtimestamp(unix_s, UTC)
