"""The real client over real HTTP against the truth server, whose timeline and log are known."""

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from draftworth.measuring.streamed_request import Client, Measured
from draftworth.records.prompt_files import Prompt
from draftworth.truth.request_log import RequestTruth, read_log
from draftworth.truth.token_timeline import TRAPS, TimelineSpec, writes_of
from draftworth.truth.trial import truth_server
from tests.support.present import present
from tests.support.specifications import shape
from tests.support.waiting import HANGS_AFTER_SECONDS

# Client and server read the same clock. Between a write and the time that the client notes for it
# are the way through the kernel and the wait for a core. 5 ms is far above the first. The second
# has no limit, so the closest of `TRIES` requests counts: an error of the method would be in all.
TOLERANCE_MS = 5.0
TRIES = 6

SHAPE = shape(output_tokens=24, timeout_seconds=HANGS_AFTER_SECONDS)
MESSAGES = [{"role": "user", "content": "x"}]
SHORT = TimelineSpec(output_tokens=24, ttft_seconds=0.05, gap_seconds=0.008)
SPECS = [
    pytest.param(SHORT, id="a token per chunk"),
    pytest.param(
        replace(SHORT, chunk_tokens=(1, 8), jitter=0.3, role_chunk=True, seed=2),
        id="window 7, role-only first chunk",
    ),
    pytest.param(
        replace(SHORT, chunk_tokens=(2, 5), role_chunk=True, reasoning_tokens=9),
        id="reasoning first",
    ),
    pytest.param(
        replace(SHORT, first_chunk_tokens=5, chunks_per_write=2, keep_alive=True),
        id="a full first chunk, merged chunks and comments",
    ),
]


def measure(url: str, requests: int) -> list[Measured]:
    """Measure requests one after the other, in the order in which the server numbers them."""
    client = Client(base_url=url, shape=SHAPE, read_wait=lambda: 0)

    async def run() -> list[Measured]:
        prompts = [
            Prompt(id=str(n), messages=({"role": "user", "content": f"request {n}"},))
            for n in range(requests)
        ]
        return [await client.measure(prompt, request_id=prompt.id, seed=0) for prompt in prompts]

    return asyncio.run(run())


def served(spec: TimelineSpec, folder: Path, requests: int) -> list[tuple[Measured, RequestTruth]]:
    """Return for each request what the client measured and what the server logged."""
    with truth_server(spec, folder / "log") as url:
        measured = measure(url, requests)
    return list(zip(measured, read_log(folder / "log"), strict=True))


@pytest.mark.parametrize("spec", SPECS)
def test_figures_over_http_are_within_the_tolerance(spec: TimelineSpec, tmp_path: Path) -> None:
    pairs = served(spec, tmp_path, TRIES)

    for index, (ours, truth) in enumerate(pairs):
        planned = [event.data.decode() for event in writes_of(spec, index, "every_chunk")]
        assert truth.prompt == f"request {index}"
        assert [write.text for write in truth.writes] == planned
        assert sum(present(ours.transcript.chunk_tokens)) == truth.output_tokens
    ttft_errors = [abs(1e3 * present(o.record.ttft_s) - t.ttft_ms) for o, t in pairs]
    itl_errors = [
        abs(1e3 * present(o.record.inter_token_latency_s) - present(t.itl_ms)) for o, t in pairs
    ]
    assert min(ttft_errors) < TOLERANCE_MS
    assert min(itl_errors) < TOLERANCE_MS / (spec.output_tokens - 8)


def test_nothing_is_written_early_or_stamped_early(tmp_path: Path) -> None:
    [(ours, truth)] = served(SHORT, tmp_path, 1)

    assert all(write.written_ns >= write.due_ns for write in truth.writes)
    assert truth.arrived_ns <= truth.handled_ns <= truth.writes[0].written_ns
    # TTFT is not compared with `written_ns`, which is taken after the write: on a busy machine so
    # long after it that the client has read the token already.
    assert present(ours.record.ttft_s) >= SHORT.ttft_seconds


@pytest.fixture(scope="module")
def quick_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    spec = TimelineSpec(output_tokens=3, ttft_seconds=0, gap_seconds=0)
    with truth_server(spec, tmp_path_factory.mktemp("quick") / "log") as url:
        yield url


def post(url: str, **body: Any) -> list[dict[str, Any]]:
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=HANGS_AFTER_SECONDS) as answer:
        lines = answer.read().decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


@pytest.mark.parametrize(
    ("options", "totals"),
    [
        ({}, [None, None, None]),
        ({"include_usage": True}, [None, None, None, 3]),
        ({"include_usage": True, "continuous_usage_stats": True}, [1, 2, 3, 3]),
    ],
)
def test_usage_comes_as_it_is_asked_for(
    quick_url: str, options: dict[str, bool], totals: list[int | None]
) -> None:
    events = post(quick_url, messages=MESSAGES, stream=True, stream_options=options)

    assert [e["usage"]["completion_tokens"] if "usage" in e else None for e in events] == totals
    assert "".join(e["choices"][0]["delta"]["content"] for e in events if e["choices"]) == "spe"


def test_a_text_is_continued_at_the_usual_address(quick_url: str) -> None:
    body = json.dumps({"prompt": "a text", "stream": True}).encode()
    request = urllib.request.Request(f"{quick_url}/v1/completions", body)
    with urllib.request.urlopen(request, timeout=HANGS_AFTER_SECONDS) as answer:
        events = [line for line in answer.read().decode().split("\n\n") if "{" in line]
    choices = [json.loads(event.removeprefix("data: "))["choices"][0] for event in events]
    assert "".join(choice["text"] for choice in choices) == "spe"


def test_what_peers_probe_is_there(quick_url: str) -> None:
    for path, answer in (("/health", b""), ("/metrics", b"")):
        with urllib.request.urlopen(quick_url + path, timeout=HANGS_AFTER_SECONDS) as response:
            assert response.read() == answer
    with urllib.request.urlopen(f"{quick_url}/v1/models", timeout=HANGS_AFTER_SECONDS) as response:
        assert json.load(response)["data"][0]["id"] == "ground-truth"


@pytest.mark.parametrize("body", [{"prompt": "ab"}, {"messages": [{"content": "ab"}]}])
def test_each_character_is_a_token(quick_url: str, body: object) -> None:
    request = urllib.request.Request(f"{quick_url}/tokenize", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=HANGS_AFTER_SECONDS) as response:
        assert json.load(response) == {"count": 2, "tokens": [97, 98]}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/tokenize"])
@pytest.mark.parametrize("body", [b"{", b"[]", b'{"messages": []}', b'{"messages": 3}'])
def test_a_request_that_is_none_is_refused(quick_url: str, path: str, body: bytes) -> None:
    request = urllib.request.Request(f"{quick_url}{path}", body)
    with pytest.raises(HTTPError, match="400"):
        urllib.request.urlopen(request, timeout=HANGS_AFTER_SECONDS)


def test_a_departed_clients_request_is_not_complete(tmp_path: Path) -> None:
    spec = TimelineSpec(output_tokens=50, ttft_seconds=0.0, gap_seconds=0.05)
    log = tmp_path / "log"
    with truth_server(spec, log) as url:
        request = urllib.request.Request(
            f"{url}/v1/chat/completions",
            json.dumps({"messages": MESSAGES, "stream": True}).encode(),
        )
        with urllib.request.urlopen(request, timeout=HANGS_AFTER_SECONDS) as answer:
            answer.read(10)
    assert not json.loads(log.read_text())["complete"]
    assert read_log(log) == []


def test_every_trap_streams_the_same_tokens_differently() -> None:
    streams = {name: writes_of(trap.spec, 0, trap.spec.usage) for name, trap in TRAPS.items()}

    assert len(set(streams.values())) == len(TRAPS) == 8
    assert {sum(event.tokens for event in events) for events in streams.values()} == {32}
