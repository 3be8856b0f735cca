"""A minimal client: an asyncio protocol that timestamps received data and decodes it after the run.

    python -m benchmarks.clients.bare BASE_URL STREAMS REQUESTS

It has no error handling, no checks and no limits. It prints a line of JSON for each request, as
`draftworth conformance` reads them.
"""

import asyncio
import json
import sys
import time
from urllib.parse import urlsplit

# What is known of one request: (send time, [(arrival time, bytes) of all received data]), in ns.
Arrivals = tuple[int, list[tuple[int, bytes]]]


class Bare(asyncio.Protocol):
    """Keeps (arrival time in ns, bytes) of all data of a response, until its stream ends."""

    def __init__(self) -> None:
        self.pieces: list[tuple[int, bytes]] = []
        self.done = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.pieces.append((time.perf_counter_ns(), data))
        if data.endswith(b"0\r\n\r\n"):
            self.done.set_result(None)


async def one(url: str, body: bytes) -> Arrivals:
    """Send a request on a new connection; return its send time and the received data."""
    parts = urlsplit(url)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    transport, bare = await asyncio.get_running_loop().create_connection(
        Bare, parts.hostname or "", parts.port or 80
    )
    sent_ns = time.perf_counter_ns()
    transport.write(head.encode() + body)
    await bare.done
    transport.abort()
    return sent_ns, bare.pieces


async def load(url: str, streams: int, requests: int) -> dict[str, Arrivals]:
    """Send `requests` requests, with `streams` in flight at the same time.

    Return what arrived, by prompt.
    """
    options = {"include_usage": True, "continuous_usage_stats": True}
    results = {}
    queue = iter(range(requests))

    async def worker() -> None:
        for number in queue:
            prompt = f"request {number}"
            message = {"role": "user", "content": prompt}
            body = {"messages": [message], "stream": True, "stream_options": options}
            results[prompt] = await one(url, json.dumps(body).encode())

    await asyncio.gather(*(worker() for _ in range(streams)))
    return results


def chunks(pieces: list[tuple[int, bytes]]) -> list[tuple[int, int]]:
    """Return (arrival time in ns, output tokens so far) of each streamed event with new tokens."""
    counted, total = [], 0
    for at_ns, data in pieces:
        for line in data.split(b"\n"):
            if line.startswith(b"data: {") and (event := json.loads(line[6:]))["choices"]:
                tokens = event["usage"]["completion_tokens"]
                if tokens > total:
                    total = tokens
                    counted.append((at_ns, total))
    return counted


def main() -> None:
    """Send the requests and print the figures of each, a line of JSON per request."""
    url, streams, requests = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for prompt, (sent_ns, pieces) in asyncio.run(load(url, streams, requests)).items():
        counted = chunks(pieces)
        (first_ns, first), (last_ns, total) = counted[0], counted[-1]
        figures = {
            "prompt": prompt,
            "ttft_ms": (first_ns - sent_ns) / 1e6,
            "itl_ms": (last_ns - first_ns) / 1e6 / (total - first),
            "e2e_ms": (last_ns - sent_ns) / 1e6,
            "output_tokens": total,
        }
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
