"""Measures one streamed completion, for the measuring Job and for draftworth's commands.

Definitions (`docs/appendix/metrics.md`): TTFT is the time from sending the request to the first
chunk with an output token; E2E is the time from sending it to the last such chunk. ITL is (time of
the last chunk - time of the first) / (output tokens - tokens of the first chunk), never a gap
between two chunks.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from draftworth.measuring import http_client
from draftworth.measuring.chunks import ChunkReader, Timeline, most_bytes
from draftworth.measuring.clock import (
    WaitReader,
    WallClock,
    Watch,
    exclusion_reason,
    run_queue_wait_ns,
    unix_clock,
)
from draftworth.measuring.connections import Clock
from draftworth.measuring.event_stream import BadStreamError
from draftworth.measuring.run_specification import RequestShape
from draftworth.records.prompt_files import Prompt
from draftworth.records.results import RequestRecord
from draftworth.records.transcripts import Transcript
from draftworth.untrusted import one_line


def max_tokens_of(shape: RequestShape, prompt: Prompt) -> int:
    """Return the most tokens of a prompt's output: its own limit, else `shape.output_tokens`."""
    return shape.output_tokens if prompt.max_tokens is None else prompt.max_tokens


def request_seed(shape: RequestShape, place: int) -> int:
    """Return the seed of the request with the index `place` in a case's sequence of requests.

    All variants get the same seed at the same index, so requests that are compared with each other
    have equal seeds. A prompt that is sent again has another index and so another seed: its output
    is sampled anew.
    The seed has 31 bits, which every server accepts.
    """
    digest = hashlib.sha256(f"{shape.seed}/{place}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1


def request_body(shape: RequestShape, prompt: Prompt, *, seed: int, cache_salt: str = "") -> bytes:
    """Return the JSON body of a request, which is the same for every variant.

    cache_salt: with it vLLM's prefix cache has nothing for a request with another salt; it is sent
        only where `shape.prompt_cache` asks for it, because other servers may refuse the field.
    """
    max_tokens = max_tokens_of(shape, prompt)
    body: dict[str, Any] = {
        "model": shape.model,
        **prompt_fields(prompt),
        "max_tokens": max_tokens,
        "temperature": shape.temperature,
        "seed": seed,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    if prompt.text_to_continue is None:
        body["chat_template_kwargs"] = {"enable_thinking": shape.enable_thinking}
    if shape.fixed_output_length:
        body |= {"ignore_eos": True, "min_tokens": max_tokens}
    if shape.token_ids:  # left out otherwise, because a server may refuse an unknown field
        body["return_token_ids"] = True
    if shape.prompt_cache == "salted":
        body["cache_salt"] = cache_salt
    return json.dumps(body).encode()


def _salt(request_id: str) -> str:
    """Return a request's own `cache_salt`: vLLM takes at most 128 characters, and no slash."""
    return hashlib.sha256(request_id.encode()).hexdigest()


def prompt_fields(prompt: Prompt) -> dict[str, Any]:
    """Return a prompt's fields of a request body: messages and tools, or a text to continue."""
    if prompt.text_to_continue is not None:
        return {"prompt": prompt.text_to_continue}
    beside = {
        "tools": prompt.tools,
        "tool_choice": prompt.tool_choice,
        "response_format": prompt.response_format,
    }
    present = {name: value for name, value in beside.items() if value is not None}
    return {"messages": prompt.messages, **present}


# Error codes of requests that failed without an HTTP error status.
ERROR_CONNECT = -1
ERROR_TIMEOUT = -2
ERROR_BROKEN_STREAM = -3
ERROR_BAD_STREAM = -4
ERROR_NO_TOKENS = -5
ERROR_LOST_ACTOR = -6  # on Ray: the actor's process ended during the request
ERROR_UNEXPECTED = -7  # a program error of the client, which the server's answer triggered

# The most bytes to read of an answer that is not a stream; the error message quotes them.
_REFUSAL_BYTES = 2_000


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A request's record, and the transcript from which the record was computed.

    model_name: the model that the answer names; empty if it names none, or the request failed.
    """

    record: RequestRecord
    transcript: Transcript
    model_name: str = ""


@dataclass(frozen=True, kw_only=True)
class Client:
    """Sends requests to one server and measures them. Tests replace the clocks and `read_wait`."""

    base_url: str
    shape: RequestShape
    api_key: str | None = None
    clock: Clock = time.perf_counter_ns
    wall_clock: WallClock = unix_clock
    read_wait: WaitReader = run_queue_wait_ns

    async def measure(self, prompt: Prompt, *, request_id: str, seed: int) -> Measured:
        """Send one request and measure it. A failure is returned as a failed record, not raised."""
        stream = _Stream(self.read_wait, max_tokens_of(self.shape, prompt))
        response: http_client.Response | None = None
        called_at_unix_s, called_ns = self.wall_clock(), self.clock()
        try:
            async with asyncio.timeout(self.shape.timeout_seconds):
                body = request_body(self.shape, prompt, seed=seed, cache_salt=_salt(request_id))
                response = await self._exchange(stream, prompt, body)
            error = stream.verdict(response)
        except TimeoutError:
            late = (ERROR_TIMEOUT, f"no end within {self.shape.timeout_seconds:g} s")
            error = stream.refused or late
        except Exception as failure:  # noqa: BLE001 (one bad answer is one failed record)
            error = stream.refused or _error_of(failure)
        took_s = (self.clock() - called_ns) / 1e9
        sent_ns = response.sent_ns if response else called_ns
        started_at_unix_s = called_at_unix_s + (sent_ns - called_ns) / 1e9
        excluded = stream.excluded(response) if response and not error else None
        is_late = error is not None and error[0] == ERROR_TIMEOUT
        return _measured(
            stream,
            sent_ns,
            error,
            request_id=request_id,
            prompt_id=prompt.id,
            seed=seed,
            started_at_unix_s=started_at_unix_s,
            timed_out_after_s=took_s if is_late else None,
            failed_after_s=took_s if error and not is_late else None,
            excluded=excluded,
        )

    async def _exchange(self, stream: _Stream, prompt: Prompt, body: bytes) -> http_client.Response:
        # The server adds no chat template at `completions`, so a text to continue is sent there.
        kind = "chat/completions" if prompt.text_to_continue is None else "completions"
        return await http_client.exchange(
            "POST",
            f"{self.base_url}/v1/{kind}",
            body=body,
            headers={
                "Content-Type": "application/json",
                "Accept": "text/event-stream",
                **http_client.bearer(self.api_key),
            },
            on_head=stream.on_head,
            on_body=stream.on_body,
            limit_bytes=most_bytes(max_tokens_of(self.shape, prompt)),
            clock=self.clock,
        )


class _Stream:
    def __init__(self, read_wait: WaitReader, max_tokens: int) -> None:
        self.reader = ChunkReader(max_tokens)
        self._read_wait = read_wait
        self._watch = Watch()
        self._wait_at_start_ns = read_wait()
        self._wait_at_first_ns: int | None = None
        self._refusal: http_client.Head | None = None
        self._refusal_body = b""
        self._seen_first = False

    def on_head(self, head: http_client.Head) -> None:
        if head.status != 200 or http_client.why_no_stream(head):
            self._refusal = head

    def on_body(self, data: bytes, now_ns: int) -> None:
        if self._refusal:
            self._refusal_body += data[:_REFUSAL_BYTES]
            if len(self._refusal_body) >= _REFUSAL_BYTES:
                raise http_client.HttpError(
                    "enough was read of an answer that is not a stream of tokens"
                )
            return
        self.reader.feed(data, now_ns)
        if not self._seen_first and self.reader.has_chunks:
            self._seen_first = True
            self._wait_at_first_ns = self._read_wait()

    @property
    def refused(self) -> tuple[int, str] | None:
        head, body = self._refusal, self._refusal_body
        if head is None:
            return None
        if head.status == 200:
            return ERROR_BAD_STREAM, http_client.no_stream(head, body)
        return head.status, http_client.refusal(head, body)

    def verdict(self, response: http_client.Response) -> tuple[int, str] | None:
        timeline = self.timeline
        if self.refused:
            return self.refused
        if not timeline.ended:
            return ERROR_BROKEN_STREAM, "the stream ended without a finish reason or [DONE]"
        if not timeline.chunk_times_ns:
            return ERROR_NO_TOKENS, "the server sent no output token"
        if timeline.chunk_times_ns[0] < response.sent_ns:
            return ERROR_BAD_STREAM, "the answer came before the request was sent"
        return None

    @cached_property
    def timeline(self) -> Timeline:
        return self.reader.timeline()

    @cached_property
    def waits_ns(self) -> tuple[int, int] | None:
        """How long (ns) the client's thread waited for a CPU core before and after the first chunk.

        The second wait is counted from the first chunk until this property is first read. None: the
        system counts no waits, or no chunk arrived.
        """
        end = self._read_wait()
        start, first = self._wait_at_start_ns, self._wait_at_first_ns
        if start is None or first is None or end is None:
            return None
        return first - start, end - first

    def excluded(self, response: http_client.Response) -> str | None:
        """Return why an answer's timing cannot be trusted; None if no reason is known."""
        if not_running := self._watch.interruption or response.no_time:
            return not_running
        waits = self.waits_ns
        if waits is None:
            return None
        times = self.timeline.chunk_times_ns
        first_ns, last_ns = times[0], times[-1]
        # Chunks that were read together all have the arrival time of the last one, so the first
        # chunk was read alone if the second one has a later time.
        alone = len(times) == 1 or times[1] > first_ns
        return exclusion_reason(
            sending_ns=response.sending_ns,
            to_first_wait_ns=waits[0],
            to_first_ns=first_ns - response.sent_ns,
            after_first_wait_ns=waits[1],
            after_first_ns=last_ns - first_ns,
            first_is_exact=response.kernel_stamped and alone,
            last_is_exact=response.kernel_stamped,
        )


def _error_of(failure: Exception) -> tuple[int, str]:
    reason = one_line(str(failure))
    if isinstance(failure, http_client.ConnectError):
        return ERROR_CONNECT, reason
    if isinstance(failure, BadStreamError | http_client.TooLongAnswerError):
        return ERROR_BAD_STREAM, reason
    if isinstance(failure, http_client.HttpError):
        return ERROR_BROKEN_STREAM, reason
    return unexpected(failure)


def unexpected(failure: Exception) -> tuple[int, str]:
    """Return the error code and message for an exception that is a defect of this program."""
    return ERROR_UNEXPECTED, one_line(f"unexpected {type(failure).__name__}: {failure}")


def _measured(
    stream: _Stream, sent_ns: int, error: tuple[int, str] | None, **about: Any
) -> Measured:
    waits = stream.waits_ns
    timeline = stream.timeline
    code, message = error or (None, "")
    tokens_in, tokens_out = timeline.input_tokens, timeline.output_tokens
    figures = {} if error else figures_of(timeline, sent_ns)
    if timeline.acceptance and tokens_out is not None and not error:
        chunks = len(timeline.chunk_times_ns)
        figures |= timeline.acceptance.of_answer(output_tokens=tokens_out, chunks=chunks)
        if steps := figures["verification_steps"]:
            figures["tokens_per_step"] = (tokens_out - 1) / steps
    record = RequestRecord(
        error_code=code,
        error_msg=message,
        **figures,
        number_total_tokens=None
        if tokens_in is None or tokens_out is None
        else tokens_in + tokens_out,
        number_output_tokens=tokens_out,
        number_input_tokens=tokens_in,
        cached_input_tokens=timeline.cached_input_tokens,
        **about,
        chunks=len(timeline.chunk_times_ns),
        usage_source=timeline.usage_source,
        finish_reason=timeline.finish_reason,
        output_sha256=None if error else hashlib.sha256(timeline.text.encode()).hexdigest(),
        run_queue_wait_s=sum(waits) / 1e9 if waits else None,
    )
    tokens = timeline.chunk_tokens
    transcript = Transcript(
        request_id=record.request_id,
        text=timeline.text,
        chunk_offsets_us=tuple((t - sent_ns) // 1000 for t in timeline.chunk_times_ns),
        chunk_tokens=tuple(tokens) if tokens is not None else None,
        chunk_characters=tuple(timeline.chunk_characters),
        token_ids=tuple(timeline.token_ids) if timeline.token_ids is not None else None,
    )
    model_name = "" if error else timeline.model_name
    return Measured(record=record, transcript=transcript, model_name=model_name)


def figures_of(timeline: Timeline, sent_ns: int) -> dict[str, Any]:
    """Return TTFT, ITL and the other figures of a complete answer, by field of `RequestRecord`.

    sent_ns: when the request was sent, by the clock of `timeline.chunk_times_ns`.
    """
    times = timeline.chunk_times_ns
    first_ns, last_ns = times[0], times[-1]
    total = timeline.output_tokens
    first_tokens = timeline.chunk_tokens[0] if timeline.chunk_tokens else 1
    after_first = total - first_tokens if total is not None else 0
    steps = len(times) - 1
    decoded = after_first > 0 and steps > 0
    e2e_s = (last_ns - sent_ns) / 1e9
    return {
        "ttft_s": (first_ns - sent_ns) / 1e9,
        "inter_token_latency_s": (last_ns - first_ns) / 1e9 / after_first if decoded else None,
        "end_to_end_latency_s": e2e_s,
        "request_output_throughput_token_per_s": total / e2e_s
        if total is not None and e2e_s > 0
        else None,
        "tokens_per_step": after_first / steps if decoded else None,
        "first_chunk_tokens": first_tokens,
        # llmperf (commit f1d6bed) divides E2E, which includes TTFT, by the number of events.
        "llmperf_inter_token_latency_s": e2e_s / timeline.events if timeline.events else None,
    }
