"""draftbench's client under the load that a block makes.

    python -m benchmarks.clients.ours BASE_URL STREAMS REQUESTS

Ordinary scheduling, as in a pod without CAP_SYS_NICE: a real-time client would win by taking the
server's cores. Prints one JSON line that `observed.Observed` reads, and how many samples the client
called spoilt; those are in the figures all the same, like every sample of every other client.
"""

from __future__ import annotations

import asyncio
import json
import sys

from draftbench.measuring.client import Client, Measured
from draftbench.measuring.runspec import RequestShape
from draftbench.prompts import Prompt

SHAPE = RequestShape(
    model="ground-truth",
    output_tokens=121,
    fixed_output_length=True,
    temperature=0.0,
    seed=1,
    enable_thinking=False,
    timeout_seconds=120.0,
)


async def load(url: str, streams: int, requests: int) -> list[Measured]:
    """`requests` requests, `streams` at a time."""
    client = Client(base_url=url, shape=SHAPE)
    results: list[Measured] = []
    queue = iter(range(requests))

    async def worker() -> None:
        for number in queue:
            message = {"role": "user", "content": f"request {number}"}
            prompt = Prompt(id=str(number), messages=(message,))
            results.append(await client.measure(prompt, request_id=str(number)))

    async with asyncio.TaskGroup() as group:
        for _ in range(streams):
            group.create_task(worker())
    return results


def main() -> None:
    """Run and print."""
    url, streams, requests = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    records = [measured.record for measured in asyncio.run(load(url, streams, requests))]
    if failed := [record.error_msg for record in records if record.failed]:
        sys.exit(f"{len(failed)} requests failed: {failed[0]}")
    tokens = sum(record.number_output_tokens or 0 for record in records)
    start = min(record.started_at_unix_s for record in records)
    end = max(r.started_at_unix_s + (r.end_to_end_latency_s or 0.0) for r in records)
    observed = {
        "ttft_s": [record.ttft_s for record in records],
        "itl_s": [record.inter_token_latency_s for record in records],
        "throughput_token_per_s": tokens / (end - start),
        "prompts": [f"request {record.prompt_id}" for record in records],
        "spoilt": sum(record.spoilt is not None for record in records),
    }
    print(json.dumps(observed))


if __name__ == "__main__":
    main()
