"""Measures with draftworth's client, which sends the requests as in one block of a run.

    python -m benchmarks.clients.ours BASE_URL STREAMS REQUESTS [--ray]

With `--ray`, llmperf on Ray sends the requests, as in the measuring Job. Otherwise one event loop
sends them, with ordinary scheduling (as in a pod without CAP_SYS_NICE), because real-time
scheduling would take CPU time from the server. It prints a line of JSON for each request, as
`draftworth conformance` reads them. Requests that a run would exclude are printed too, because
other clients exclude none.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from functools import partial

from draftworth.measuring.load_engines import AsyncioEngine, Batch, LoadEngine, Planned
from draftworth.measuring.run_specification import RequestShape
from draftworth.measuring.streamed_request import Client, Measured
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.prompt_files import Prompt

SHAPE = RequestShape(
    model="ground-truth",
    output_tokens=121,
    fixed_output_length=True,
    temperature=0.0,
    seed=1,
    enable_thinking=False,
    timeout_seconds=120.0,
)


def load(engine: LoadEngine, url: str, streams: int, requests: int) -> Sequence[Measured]:
    """Send `requests` requests, of which `streams` are in flight at the same time; measure them."""
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
    measured: list[Measured] = []

    async def send() -> None:
        # All compared clients send the same requests. So there are no warm-up requests and no
        # fillers, which in a run keep the load complete until the last measured request ends.
        sent = await engine.send(client, Batch(measured=planned), in_flight, seed=0)
        # The requests are not returned, because `asyncio.run` formats a result as text (Python
        # 3.11), which would take long here.
        measured.extend(sent.measured)

    asyncio.run(send())
    return measured


def main() -> None:
    """Send the requests and print the figures of each, a line of JSON per request."""
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
    for record in records:
        figures = {
            "prompt": f"request {record.prompt_id}",
            "ttft_ms": 1e3 * (record.ttft_s or 0.0),
            "itl_ms": 1e3 * (record.inter_token_latency_s or 0.0),
            "e2e_ms": 1e3 * (record.end_to_end_latency_s or 0.0),
            "output_tokens": record.number_output_tokens,
        }
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
