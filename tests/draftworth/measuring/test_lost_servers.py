"""Servers that are lost within a block: the block's figures do not count; it is measured again."""

import asyncio
import functools
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from draftworth.measuring.blocks import MAX_LOSSES_PER_BLOCK
from draftworth.measuring.journal import History
from draftworth.measuring.result_files import FolderSink
from draftworth.measuring.streamed_request import Client
from draftworth.records import results
from draftworth.records.codec import load_record
from draftworth.records.run_folder import read_run
from tests.support.runners import make_runner
from tests.support.stand_in_runs import COUNTERS, case, spec
from tests.support.stream_server import Request, Reset, Step, completion, plain, stream_server
from tests.support.waiting import HANGS_AFTER_SECONDS

NOT_FOUND = plain("404 Not Found", b"")


class Server:
    """A server that is lost when it gets a request whose number (from 1) is in `dies_at`.

    away_for: it is back after this many health checks; if `healthy`, after this many requests.
    healthy: whether health checks succeed while it is lost. counts: whether it has counters.
    """

    def __init__(
        self, *dies_at: int, away_for: int = 3, healthy: bool = False, counts: bool = False
    ) -> None:
        self.requests = 0
        self._dies_at = dies_at
        self._away_for = away_for
        self._healthy = healthy
        self._counts = counts
        self._away = 0
        self._since_start = 10_000  # as if it had served other requests before the test
        self._one_at_a_time = threading.Lock()

    def __call__(self, request: Request) -> Sequence[Step]:
        with self._one_at_a_time:
            return self._answer(request)

    def _answer(self, request: Request) -> Sequence[Step]:
        if request.method == "POST":
            self.requests += 1
            self._since_start += 1
            if self.requests in self._dies_at:
                self._away, self._since_start = self._away_for, 0
        if self._away:
            return self._answer_away(request)
        if request.path == "/health":
            return plain("200 OK", b"")
        if request.path == "/metrics":
            count = self._since_start
            text = COUNTERS.format(drafts=count, drafted=7 * count, accepted=count)
            return plain("200 OK", text.encode()) if self._counts else NOT_FOUND
        return completion(1, 1)

    def _answer_away(self, request: Request) -> Sequence[Step]:
        if self._healthy:  # health checks succeed, but requests fail
            self._away -= request.method == "POST"
            ok = request.path == "/health"
            return plain("200 OK" if ok else "500 Internal Server Error", b"")
        self._away -= request.path == "/health"
        return [Reset()]


def refusing_after(requests: int) -> Callable[[Request], Sequence[Step]]:
    """Return a server that wants an API key after this many requests, also at `/health`."""
    posts = 0

    def script(request: Request) -> Sequence[Step]:
        nonlocal posts
        posts += request.method == "POST"
        if posts > requests:
            return plain("401 Unauthorized", b"")
        return plain("200 OK", b"") if request.method == "GET" else completion(1, 1)

    return script


@pytest.mark.parametrize("parallel", [False, True])
def test_a_key_demanded_midway_fails_with_next_step(tmp_path: Path, parallel: bool) -> None:
    with stream_server(refusing_after(3)) as first, stream_server(Server()) as second:
        urls = first.base_url, second.base_url
        runner = make_runner(
            spec(*urls, cases=[case("count")], parallel=parallel), FolderSink(tmp_path)
        )
        result = asyncio.run(runner.run())

    assert result.status == "failed"
    assert "answers HTTP 401: set the environment variable OPENAI_API_KEY" in result.reason
    assert read_run(tmp_path / "test-1").result == result


def run(
    folder: Path, *servers: Server, parallel: bool = False, deadline_s: float = HANGS_AFTER_SECONDS
) -> results.RunResult:
    with (
        stream_server(servers[0]) as first,
        stream_server(servers[-1]) as second,
    ):
        urls = [first.base_url, second.base_url][: len(servers)]
        made = make_runner(
            spec(*urls, cases=[case("count")], parallel=parallel, deadline_s=deadline_s),
            FolderSink(folder),
            history=History(),
            make_client=functools.partial(Client, read_wait=lambda: None),
            ready_poll_seconds=0.02,
        )
        return asyncio.run(made.run())


def names(folder: Path, kind: str) -> list[str]:
    return sorted(path.name for path in (folder / "test-1" / kind).glob("*"))


def test_a_lost_servers_block_is_measured_again(tmp_path: Path) -> None:
    run(tmp_path, Server(4))  # lost after the gate's request and two of the warm-up
    measured = read_run(tmp_path / "test-1")
    (block,) = measured.blocks
    assert measured.result.status == "complete"
    assert measured.result.blocks == (block.stem,)
    assert block.block == 2
    assert [r.failed for r in block.requests] == [False] * 4
    # The run records which block was lost, and how long it waited for the server.
    (interruption,) = measured.result.interruptions
    assert interruption.kind == "servers"
    assert interruption.blocks == ("0001-structured-count-c2-baseline-r1",)
    assert "baseline is not ready any more" in interruption.reason
    assert measured.result.time.lost_s == pytest.approx(interruption.lost_s)
    assert measured.result.time.lost_s > 0
    assert measured.result.time.waiting_s >= 0.02
    # The lost block is kept in a folder from which no metrics are published.
    stem = "0001-structured-count-c2-baseline-r1"
    kept = names(tmp_path, results.INTERRUPTED_FOLDER)
    assert kept == [f"{stem}{results.INTERRUPTED_SUFFIX}", f"{stem}.transcript.jsonl.gz"]
    assert not [name for name in kept if name.endswith(results.RESULT_SUFFIX)]
    assert not [name for name in names(tmp_path, results.BLOCKS_FOLDER) if name.startswith("0001")]
    evidence_file = tmp_path / "test-1" / results.INTERRUPTED_FOLDER / kept[0]
    evidence = load_record(results.BlockResult, evidence_file.read_bytes())
    assert any(record.failed for record in evidence.requests)
    assert evidence.run_id == measured.result.run_id


def test_requests_that_fail_at_healthy_servers_are_recorded(tmp_path: Path) -> None:
    # Two requests in the middle of the block fail. On a busy machine, one of them may be a warm-up
    # request or a filler, which only keeps the load up.
    result = run(tmp_path, Server(4, away_for=2, healthy=True))

    (block,) = read_run(tmp_path / "test-1").blocks
    assert {r.error_code or 0 for r in block.requests} == {0, 500}
    assert result.interruptions == ()


def test_counters_reveal_a_server_that_restarted(tmp_path: Path) -> None:
    # Of two requests that fail one after the other, at least one is measured: on a busy machine,
    # the other may be a warm-up request that arrives late.
    result = run(tmp_path, Server(4, away_for=2, healthy=True, counts=True))

    (interruption,) = result.interruptions
    assert "restarted during the block" in interruption.reason
    assert result.status == "complete"


def test_variants_loaded_together_are_lost_together(tmp_path: Path) -> None:
    result = run(tmp_path, Server(), Server(3), parallel=True)

    (interruption,) = result.interruptions
    assert len(interruption.blocks) == 2
    assert len(names(tmp_path, results.INTERRUPTED_FOLDER)) == 4
    assert [b.block for b in read_run(tmp_path / "test-1").blocks] == [3, 4]


def test_a_block_that_keeps_ending_servers_fails(tmp_path: Path) -> None:
    # Each try of the block sends two warm-up requests and four measured ones, on a busy machine in
    # any order. A server that is lost at every fifth request is lost before the last measured one.
    result = run(tmp_path, Server(*range(4, 60, 5)))

    assert result.status == "failed"
    assert result.reason.startswith(
        f"servers were lost {MAX_LOSSES_PER_BLOCK} times in structured-count-c2-baseline-r1"
    )
    assert len(result.interruptions) == MAX_LOSSES_PER_BLOCK


def test_a_server_that_stays_away_ends_the_run(tmp_path: Path) -> None:
    result = run(tmp_path, Server(3, away_for=10_000), deadline_s=0.3)

    assert result.status == "failed"
    assert "was not ready within 0.3 s" in result.reason
    assert len(result.interruptions) == 1
