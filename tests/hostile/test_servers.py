"""Each answer of a hostile server becomes one record of limited size, with a reason."""

import asyncio
import functools
import gc
import json
import ssl
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftworth.measuring import server_counters
from draftworth.measuring.connections import tls_context
from draftworth.measuring.result_files import FolderSink, llmperf_responses, llmperf_summary
from draftworth.measuring.run_specification import Endpoint
from draftworth.measuring.server_lifecycle import health
from draftworth.measuring.streamed_request import ERROR_UNEXPECTED, Client, Measured
from draftworth.records.codec import dump_record, load_object, load_record
from draftworth.records.prompt_files import Prompt
from draftworth.records.results import BlockResult, RequestRecord
from draftworth.records.run_folder import read_run
from draftworth.records.transcripts import Transcript, read_transcripts
from tests.hostile.fuzzing import VALUES, bounded, tries
from tests.hostile.server_modes import (
    AT,
    DRAFTS,
    GOOD,
    HEALTHS,
    METRICS,
    OUTPUT_TOKENS,
    STREAMS,
    Answer,
    Forever,
    chunk,
    data,
    named,
    raw_choice,
    stalls,
    steps_of,
)
from tests.support.blocks import make_block
from tests.support.certificates import new_authority
from tests.support.runners import make_runner
from tests.support.specifications import shape
from tests.support.stand_in_runs import case, server, spec
from tests.support.stream_server import DONE, HEADERS, Request, Step, stream_server

PROMPT = Prompt(id="p1", messages=({"role": "user", "content": "count"},))
PATIENCE_SECONDS = 60.0  # more than a busy machine needs
STALLED_SECONDS = 0.2

T = TypeVar("T")


def undisturbed(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine within limits of CPU time and memory; asyncio must report no problem."""
    complaints: list[dict[str, Any]] = []

    async def run() -> T:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        try:
            return await work
        finally:
            await asyncio.sleep(0)
            gc.collect(1)  # makes asyncio report exceptions that nobody retrieved

    with bounded():
        result = asyncio.run(run())
    assert complaints == []
    return result


@contextmanager
def server_of(answer: Answer) -> Iterator[str]:
    with stream_server(lambda _: steps_of(answer)) as running:
        yield running.base_url


def measure(url: str, *, timeout_seconds: float = PATIENCE_SECONDS) -> Measured:
    request_shape = shape(output_tokens=OUTPUT_TOKENS, timeout_seconds=timeout_seconds)
    client = Client(base_url=url, shape=request_shape, read_wait=lambda: 0)
    measured = undisturbed(client.measure(PROMPT, request_id="r1", seed=0))
    assert_read_back(measured)
    return measured


def record_of(url: str, answer: Answer, code: int | None) -> RequestRecord:
    """Measure one request to `url`, which gets this answer, and return its record.

    An answer that stalls gets a short time limit first. A longer one follows if the error code is
    not `code`, because the machine may be busy.
    """
    if not stalls(answer):
        return measure(url).record
    seconds = STALLED_SECONDS
    while True:
        record = measure(url, timeout_seconds=seconds).record
        if record.error_code == code or seconds > PATIENCE_SECONDS:
            return record
        seconds *= 4


def assert_read_back(measured: Measured) -> None:
    """Check that a request's record and transcript, once stored, are read back unchanged."""
    record = measured.record
    block = make_block(requests=(record,))
    assert load_record(BlockResult, dump_record(block)) == block
    assert load_record(Transcript, dump_record(measured.transcript)) == measured.transcript
    json.loads(llmperf_responses(block))
    load_object(llmperf_summary(block))
    assert record.error_msg.isprintable()
    assert len(record.error_msg) <= 1_200
    assert record.failed == bool(record.error_msg)
    assert record.error_code != ERROR_UNEXPECTED, record.error_msg
    assert 0 <= (record.number_output_tokens or 0) <= OUTPUT_TOKENS


def rows(table: Iterable[tuple[Any, ...]]) -> list[Any]:
    return [pytest.param(*row[1:], id=row[0]) for row in table]


def test_the_table_has_its_documented_length() -> None:
    names = [[row[0] for row in table] for table in (STREAMS, HEALTHS, METRICS)]
    assert sum(map(len, names)) >= 100
    assert all(len(set(table)) == len(table) for table in names)


@pytest.mark.parametrize(("answer", "code", "words"), rows(STREAMS))
def test_an_answer_is_a_record_with_its_reason(
    answer: Answer, code: int | None, words: str
) -> None:
    with server_of(answer) as url:
        record = record_of(url, answer, code)

    assert record.error_code == code, record.error_msg
    assert words in record.error_msg
    if record.failed:
        assert not record.counts
        assert record.ttft_s is record.inter_token_latency_s is record.end_to_end_latency_s is None


@pytest.fixture(scope="module")
def trusted_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ssl.SSLContext]:
    """The TLS context of a server whose certificate this process trusts during the tests."""
    authority, context = new_authority(tmp_path_factory.mktemp("tls"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(authority))
        tls_context.cache_clear()
        tls_context()
        yield context
    tls_context.cache_clear()


# One endless or stalling answer for each outcome.
OVER_TLS = {row[2:]: row for row in STREAMS if not isinstance(row[1], bytes)}.values()


@pytest.mark.parametrize(("answer", "code", "words"), rows(OVER_TLS))
def test_endless_and_bad_answers_fail_alike_over_tls(
    trusted_tls: ssl.SSLContext, answer: Answer, code: int | None, words: str
) -> None:
    with stream_server(lambda _: steps_of(answer), tls=trusted_tls) as running:
        record = record_of(running.base_url, answer, code)

    assert record.error_code == code, record.error_msg
    assert words in record.error_msg


@pytest.mark.parametrize(("answer", "words"), rows(HEALTHS))
def test_a_health_is_ready_or_a_reason(answer: Answer, words: str) -> None:
    with server_of(answer) as url:
        endpoint = Endpoint(variant="v", base_url=url, max_tokens_per_step=1, is_baseline=True)
        problem = undisturbed(health(endpoint, api_key=None))

    assert problem.isprintable()
    assert problem.startswith(words) or words in problem, problem


@pytest.mark.parametrize(("answer", "expected"), rows(METRICS))
def test_metrics_are_read_or_nothing(answer: Answer, expected: Mapping[str, float]) -> None:
    with server_of(answer) as url:
        assert undisturbed(server_counters.read_metrics(url)) == expected


def test_counts_that_no_record_can_hold_are_nothing() -> None:
    names = [
        DRAFTS,
        DRAFTS.replace("drafts", "draft_tokens"),
        DRAFTS.replace("drafts", "accepted_tokens"),
    ]
    before = server_counters.parse_metrics("".join(f"{name} 0\n" for name in names))
    huge = server_counters.parse_metrics("".join(f"{name} 9e18\n" * 3 for name in names))
    good = server_counters.parse_metrics("".join(f"{name} 7\n" for name in names))

    assert before
    assert huge
    assert server_counters.speculation_between(before, huge) is None
    assert server_counters.speculation_between(good, before) is None
    assert server_counters.speculation_between(before, good) is not None
    fewer = {**good, f"{AT} 0": 3.0}
    assert server_counters.speculation_between({**before, f"{AT} 0": 5.0}, fewer) is None
    counted = server_counters.speculation_between({**before, f"{AT} 0": 2.0}, fewer)
    assert counted is not None
    assert counted.accepted_per_position == (1,)
    more = server_counters.parse_metrics(f"{names[0]} 7\n{names[1]} 7\n{names[2]} 8\n")
    assert server_counters.speculation_between(before, more) is None, "more accepted than drafted"
    assert (
        server_counters.speculation_between({**before, f"{AT} 0": 0.0}, {**good, f"{AT} 0": 8.0})
        is None
    )


# From here: streams of events with any content, cut and mixed.
USAGE = st.one_of(
    VALUES, st.fixed_dictionaries({"completion_tokens": VALUES, "prompt_tokens": VALUES})
)
COUNTS = {"completion_tokens": 64, "prompt_tokens": 11}
CHUNKS = st.builds(
    lambda delta, usage, finish: chunk(delta, usage=usage, finish=finish),
    st.one_of(
        VALUES,
        st.fixed_dictionaries({"content": VALUES}),
        st.fixed_dictionaries({"tool_calls": st.lists(VALUES, max_size=2)}),
        st.builds(
            lambda value: {"tool_calls": [{"function": {"name": "f", "arguments": value}}]}, VALUES
        ),
    ),
    USAGE,
    VALUES,
)
PIECES = st.one_of(
    CHUNKS,
    VALUES.map(data),
    VALUES.map(lambda value: raw_choice({"text": value})),
    VALUES.map(lambda value: raw_choice({"token_ids": value})),
    VALUES.map(lambda value: raw_choice({"index": value, "text": "x"})),
    VALUES.map(lambda value: named("x", id=value, model=value)),
    VALUES.map(lambda value: data({"usage": {**COUNTS, "prompt_tokens_details": value}})),
    VALUES.map(
        lambda value: data({"usage": {**COUNTS, "prompt_tokens_details": {"cached_tokens": value}}})
    ),
    st.integers(0, 80).map(lambda n: chunk({"content": "x"}, usage={"completion_tokens": n})),
    st.sampled_from(
        [DONE, HEADERS, b"\r\n", b"\n\n", b": x\n\n", b"0\r\n\r\n", b"HTTP/1.1 500 x\r\n\r\n"]
    ),
    st.binary(max_size=40),
)
HEADS = st.sampled_from(
    [
        HEADERS,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 429 x\r\nRetry-After: \xff\x1b[2J\r\n\r\n",
        b"HTTP/1.1 302 x\r\nLocation: \xf0\x9f\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: \xe2\x80\xae\r\n\r\n",
        b"",
    ]
)


@pytest.fixture(scope="module")
def played() -> Iterator[tuple[str, list[bytes]]]:
    """A server's address, and the list of pieces that it sends, which a test fills."""
    pieces: list[bytes] = []
    with stream_server(lambda _: [*steps_of(b"".join(pieces))]) as running:
        yield running.base_url, pieces


@tries(2_000, few=15)
@given(head=HEADS, pieces=st.lists(PIECES, max_size=12), length=st.integers(0, 5_000))
def test_any_bytes_are_a_record(
    played: tuple[str, list[bytes]], head: bytes, pieces: list[bytes], length: int
) -> None:
    url, to_play = played
    body = b"".join(pieces)
    # About half of the streams are cut off.
    to_play[:] = [head, body if length % 2 else body[:length]]

    measure(url)


LINES = st.builds(
    "{}{}{}".format,
    st.sampled_from([DRAFTS, AT, "vllm:other", "vllm:time_to_first_token_seconds_sum", ""]),
    st.one_of(
        st.text(max_size=20), st.integers().map(lambda n: f'{{position="{n}"}}'), st.just("")
    ),
    st.one_of(st.text(max_size=20), st.floats().map(" {}".format), st.integers().map(" {}".format)),
)


@tries(5_000)
@given(before=st.lists(LINES, max_size=20), after=st.lists(LINES, max_size=20))
def test_any_metrics_are_read_or_nothing(before: list[str], after: list[str]) -> None:
    names = [
        f"vllm:spec_decode_num_{n}_total 1\n" for n in ("drafts", "draft_tokens", "accepted_tokens")
    ]
    with bounded():
        first, second = (
            server_counters.parse_metrics("".join(names) + "\n".join(lines))
            for lines in (before, after)
        )
        block = make_block(
            speculation=server_counters.speculation_between(first, second),
            server=server_counters.timings_between(first, second),
        )
    assert load_record(BlockResult, dump_record(block)) == block


def is_huge(answer: Answer) -> bool:
    return isinstance(answer, Forever) or (isinstance(answer, bytes) and len(answer) > 1_000_000)


def turning_hostile(after: int) -> Any:
    """Return a server's script: `after` good answers, then the hostile rows of the tables in turn.

    Rows that stall or are huge are left out, because they take long.
    """
    good = server(1, 1, counters="".join(GOOD.replace("{", "{{").replace("}", "}}")))
    hostile, readings = (
        [row[1] for row in table if not stalls(row[1]) and not is_huge(row[1])]
        for table in (STREAMS, METRICS)
    )
    request_numbers = iter(range(10**6))

    def script(request: Request) -> Iterable[Step]:
        number = next(request_numbers)
        if number < after or request.path == "/health":
            return good(request)
        table = readings if request.path == "/metrics" else hostile
        return steps_of(table[(number - after) % len(table)])

    return script


def test_a_server_that_turns_hostile_leaves_readable_results(tmp_path: Path) -> None:
    requests = 80
    with stream_server(turning_hostile(10)) as running:
        runner = make_runner(
            spec(running.base_url, cases=[case("count"), case("repeat")], requests=requests),
            FolderSink(tmp_path),
            make_client=functools.partial(Client, read_wait=lambda: None),
        )
        result = undisturbed(runner.run())

    run = read_run(tmp_path / "test-1")
    assert run.result == result
    records = [record for block in run.blocks for record in block.requests]
    assert len(records) == 2 * requests
    failed = [record for record in records if record.failed]
    assert len(failed) > requests
    assert len({record.error_code for record in failed}) > 10
    assert len(read_transcripts(tmp_path / "test-1", run.blocks)) == 2 * requests
