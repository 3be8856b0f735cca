"""The real client over real HTTP against a server whose timeline is known."""

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fidelity import Cell, ground_truth_server, markdown, truths_of
from benchmarks.ground_truth.server import RequestTruth
from benchmarks.ground_truth.timeline import TimelineSpec, plan_of
from benchmarks.peers import PEERS, UnavailableError, environment_of
from draftworth.measuring.client import Client, Measured
from draftworth.records.prompts import Prompt
from tests.draftworth.measuring.specifications import shape
from tests.support.present import present
from tests.support.waiting import HANGS_AFTER_SECONDS

# Both ends read one clock. What lies between a write and its stamp is the way through the kernel
# and the wait for a core: 5 ms is far above the first. The second has no limit, so the closest of
# `TRIES` requests counts: an error of the method is in every one of them.
TOLERANCE_S = 0.005
TRIES = 6

SHAPE = shape(output_tokens=24, timeout_seconds=10.0)
MESSAGES = [{"role": "user", "content": "x"}]
SHORT = TimelineSpec(output_tokens=24, ttft_seconds=0.05, gap_seconds=0.008)
SPECS = [
    pytest.param(SHORT, id="a token a chunk"),
    pytest.param(
        replace(SHORT, chunk_tokens=(1, 8), jitter=0.3, role_chunk=True, seed=2),
        id="window 7, role-only first chunk",
    ),
    pytest.param(
        replace(SHORT, chunk_tokens=(2, 5), role_chunk=True, reasoning_tokens=9),
        id="reasoning first",
    ),
]


def measure(url: str, requests: int) -> list[Measured]:
    """One after the other, as the server numbers them."""
    client = Client(base_url=url, shape=SHAPE, read_wait=lambda: 0)

    async def run() -> list[Measured]:
        prompts = [
            Prompt(id=str(n), messages=({"role": "user", "content": f"request {n}"},))
            for n in range(requests)
        ]
        return [await client.measure(prompt, request_id=prompt.id, seed=0) for prompt in prompts]

    return asyncio.run(run())


@pytest.mark.parametrize("spec", SPECS)
def test_figures_over_http_are_the_truth_within_the_tolerance(spec: TimelineSpec) -> None:
    with ground_truth_server(spec) as url:
        measured = measure(url, TRIES)
        truths = truths_of(url, TRIES)

    for index, (ours, truth) in enumerate(zip(measured, truths, strict=True)):
        tokens = tuple(chunk.tokens for chunk in plan_of(spec, index).chunks)
        assert truth.prompt == f"request {index}"
        assert tuple(truth.tokens) == ours.transcript.chunk_tokens == tokens
    assert closest(measured, truths, "ttft_s") < TOLERANCE_S
    later_tokens = spec.output_tokens - 8
    assert closest(measured, truths, "inter_token_latency_s") < TOLERANCE_S / later_tokens


def closest(measured: list[Measured], truths: list[RequestTruth], figure: str) -> float:
    """The smallest error of a figure over the requests, seconds."""
    errors = []
    for ours, truth in zip(measured, truths, strict=True):
        got = getattr(ours.record, figure)
        true = present(truth.ttft_s if figure == "ttft_s" else truth.itl_s)
        assert got is not None
        errors.append(abs(float(got) - true))
    return min(errors)


def test_nothing_is_written_before_it_is_due_or_stamped_before_it_arrives() -> None:
    with ground_truth_server(SHORT) as url:
        [ours] = measure(url, 1)
        [truth] = truths_of(url, 1)

    assert min(truth.lateness_s) >= 0
    assert truth.arrived_ns <= truth.handled_ns <= truth.written_ns[0]
    # Not compared with the stamp of the write: it is taken after it, on a busy machine long
    # after it, when the client has read the token already.
    assert present(ours.record.ttft_s) >= SHORT.ttft_seconds


@pytest.fixture(scope="module")
def quick_url() -> Iterator[str]:
    with ground_truth_server(TimelineSpec(output_tokens=3, ttft_seconds=0, gap_seconds=0)) as url:
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


def test_what_peers_probe_is_there(quick_url: str) -> None:
    for path, answer in (("/health", b""), ("/metrics", b"")):
        with urllib.request.urlopen(quick_url + path, timeout=HANGS_AFTER_SECONDS) as response:
            assert response.read() == answer
    with urllib.request.urlopen(f"{quick_url}/v1/models", timeout=HANGS_AFTER_SECONDS) as response:
        assert json.load(response)["data"][0]["id"] == "ground-truth"


def test_a_client_that_leaves_is_not_a_complete_request() -> None:
    spec = TimelineSpec(output_tokens=50, ttft_seconds=0.0, gap_seconds=0.05)
    with ground_truth_server(spec) as url:
        request = urllib.request.Request(
            f"{url}/v1/chat/completions",
            json.dumps({"messages": MESSAGES, "stream": True}).encode(),
        )
        with urllib.request.urlopen(request, timeout=HANGS_AFTER_SECONDS) as answer:
            answer.read(10)
        with urllib.request.urlopen(f"{url}/truth", timeout=HANGS_AFTER_SECONDS) as answer:
            [truth] = json.load(answer)
    assert not truth["complete"]


def test_a_client_that_failed_is_a_row_with_its_reason() -> None:
    cell = Cell(window=1, streams=8, requests=16)
    table = markdown({cell: {"guidellm": "installation failed: no | such version"}})
    assert "| guidellm 0.8.1 | left out: installation failed: no / such version |" in table


def test_a_peer_without_its_engine_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="make rehearse"):
        environment_of(PEERS["vllm-bench"], cache=tmp_path, engine=tmp_path)
