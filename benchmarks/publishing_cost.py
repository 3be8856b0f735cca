"""Measures time, memory and CloudWatch calls of the metrics publisher for a large result file.

    python -m benchmarks.publishing_cost [--requests 10000] [--seconds-per-request 0.1 2 10]

The publisher is the deployed one; S3 is an object in memory and CloudWatch a counter of calls. With
more time between requests, a file covers more minutes, so the publisher sends more datums.
"""

import argparse
import io
import json
import random
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError

from draftworth.records.codec import dump_record
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.results import BlockResult, RequestRecord
from lambdas.metrics_publisher.publisher import Publisher
from lambdas.metrics_publisher.s3_events import ObjectCreated

TARGET_CALLS = 40
START_UNIX_S = 1_795_168_800.0


class MemoryAws:
    """A fake of boto3's S3 and CloudWatch clients: it has one object and counts metric calls."""

    exceptions = SimpleNamespace(NoSuchKey=ClientError)

    def __init__(self, key: str, data: bytes) -> None:
        self.key, self.data, self.calls = key, data, 0

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: ARG002, N803 (boto3)
        if Key != self.key:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
        written = datetime.fromtimestamp(START_UNIX_S, UTC)
        return {"Body": io.BytesIO(self.data), "ETag": "etag", "LastModified": written}

    def put_object(self, **_: object) -> dict[str, Any]:
        """Accept each claim (an object with which the publisher reserves a file for itself)."""
        return {"ETag": "etag"}

    def put_metric_data(self, **_: object) -> None:
        self.calls += 1


def block_of(requests: int, seconds_per_request: float) -> BlockResult:
    """Return a result file's content, with `requests` requests whose figures all differ."""
    rng = random.Random(1)  # noqa: S311 (figures, no secret)
    return BlockResult(
        run_id="benchmark",
        experiment="benchmark",
        variant="qwen3-1.7b-k7",
        prompt_class="structured",
        case="count",
        round=1,
        block=1,
        model="Qwen/Qwen3-32B",
        load=ConcurrencyLoad(concurrency=4),
        started_at_unix_s=START_UNIX_S,
        ended_at_unix_s=START_UNIX_S + requests * seconds_per_request,
        warmup_requests=0,
        speculation=None,
        server=None,
        requests=tuple(
            _request(index, START_UNIX_S + index * seconds_per_request, rng)
            for index in range(requests)
        ),
    )


def _request(index: int, started_at_unix_s: float, rng: random.Random) -> RequestRecord:
    output_tokens, input_tokens = rng.randint(1, 600), rng.randint(1, 600)
    return RequestRecord(
        error_code=None,
        error_msg="",
        inter_token_latency_s=rng.random(),
        ttft_s=rng.random(),
        end_to_end_latency_s=rng.random(),
        request_output_throughput_token_per_s=rng.random() * 100,
        number_total_tokens=input_tokens + output_tokens,
        number_output_tokens=output_tokens,
        number_input_tokens=input_tokens,
        request_id=f"request-{index}",
        prompt_id=f"prompt-{index % 8}",
        started_at_unix_s=started_at_unix_s,
        tokens_per_step=rng.random() * 8,
        first_chunk_tokens=1,
        chunks=30,
        usage_source="every_chunk",
        finish_reason="length",
        output_sha256="0" * 64,
        run_queue_wait_s=0.0,
        llmperf_inter_token_latency_s=rng.random(),
    )


def publish(requests: int, seconds_per_request: float) -> tuple[float, float, float, int, int, int]:
    """Publish a result file, and return what that took.

    The values are: the file's size in MB, the seconds, these seconds divided by those for parsing
    only its JSON, the CloudWatch calls, and the RSS (KiB) before and at its peak.
    """
    block = block_of(requests, seconds_per_request)
    data = dump_record(block)
    aws: Any = MemoryAws(block.key, data)
    del block
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    Publisher(
        s3=aws,
        cloudwatch=aws,
        bucket="results",
        clock=lambda: START_UNIX_S + requests * seconds_per_request,
    ).publish(ObjectCreated(bucket="results", key=aws.key), deadline_unix_s=1e12)
    seconds = time.perf_counter() - started
    started = time.perf_counter()
    json.loads(data)
    ratio = seconds / (time.perf_counter() - started)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return len(data) / 1e6, seconds, ratio, aws.calls, before, most


def main() -> int:
    """Publish a result file for each given time between requests, each in its own process.

    Return 1 if a file took more than `TARGET_CALLS` CloudWatch calls, else 0.
    """
    parser = argparse.ArgumentParser(description="the publisher on a large result file")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seconds-per-request", type=float, nargs="+", default=[0.1, 2, 10])
    options = parser.parse_args()
    met = True
    print(
        "| seconds between requests | file MB | seconds | x parsing its JSON | CloudWatch calls "
        "| memory MiB |"
    )
    print("|---|---|---|---|---|---|")
    for spacing in options.seconds_per_request:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            case = pool.submit(publish, options.requests, spacing)
        file_mb, seconds, ratio, calls, before, most = case.result()
        met &= calls <= TARGET_CALLS
        memory = f"{before / 1024:.0f} to {most / 1024:.0f}"
        print(f"| {spacing:g} | {file_mb:.1f} | {seconds:.2f} | {ratio:.0f} | {calls} | {memory} |")
    verdict = "met" if met else "MISSED"
    print(f"\nTarget (at most {TARGET_CALLS} calls): {verdict}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
