"""The client against a real server that streams, stalls, sends wrong data and ends.

Figures of any timeline: tests/draftworth/truth/test_figures.py.
"""

import asyncio
import itertools
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from draftworth.measuring import streamed_request as client_module
from draftworth.measuring.chunks import ChunkReader
from draftworth.measuring.clock import MAX_WAIT_SHARE
from draftworth.measuring.event_stream import BadStreamError
from draftworth.measuring.http_client import Head, Response
from draftworth.measuring.streamed_request import Client, Measured, request_body
from draftworth.records.prompt_files import Prompt
from draftworth.records.results import PromptCache, RequestRecord
from tests.draftworth.measuring.one_request import PROMPT, SHAPE, measure, play
from tests.hostile.fuzzing import bounded
from tests.support.stream_server import (
    DONE,
    HEADERS,
    Reset,
    Script,
    Sleep,
    Step,
    Write,
    completion,
    event,
    event_of,
    stream_server,
    usage_event,
)
from tests.support.waiting import HANGS_AFTER_SECONDS


def answered(*pieces: bytes | Sleep) -> Measured:
    """Measure a request whose answer is a stream of these events."""
    whole = (HEADERS, *pieces, DONE)
    return measure(play(*(p if isinstance(p, Sleep) else Write(p) for p in whole)))[0]


def test_chunks_of_many_tokens_are_counted_and_stamped() -> None:
    script = play(*completion(3, 8, 1, 8, gap_seconds=0.05, ttft_seconds=0.1))

    measured, server = measure(script)

    record = measured.record
    assert not record.failed
    assert record.number_output_tokens == 20
    assert record.first_chunk_tokens == 3
    assert record.chunks == 4
    assert record.usage_source == "every_chunk"
    assert measured.transcript.chunk_tokens == (3, 8, 1, 8)
    assert (record.number_input_tokens, record.number_total_tokens) == (11, 31)
    # Bytes cannot arrive before they are sent; how much later depends on the machine's load. A busy
    # client may read several chunks at once, and they have the time of the last one.
    assert record.ttft_s is not None
    assert record.ttft_s >= 0.1
    offsets_us = measured.transcript.chunk_offsets_us
    assert all(b >= a for a, b in itertools.pairwise(offsets_us))
    assert record.inter_token_latency_s == pytest.approx(
        (offsets_us[-1] - offsets_us[0]) / 1e6 / 17, rel=1e-3
    )
    assert len(server.requests) == 1


def telling(metrics: object) -> Script:
    """Return a server that sends nine tokens in two chunks, and `metrics` in the last event."""
    *steps, _, done = completion(1, 8)
    usage = {"prompt_tokens": 11, "completion_tokens": 9}
    value = {"choices": [], "usage": usage, "metrics": metrics}
    return play(*steps, Write(event_of(value)), done)


# The counts of one request as vLLM 0.32 writes them.
DRAFT_COUNTS = {
    "mean_acceptance_length": 4.0,
    "draft_acceptance_rate": 0.4286,
    "acceptance_histogram": [0, 0, 1, 0, 1, 0, 0, 0],
    "num_spec_steps": 2,
    "num_accepted_draft_tokens": 6,
    "num_draft_tokens": 14,
    "num_spec_tokens": 7,
}


def test_record_holds_the_drafts_that_the_server_reports() -> None:
    record = measure(telling({"speculative_decoding": DRAFT_COUNTS}))[0].record
    assert not record.failed
    assert (record.verification_steps, record.drafted_tokens, record.accepted_tokens) == (2, 14, 6)
    assert record.tokens_per_step == 4.0, "by the server's steps: chunks came merged"


@pytest.mark.parametrize(("drafted", "accepted", "steps"), [(5, 3, 5), (0, 0, 8), (10, 8, 2)])
def test_steps_without_drafts_are_counted_too(drafted: int, accepted: int, steps: int) -> None:
    """With n-gram drafting some steps have no drafts, and vLLM counts only the steps that have."""
    counts = {
        "num_spec_steps": drafted // 5,
        "num_draft_tokens": drafted,
        "num_accepted_draft_tokens": accepted,
    }
    record = measure(telling({"speculative_decoding": counts}))[0].record
    assert (record.verification_steps, record.accepted_tokens) == (steps, accepted)


WRONG: list[dict[str, object]] = [
    {"num_spec_steps": 0},
    {"num_spec_steps": 10**400},
    {"num_spec_steps": True},
    {"num_spec_steps": "2"},
    {"num_spec_steps": None},
    {"num_draft_tokens": 10**18},
    {"num_draft_tokens": 5},
    {"num_accepted_draft_tokens": -1},
    {"num_accepted_draft_tokens": 6.0},
]
OF_ANOTHER_FORM: list[object] = [None, [], "x", 7, {}, {"speculative_decoding": [1]}]


@pytest.mark.parametrize(
    "metrics",
    [*({"speculative_decoding": DRAFT_COUNTS | wrong} for wrong in WRONG), *OF_ANOTHER_FORM],
)
def test_draft_counts_that_make_no_sense_are_dropped(metrics: object) -> None:
    record = measure(telling(metrics))[0].record
    assert not record.failed
    assert record.number_output_tokens == 9
    assert record.verification_steps is record.drafted_tokens is record.accepted_tokens is None
    assert record.tokens_per_step == 8.0, "by chunks"


def test_role_only_and_empty_events_are_no_token() -> None:
    nothing = (event("", tokens=0, role="assistant"), event("", tokens=0))
    text = (event("a", tokens=1), event("b", tokens=2, finish="stop"))
    record = answered(*nothing, Sleep(0.15), *text).record

    assert (record.ttft_s or 0.0) >= 0.15
    assert record.chunks == 2


def test_a_chunk_with_tokens_but_no_text_counts() -> None:
    """A token may be half of a multi-byte character, whose text comes with the next chunk."""
    measured = answered(event("", tokens=1), event("é", tokens=2, finish="stop"))
    assert measured.transcript.chunk_tokens == (1, 1)


@pytest.mark.parametrize(
    ("totals", "source", "tokens_per_step"),
    [([usage_event(9)], "last_chunk", 8.0), ([], "none", None)],
)
def test_a_server_that_counts_no_chunks_is_recognized(
    totals: list[bytes], source: str, tokens_per_step: float | None
) -> None:
    chunks = (event("", role="assistant"), event("abc"), event("def", finish="length"))
    measured = answered(*chunks, *totals)

    assert not measured.record.failed
    assert measured.record.usage_source == source
    assert measured.record.first_chunk_tokens == 1
    assert measured.record.tokens_per_step == tokens_per_step
    assert measured.transcript.chunk_tokens is None


def test_request_holds_shape_and_key_nothing_of_variant() -> None:
    _, server = measure(play(*completion(1, 1)), api_key="k")

    (request,) = server.requests
    body = request.json
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer k"
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert body["ignore_eos"] is True
    assert body["min_tokens"] == body["max_tokens"] == 64
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["temperature"] == 0.0
    # If the output's length is not fixed, the model decides where the output ends.
    assert not {"ignore_eos", "min_tokens"} & sent_body(PROMPT, fixed_output_length=False).keys()


def sent_body(prompt: Prompt, **shape: object) -> dict[str, Any]:
    body = request_body(replace(SHAPE, **shape), prompt, seed=0)  # type: ignore[arg-type]
    parsed: dict[str, Any] = json.loads(body)
    return parsed


def test_a_prompts_own_token_limit_is_enforced() -> None:
    limited = replace(PROMPT, max_tokens=2)
    assert sent_body(limited)["max_tokens"] == sent_body(limited)["min_tokens"] == 2
    assert sent_body(PROMPT)["max_tokens"] == 64
    measured, _ = measure(play(*completion(1, 2)), prompt=limited)
    assert "completion_tokens: given 3" in measured.record.error_msg


def test_each_salted_request_has_its_own_salt() -> None:
    salted = replace(SHAPE, prompt_cache="salted")
    with stream_server(play(*completion(1, 1))) as server:
        client = Client(base_url=server.base_url, shape=salted)
        for name in ("run/1-00000", "run/1-00001", "run/1-00000"):
            asyncio.run(client.measure(PROMPT, request_id=name, seed=0))
    first, second, again = (request.json["cache_salt"] for request in server.requests)
    # vLLM refuses a salt with a slash, or with more than 128 characters.
    assert re.fullmatch("[0-9a-f]{64}", first)
    assert first == again != second


@pytest.mark.parametrize("prompt_cache", ["cold", "warm"])
def test_no_server_gets_an_unwanted_salt(prompt_cache: PromptCache) -> None:
    """Another server than vLLM may refuse a field that it does not know."""
    assert "cache_salt" not in sent_body(PROMPT, prompt_cache=prompt_cache)


def test_tools_and_response_format_are_sent_unchanged() -> None:
    tool = {"type": "function", "function": {"name": "f", "x-own": [1, None]}}
    form = {"type": "json_object"}
    body = sent_body(replace(PROMPT, tools=(tool,), tool_choice="auto", response_format=form))
    assert (body["tools"], body["tool_choice"], body["response_format"]) == ([tool], "auto", form)
    assert not {"tools", "tool_choice", "response_format"} & sent_body(PROMPT).keys()


def test_text_to_continue_goes_to_completions_without_template() -> None:
    steps: list[Step] = [
        Write(HEADERS),
        Write(continuation("Once", tokens=1)),
        Sleep(0.05),
        Write(continuation(" upon a", tokens=3, finish="length")),
        Write(usage_event(3)),
        Write(DONE),
    ]
    measured, server = measure(play(*steps), prompt=Prompt(id="p", text_to_continue="Tell:"))
    (request,) = server.requests
    assert request.path == "/v1/completions"
    assert request.json["prompt"] == "Tell:"
    assert not {"messages", "chat_template_kwargs"} & request.json.keys()
    assert measured.transcript.text == "Once upon a"
    assert measured.transcript.chunk_tokens == (1, 2)
    assert measured.record.inter_token_latency_s is not None
    assert measured.record.finish_reason == "length"


def test_token_ids_are_requested_only_where_wanted() -> None:
    assert "return_token_ids" not in sent_body(PROMPT)
    assert sent_body(PROMPT, token_ids=True)["return_token_ids"] is True
    measured = answered(event("x", tokens=1, token_ids=[7]), event("x", tokens=3, token_ids=[8, 9]))
    assert measured.transcript.token_ids == (7, 8, 9)


def test_token_ids_of_some_tokens_are_dropped() -> None:
    measured = answered(event("x", tokens=1, token_ids=[7]), event("x", tokens=3))
    assert not measured.record.failed
    assert measured.transcript.token_ids is None


def test_tool_calls_are_output() -> None:
    """Name and arguments of a call arrive in pieces; usage arrives only at the end."""
    name = {"index": 0, "id": "c", "function": {"name": "weather", "arguments": ""}}
    rest = {"index": 0, "function": {"arguments": '{"in": "Oslo"}'}}
    called = event(tool_calls=[name]), Sleep(0.05), event(tool_calls=[rest], finish="tool_calls")
    measured = answered(*called, usage_event(9))

    assert measured.transcript.text == 'weather{"in": "Oslo"}'
    assert measured.record.chunks == 2
    assert measured.record.number_output_tokens == 9
    assert measured.record.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("details", "cached"),
    [
        ({"cached_tokens": 0}, 0),
        ({"cached_tokens": 11, "audio_tokens": None}, 11),
        # Impossible counts are recorded as unknown, because no figure of the request needs them.
        ({"cached_tokens": 12}, None),
        ({"cached_tokens": -1}, None),
        ({"cached_tokens": 1.0}, None),
        ({"cached_tokens": True}, None),
        ({"cached_tokens": None}, None),
        ({"cached_tokens": 10**400}, None),
        ({"cached_tokens": {}}, None),
        ({}, None),
        (None, None),
        ([5], None),
        ("5", None),
    ],
)
def test_prompt_tokens_from_a_cache_are_recorded(details: object, cached: int | None) -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 2, "prompt_tokens_details": details}
    last = event_of({"choices": [], "usage": usage})
    record = answered(event("a", tokens=1), event("b", tokens=2, finish="stop"), last).record

    assert not record.failed
    assert record.number_input_tokens == 11
    assert record.cached_input_tokens == cached


@pytest.mark.parametrize(
    ("details", "cached"), [(None, 7), ({"cached_tokens": 3}, 3), ({"cached_tokens": 0}, 0)]
)
def test_an_older_llama_cpp_counts_cached_tokens_apart(details: object, cached: int) -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 2, "prompt_tokens_details": details}
    last = event_of({"choices": [], "usage": usage, "timings": {"cache_n": 7, "prompt_n": 4}})
    record = answered(event("a", tokens=1), event("b", tokens=2, finish="stop"), last).record

    assert record.cached_input_tokens == cached


def test_more_cached_tokens_than_prompt_tokens_are_dropped() -> None:
    long = {
        "prompt_tokens": 11,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 9},
    }
    first = event_of({"choices": [{"delta": {"content": "a"}}], "usage": long})
    record = answered(first, event("b", tokens=2, prompt_tokens=5, finish="stop")).record

    assert (record.number_input_tokens, record.cached_input_tokens) == (5, None)


@pytest.mark.parametrize(
    ("model", "name"), [("m", "m"), ("a\x1b[2J\n b", r"a\x1b[2J b"), ("", ""), (None, ""), (7, "")]
)
def test_the_model_that_answers_is_named(model: object, name: str) -> None:
    chunk = event_of({"model": model, "choices": [{"delta": {"content": "a"}}]})
    assert answered(chunk, event("b", finish="stop")).model_name == name
    assert answered(chunk).model_name == name
    assert answered(chunk, event_of({"error": "oom"})).model_name == ""


def continuation(text: str, *, tokens: int, finish: str | None = None) -> bytes:
    """Return a server-sent event as vLLM sends it at `/v1/completions`."""
    value = {
        "choices": [{"index": 0, "text": text, "finish_reason": finish}],
        "usage": {"prompt_tokens": 2, "completion_tokens": tokens},
    }
    return event_of(value)


# More tests of wrong answers: tests/hostile/server_modes.py.
def test_an_answer_older_than_its_request_fails() -> None:
    stream = client_module._Stream(lambda: None, 64)
    stream.on_head(Head(status=200))
    stream.on_body(event("a", tokens=1, finish="stop"), 5)
    sent = Response(head=Head(status=200), sent_ns=6, sending_ns=0, kernel_stamped=True)

    assert stream.verdict(replace(sent, sent_ns=5)) is None
    assert stream.verdict(sent) == (
        client_module.ERROR_BAD_STREAM,
        "the answer came before the request was sent",
    )


def test_an_unexpected_exception_is_recorded_under_its_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def defect(self: object, value: object, now_ns: int) -> None:
        raise ZeroDivisionError("of\nthe client")

    monkeypatch.setattr(ChunkReader, "_chunk", defect)
    measured, _ = measure(play(*completion(1, 1)))

    assert measured.record.error_code == client_module.ERROR_UNEXPECTED
    assert measured.record.error_msg == "unexpected ZeroDivisionError: of the client"


def test_what_ends_the_program_ends_a_request() -> None:
    async def cancelled(base_url: str) -> None:
        client = Client(base_url=base_url, shape=SHAPE)
        task = asyncio.ensure_future(client.measure(PROMPT, request_id="r", seed=0))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with stream_server(play(Sleep(9))) as server:
        asyncio.run(cancelled(server.base_url))


def test_an_event_in_single_bytes_costs_its_length() -> None:
    """Bytes are kept in pieces: joining them at each byte would copy each 150,000 times."""
    reader = ChunkReader(64)
    with bounded(loops=4):
        for _ in range(300_000):
            reader.feed(b"x", 0)
    reader.feed(b"x" * 700_000, 0)
    with pytest.raises(BadStreamError, match="an event of more than 1,000,000 bytes"):
        reader.feed(b"x", 0)


def test_a_timeout_records_how_long_it_waited() -> None:
    """The time is read from the client's clock, which here runs a thousand times as fast."""
    start_ns = time.perf_counter_ns()
    steps = (Write(HEADERS), Write(event("a", tokens=1)), Sleep(3))
    record = measure(
        play(*steps),
        timeout_seconds=0.2,
        clock=lambda: start_ns + 1_000 * (time.perf_counter_ns() - start_ns),
    )[0].record

    assert record.error_code == client_module.ERROR_TIMEOUT
    assert "0.2 s" in record.error_msg
    assert (record.timed_out_after_s or 0.0) >= 200
    assert record.failed_after_s is None


@pytest.mark.parametrize(
    ("steps", "timeout_s", "least_s"),
    [
        (completion(1, 1), HANGS_AFTER_SECONDS, None),
        ([Write(HEADERS), Sleep(0.1), Reset()], HANGS_AFTER_SECONDS, 0.1),
        # A refusal whose body does not end within the timeout: its status is recorded, no timeout.
        ([Write(b"HTTP/1.1 503 Busy\r\nContent-Length: 99\r\n\r\nbusy"), Sleep(9)], 3.0, 3.0),
    ],
)
def test_a_failed_request_records_how_long_it_took(
    steps: list[Step], timeout_s: float, least_s: float | None
) -> None:
    measured, _ = measure(play(*steps), timeout_seconds=timeout_s)

    assert measured.record.error_code != client_module.ERROR_TIMEOUT
    assert measured.record.timed_out_after_s is None
    took_s = measured.record.failed_after_s
    assert took_s is None if least_s is None else (took_s or 0.0) >= least_s


def test_no_server_is_a_connect_error() -> None:
    with stream_server(play()) as server:
        pass
    client = Client(base_url=server.base_url, shape=SHAPE)

    record = asyncio.run(client.measure(PROMPT, request_id="r", seed=0)).record

    assert record.error_code == client_module.ERROR_CONNECT


# Total waits for a core (ns), as the client reads them at the start, at the first token and at the
# end: all of the wait comes before, or all of it after, the first token.
BEFORE_THE_FIRST, AFTER_THE_FIRST = (0, 400_000_000, 400_000_000), (0, 0, 400_000_000)


def real_waits_ns() -> int:
    """Return how long all threads of this process have waited for a core; 0 if not counted."""
    files = Path("/proc/self/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[1]) for file in files)


def measured_with_waits(
    script: Script, waits_ns: Sequence[int], *, excluded: str | None
) -> RequestRecord:
    """Measure a request with these waits; again if this machine really kept it waiting.

    excluded: the reason that the test expects; None: the request is not excluded.
    """
    for _ in range(10):
        before_ns = real_waits_ns()
        record = measure(script, read_wait=iter(waits_ns).__next__)[0].record
        waited_ns = real_waits_ns() - before_ns
        if record.excluded == excluded or waited_ns < MAX_WAIT_SHARE * 100_000_000:
            break
    return record


def test_without_stamps_waits_between_tokens_exclude_a_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("draftworth.measuring.connections.sys.platform", "elsewhere")
    script = play(*completion(1, 1, ttft_seconds=0.1, gap_seconds=0.05))
    excluded = "client waited 400.0 ms for a core while tokens came"
    record = measured_with_waits(script, AFTER_THE_FIRST, excluded=excluded)

    assert record.excluded == excluded
    assert record.run_queue_wait_s == pytest.approx(0.4)
    assert not record.counts
    assert not record.failed


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's receive times are Linux's")
@pytest.mark.parametrize("waits_ns", [BEFORE_THE_FIRST, AFTER_THE_FIRST])
def test_with_kernel_stamps_the_same_wait_is_harmless(
    waits_ns: tuple[int, ...],
) -> None:
    script = play(*completion(1, 1, ttft_seconds=0.1, gap_seconds=0.2))
    record = measured_with_waits(script, waits_ns, excluded=None)

    assert record.excluded is None
    assert record.run_queue_wait_s == pytest.approx(0.4)


def test_tokens_read_together_after_a_wait_are_excluded() -> None:
    together = Write(event("a", tokens=1) + event("b", tokens=2, finish="stop"))
    script = play(Write(HEADERS), Sleep(0.1), together, Write(DONE))
    excluded = "client waited 400.0 ms for a core before the first token"
    record = measured_with_waits(script, BEFORE_THE_FIRST, excluded=excluded)

    assert record.excluded == excluded
