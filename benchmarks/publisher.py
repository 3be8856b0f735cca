"""A result file of 10,000 requests through the publisher: seconds, memory, CloudWatch calls.

    python -m benchmarks.publisher [--requests 10000] [--seconds-per-request 0.1 2 10]

The publisher is the deployed one; S3 is memory and CloudWatch is a counter, so this is the work of
the function and not of the network. Every figure of every request differs, which is the worst case
for grouping. Requests that lie further apart spread over more minutes, hence more datums. Each case
runs in a process of its own, so that its memory is its own.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from draftworth.records.codec import dump_record
from draftworth.records.results import BlockResult
from lambdas.metrics_publisher.events import ObjectCreated
from lambdas.metrics_publisher.publisher import Publisher
from tests.support.blocks import START_UNIX_S, make_block, make_record

ROOT = Path(__file__).resolve().parents[1]
TARGET_SECONDS, TARGET_CALLS = 2.0, 40


class MemoryS3:
    """The two calls that the publisher makes, on a dictionary."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = objects
        self.puts = 0

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: ARG002, N803 (boto3)
        """An object, or the error of S3."""
        if Key not in self.objects:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
        return {"Body": io.BytesIO(self.objects[Key]), "ETag": "etag"}

    def put_object(self, **_: object) -> dict[str, Any]:
        """Takes everything: nobody competes for the claim here."""
        self.puts += 1
        return {"ETag": "etag"}


class CountingCloudWatch:
    """Counts calls."""

    def __init__(self) -> None:
        self.calls = 0

    def put_metric_data(self, **_: object) -> None:
        """One call."""
        self.calls += 1


def block_of(requests: int, seconds_per_request: float) -> BlockResult:
    """A block in which every figure of every request is another."""
    rng = random.Random(1)  # noqa: S311 (figures, no secret)
    return make_block(
        requests=tuple(
            make_record(
                index,
                started_at_unix_s=START_UNIX_S + index * seconds_per_request,
                ttft_s=rng.random(),
                inter_token_latency_s=rng.random(),
                end_to_end_latency_s=rng.random(),
                request_output_throughput_token_per_s=rng.random() * 100,
                tokens_per_step=rng.random() * 8,
                number_output_tokens=rng.randint(1, 600),
                number_input_tokens=rng.randint(1, 600),
            )
            for index in range(requests)
        )
    )


def publish(requests: int, seconds_per_request: float) -> dict[str, float]:
    """Publish one file in this process."""
    block = block_of(requests, seconds_per_request)
    data = dump_record(block)
    s3, cloudwatch = MemoryS3({block.key: data}), CountingCloudWatch()
    del block
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    publisher: Any = Publisher
    started = time.perf_counter()
    publisher(
        s3=s3,
        cloudwatch=cloudwatch,
        bucket="results",
        clock=lambda: START_UNIX_S + requests * seconds_per_request,
    ).publish(ObjectCreated(bucket="results", key=next(iter(s3.objects))), deadline_unix_s=1e12)
    return {
        "seconds_per_request": seconds_per_request,
        "file_mb": len(data) / 1e6,
        "seconds": time.perf_counter() - started,
        "calls": cloudwatch.calls,
        "claim_writes": s3.puts,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "mib_before": before / 1024,
    }


def main() -> int:
    """Measure every case in a process of its own; exit code 1 when a target is missed."""
    parser = argparse.ArgumentParser(description="the publisher on a large result file")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seconds-per-request", type=float, nargs="+", default=[0.1, 2, 10])
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(publish(options.requests, options.seconds_per_request[0])))
        return 0
    met = True
    print("| seconds between requests | file MB | seconds | CloudWatch calls | memory MiB |")
    print("|---|---|---|---|---|")
    for spacing in options.seconds_per_request:
        command = [sys.executable, "-m", "benchmarks.publisher", "--one"]
        load = ["--requests", str(options.requests), "--seconds-per-request", str(spacing)]
        answer = subprocess.run(
            [*command, *load], cwd=ROOT, capture_output=True, text=True, check=True
        )
        row = json.loads(answer.stdout)
        met &= row["seconds"] < TARGET_SECONDS and row["calls"] <= TARGET_CALLS
        print(
            f"| {spacing:g} | {row['file_mb']:.1f} | {row['seconds']:.2f} | {row['calls']} "
            f"| {row['mib_before']:.0f} to {row['peak_mib']:.0f} |"
        )
    verdict = "met" if met else "MISSED"
    print(f"\nTarget ({TARGET_SECONDS:g} s, {TARGET_CALLS} calls): {verdict}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
