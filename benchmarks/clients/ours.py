"""Measures with draftworth's client, which sends the requests as in one block of a run.

    python -m benchmarks.clients.ours BASE_URL STREAMS REQUESTS [--ray]

With `--ray`, llmperf on Ray sends the requests, as in the measuring Job. Otherwise one event loop
sends them, without real-time scheduling (as in a pod without CAP_SYS_NICE), which would take CPU
time from the server. It prints one line of JSON, which `fidelity.py` reads. Samples that a
run would exclude are counted, but are in the figures too, because other clients exclude none.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from functools import partial

from draftworth.measuring.client import Client, Measured
from draftworth.measuring.load import AsyncioEngine, Batch, LoadEngine, Planned
from draftworth.records.load import ConcurrencyLoad
from draftworth.records.prompts import Prompt
from tests.draftworth.measuring.specifications import shape

SHAPE = shape(model="ground-truth", output_tokens=121, seed=1, timeout_seconds=120.0)


def load(engine: LoadEngine, url: str, streams: int, requests: int) -> Sequence[Measured]:
    """Send `requests` requests, of which `streams` are in flight at the same time."""
    client = Client(base_url=url, shape=SHAPE)
    planned = [
        Planned(
            request_id=str(number),
            prompt=Prompt(
                id=str(number), messages=({"role": "user", "content": f"request {number}"},)
            ),
            seed=number,
        )
        for number in range(requests)
    ]
    in_flight = ConcurrencyLoad(concurrency=streams)
    # There are no warm-up requests and no fillers: all compared clients send the same requests.
    return asyncio.run(engine.send(client, Batch(measured=planned), in_flight, seed=0)).measured


def main() -> None:
    """Send the requests and print the figures."""
    url, streams, requests = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if sys.argv[4:] == ["--ray"]:
        # This is imported here, because only some environments have Ray.
        from pods.measuring.ray_actors import ray_engine

        with ray_engine(streams, None, partial(print, file=sys.stderr)) as (engine, _, _):
            measured = load(engine, url, streams, requests)
    else:
        measured = load(AsyncioEngine(), url, streams, requests)
    records = [m.record for m in measured]
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
        "excluded": sum(record.excluded is not None for record in records),
    }
    # The JSON gets a line of its own, because Ray writes to standard output too.
    print(f"\n{json.dumps(observed)}")


if __name__ == "__main__":
    main()
