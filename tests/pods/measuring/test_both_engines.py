"""llmperf on Ray and asyncio give the same records of the same token timelines.

Needs an interpreter with Ray and llmperf: `make test-llmperf`.
"""

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from draftworth.measuring.streamed_request import (
    ERROR_BAD_STREAM,
    ERROR_BROKEN_STREAM,
    ERROR_CONNECT,
    ERROR_LOST_ACTOR,
    ERROR_TIMEOUT,
)
from draftworth.records.load_shapes import ConcurrencyLoad, Load, PoissonLoad
from tests.conftest import ROOT
from tests.support.specifications import shape
from tests.support.stream_server import (
    HEADERS,
    Request,
    Reset,
    Sleep,
    Step,
    Write,
    completion,
    event,
    plain,
    stream_server,
)

PYTHON = os.environ.get("DRAFTWORTH_LLMPERF_PYTHON", "")

pytestmark = [
    pytest.mark.llmperf,
    pytest.mark.skipif(not PYTHON, reason="DRAFTWORTH_LLMPERF_PYTHON names no interpreter"),
]

SHAPE = shape(output_tokens=48, timeout_seconds=2.0)
ONE = ConcurrencyLoad(concurrency=1)
FOUR = ConcurrencyLoad(concurrency=4)
POISSON = PoissonLoad(requests_per_second=20.0)

TTFT_SECONDS, GAP_SECONDS = 0.06, 0.04
# The numbers of tokens in the chunks of an answer, by prompt.
TIMELINES = {"plain": (1,) * 8, "window": (1, 4, 3), "one chunk": (8,), "long": (2,) * 24}
FAILURES = ("refused", "cut", "reset", "garbage", "stalls", "compressed", "counts", "endless")
MIXED = tuple(TIMELINES) + FAILURES

# Fields of a record that depend on a clock; all others must be equal with both engines.
CLOCKED = {
    "inter_token_latency_s",
    "ttft_s",
    "end_to_end_latency_s",
    "request_output_throughput_token_per_s",
    "started_at_unix_s",
    "run_queue_wait_s",
    "timed_out_after_s",
    "failed_after_s",
    "excluded",
    "llmperf_inter_token_latency_s",
}


def prompt_of(request: Request) -> str:
    return str(request.json["messages"][0]["content"])


def timeline_or_failure(request: Request) -> Iterable[Step]:
    started = [Write(HEADERS), Write(event("x", tokens=1))]
    failures: dict[str, Iterable[Step]] = {
        "refused": plain("429 Too Many Requests", b'{"error": "queue full"}'),
        "cut": [*started, Write(event("y", tokens=2))],
        "reset": [*started, Sleep(0.2), Reset()],
        "garbage": [*started, Sleep(0.2), Write(b"data: {nonsense\n\n")],
        "stalls": [*started, Sleep(10)],
        "compressed": [Write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b")],
        "counts": [*started, Sleep(0.2), Write(event("y", tokens=10**18))],
        "endless": itertools.chain(
            [*started, Sleep(0.2)], itertools.repeat(Write(b": more\n\n" * 9_999))
        ),
    }
    prompt = prompt_of(request)
    if prompt in failures:
        return failures[prompt]
    return completion(*TIMELINES[prompt], gap_seconds=GAP_SECONDS, ttft_seconds=TTFT_SECONDS)


@contextmanager
def dying_server() -> Iterator[str]:
    """The address of a server whose process ends at the prompt `dies`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.pods.measuring.dying_server"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    with process:
        yield process.stdout.readline().strip()
        process.kill()


@dataclass(frozen=True, kw_only=True)
class Sent:
    """One engine's results and the server's requests, by scenario."""

    records: Mapping[str, Sequence[Any]]
    bodies: Mapping[str, Sequence[bytes]]


def send_with(kind: str) -> Sent:
    with (
        stream_server(timeline_or_failure) as first,
        stream_server(timeline_or_failure) as second,
        stream_server(timeline_or_failure) as third,
        dying_server() as dying,
    ):
        scenarios = {
            "one": scenario(first.base_url, ONE, MIXED),
            "dying": scenario(dying, ONE, ("a", "b", "dies", "c", "d")),
            "four": scenario(second.base_url, FOUR, MIXED * 2),
            "poisson": scenario(second.base_url, POISSON, tuple(TIMELINES)),
            "filled": scenario(
                third.base_url, FOUR, ("one chunk", *("plain",) * 3), ("stalls",) * 9
            ),
            "after": scenario(third.base_url, FOUR, ("plain",) * 4),
        }
        answers = run(kind, list(scenarios.values()))
    servers = {"one": first, "four": second}
    return Sent(
        records=dict(zip(scenarios, answers, strict=True)),
        bodies={name: [r.body for r in server.requests] for name, server in servers.items()},
    )


def run(kind: str, scenarios: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
    answer = subprocess.run(
        [PYTHON, "-m", "tests.pods.measuring.send_with", kind],
        cwd=ROOT,
        input=json.dumps(scenarios),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert answer.returncode == 0, answer.stderr
    (line,) = [line for line in answer.stdout.splitlines() if line.startswith("[[")]
    records: Sequence[Any] = json.loads(line)
    return records


def scenario(
    base_url: str, load: Load, prompts: Sequence[str], fillers: Sequence[str] = ()
) -> dict[str, Any]:
    return {
        "base_url": base_url,
        "shape": asdict(SHAPE),
        "load": asdict(load),
        "prompts": prompts,
        "fillers": fillers,
    }


@pytest.fixture(scope="module")
def on_ray() -> Sent:
    return send_with("ray")


@pytest.fixture(scope="module")
def with_a_killed_actor() -> Sequence[Any]:
    """Send eight long requests, four at once; kill the process of one after half a second."""
    with stream_server(timeline_or_failure) as server:
        killing = {
            **scenario(server.base_url, FOUR, ("long",) * 8),
            "kill_an_actor_after_seconds": 0.5,
        }
        records = run("ray", [killing])
    killed: Sequence[Any] = records[0]
    return killed


@pytest.fixture(scope="module")
def on_asyncio() -> Sent:
    return send_with("asyncio")


def unclocked(measured: Mapping[str, Any]) -> dict[str, Any]:
    """Return what must be equal: everything but times, which must only be present."""
    record = measured["record"]
    return {
        **{k: v for k, v in record.items() if k not in CLOCKED},
        **{k: record[k] is not None for k in CLOCKED - {"excluded"}},
        # An error names the port, and each engine had servers of its own.
        "error_msg": re.sub(r"\b\d{4,5}\b", "PORT", record["error_msg"]),
        "text": measured["transcript"]["text"],
        "chunk_tokens": measured["transcript"]["chunk_tokens"],
        "chunk_times": len(measured["transcript"]["chunk_offsets_us"]),
    }


@pytest.mark.parametrize("name", ["one", "dying", "four", "poisson"])
def test_both_engines_make_the_same_records(on_ray: Sent, on_asyncio: Sent, name: str) -> None:
    ours, theirs = on_asyncio.records[name], on_ray.records[name]

    assert len(ours) >= 4
    assert [unclocked(m) for m in theirs] == [unclocked(m) for m in ours]


@pytest.mark.parametrize("kind", ["ray", "asyncio"])
def test_cancelled_fillers_leave_the_next_block_whole(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """A filler (a request that only keeps the load) that went on would be recorded as timed out."""
    sent: Sent = request.getfixturevalue(f"on_{kind}")

    assert [m["record"]["request_id"] for m in sent.records["filled"]] == ["r0", "r1", "r2", "r3"]
    assert [m["record"]["error_code"] for m in sent.records["after"]] == [None] * 4


@pytest.mark.parametrize("name", ["one", "four"])
def test_both_engines_send_the_same_bytes(on_ray: Sent, on_asyncio: Sent, name: str) -> None:
    ours, theirs = on_asyncio.bodies[name], on_ray.bodies[name]

    assert ours
    if name == "four":  # at once: in any order
        ours, theirs = sorted(ours), sorted(theirs)
    assert theirs == ours


@pytest.mark.parametrize("kind", ["ray", "asyncio"])
def test_every_failure_is_recorded_and_the_load_continues(
    kind: str, request: pytest.FixtureRequest
) -> None:
    sent: Sent = request.getfixturevalue(f"on_{kind}")
    codes = [m["record"]["error_code"] for m in sent.records["one"]]
    after_death = [m["record"]["error_code"] for m in sent.records["dying"]]

    failures = [429, ERROR_BROKEN_STREAM, ERROR_BROKEN_STREAM, ERROR_BAD_STREAM, ERROR_TIMEOUT]
    hostile = [ERROR_BAD_STREAM] * 3
    assert codes == [None] * len(TIMELINES) + failures + hostile
    assert after_death == [None, None, ERROR_BROKEN_STREAM, ERROR_CONNECT, ERROR_CONNECT]


@pytest.mark.parametrize("kind", ["ray", "asyncio"])
@pytest.mark.parametrize("name", ["one", "four", "poisson"])
def test_no_request_is_faster_than_its_timeline(
    kind: str, name: str, request: pytest.FixtureRequest
) -> None:
    """A busy machine makes requests late, but nothing makes them early."""
    sent: Sent = request.getfixturevalue(f"on_{kind}")
    good = [m for m in sent.records[name] if m["record"]["error_code"] is None]

    assert len(good) >= len(TIMELINES)
    for measured in good:
        record, chunks = measured["record"], measured["record"]["chunks"]
        assert record["ttft_s"] >= TTFT_SECONDS
        assert record["end_to_end_latency_s"] >= TTFT_SECONDS + (chunks - 1) * GAP_SECONDS


def test_a_killed_actor_costs_only_its_request(
    with_a_killed_actor: Sequence[Any],
) -> None:
    codes = [m["record"]["error_code"] for m in with_a_killed_actor]

    assert len(codes) == 8
    assert codes.count(ERROR_LOST_ACTOR) == 1
    assert codes.count(None) == 7


def test_ray_keeps_the_load_in_flight(on_ray: Sent) -> None:
    spans = [
        (m["record"]["started_at_unix_s"], m["transcript"]["chunk_offsets_us"][-1] / 1e6)
        for m in on_ray.records["four"]
        if m["transcript"]["chunk_offsets_us"]
    ]
    together = [
        sum(start <= moment < start + seconds for start, seconds in spans) for moment, _ in spans
    ]

    assert max(together) <= FOUR.concurrency
    assert max(together) >= 2
