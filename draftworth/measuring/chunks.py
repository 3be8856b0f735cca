"""Reads the bytes of an OpenAI-compatible stream as chunks with tokens and arrival times.

A chunk is a server-sent event with at least one output token: of an answer, of reasoning, of a tool
call, or of a continued text. Tokens are counted from the `usage` that the server sends: with
`stream_options.continuous_usage_stats` (vLLM) every event has the number of tokens so far, so the
tokens of each chunk are exact. If a server sends `usage` only at the end, the total is exact; then
every event with text is a chunk, and the first chunk is assumed to hold one token. Events that are
empty or have only a role are not chunks.

A request asks for one choice, so a stream with several choices, or with chunks of two answers or
two models, is refused. Normally all chunks of an answer have the same `id`, so two ids would mean
two answers. But some servers (TensorRT-LLM before June 2026, LiteLLM with Bedrock) make a new id
for each chunk. So a stream counts as two answers only if it has several ids and at least one of
them occurs more than once.

The request's `max_tokens` limits the bytes, the events, the text and the counts of a stream.
"""

import json
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from draftworth.measuring.event_stream import BadStreamError, EventReader
from draftworth.records.results import UsageSource
from draftworth.untrusted import MIB, encodable, one_line

# A stream may have `_BYTES_PER_TOKEN` bytes per token and `_MORE_BYTES` more. An event of
# vLLM has 300 bytes plus the model's name, and holds one token or more; other servers send several
# events for a token. `_MORE_BYTES` is for HTTP headers and for the stream's comments that keep a
# slow connection alive.
_BYTES_PER_TOKEN, _MORE_BYTES = 4_096, MIB
# The most events of a stream, per token and besides: a server may send each character as an event,
# and a token has about four characters.
_EVENTS_PER_TOKEN, _MORE_EVENTS = 8, 1_000
# The most characters of a stream's text, per token and besides: the longest tokens of Llama 3 and
# Qwen 3 have 128.
_CHARACTERS_PER_TOKEN, _MORE_CHARACTERS = 256, 4_096
# Ten times the longest context that any model has.
_MAX_INPUT_TOKENS = 100_000_000
_MAX_FINISH_REASON_CHARACTERS = 100
_MOST_TOKEN_IDS = 2**31  # token ids must be below this; large vocabularies have 300,000 tokens
_TEXT_FIELDS = ("content", "reasoning_content", "reasoning")
_CALL_FIELDS = ("name", "arguments")
_decode = json.JSONDecoder().raw_decode


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """The decoding steps and drafted tokens that a server counted for one request.

    vLLM sends them in `metrics.speculative_decoding`, llama.cpp without the steps in `timings`.
    steps_with_drafts: steps that had drafted tokens; None: the server does not count them.
    """

    steps_with_drafts: int | None
    drafted_tokens: int
    accepted_tokens: int

    def of_answer(self, *, output_tokens: int, chunks: int) -> dict[str, int]:
        """Return the counts by field of `RequestRecord`, with the number of all decoding steps.

        No server sends the number of all steps, so it is computed. The prefill yields the first
        token, and each step yields exactly one token that is not an accepted drafted token. So
        steps = output tokens - 1 - accepted tokens. This is too low if vLLM also counted drafted
        tokens that it accepted after the output's end (at most one window). Two other numbers
        correct that, because the steps cannot be fewer: `steps_with_drafts`, and the number of
        chunks after the first, as vLLM sends at most one chunk per step (llama.cpp sends one per
        token). If a busy server merged chunks, the result may still be too low.
        """
        after_first = max(0, output_tokens - 1)
        least = max(after_first - self.accepted_tokens, min(after_first, 1))
        if not self.steps_with_drafts:
            return self._with_steps(least)
        # The most drafted tokens that one step can have, because each other step with drafts has at
        # least one.
        longest_window = self.drafted_tokens - (self.steps_with_drafts - 1)
        # With one chunk per step there are at most `least + longest_window` chunks after the first.
        # If there are more, the server sends several chunks per step, and their number says nothing
        # about the number of steps.
        by_chunks = chunks - 1 if chunks - 1 <= least + longest_window else 0
        return self._with_steps(max(least, self.steps_with_drafts, by_chunks))

    def _with_steps(self, steps: int) -> dict[str, int]:
        return {
            "verification_steps": steps,
            "drafted_tokens": self.drafted_tokens,
            "accepted_tokens": self.accepted_tokens,
        }


@dataclass(kw_only=True)
class Timeline:
    """The content of a stream: arrival times of its chunks (ns), text, totals.

    chunk_tokens: each chunk's number of tokens; None if the server did not send it with each chunk.
    chunk_characters: the length of each chunk's text, in characters.
    ended: whether a finish reason or `[DONE]` arrived. events: the number of JSON events.
    acceptance: the counts of drafted tokens; None if the server sent none, or impossible ones.
    token_ids: the ids of all output tokens; None if the server did not send each of them.
    model_name: the model that the chunks name, on one line; empty if they name none.
    cached_input_tokens: how many of `input_tokens` came from a cache of the server; None: not sent.
    """

    chunk_times_ns: list[int] = field(default_factory=list)
    chunk_tokens: list[int] | None = None
    chunk_characters: list[int] = field(default_factory=list)
    output_tokens: int | None = None
    input_tokens: int | None = None
    text: str = ""
    finish_reason: str | None = None
    ended: bool = False
    events: int = 0
    acceptance: Acceptance | None = None
    token_ids: list[int] | None = None
    model_name: str = ""
    cached_input_tokens: int | None = None

    @property
    def usage_source(self) -> UsageSource:
        if self.chunk_tokens is not None:
            return "every_chunk"
        return "none" if self.output_tokens is None else "last_chunk"


def most_bytes(max_tokens: int) -> int:
    """Return the most bytes that a stream of `max_tokens` tokens may have, with HTTP headers."""
    return _MORE_BYTES + _BYTES_PER_TOKEN * max_tokens


class ChunkReader:
    """Parses a stream: `feed` gets its bytes as they arrive, `timeline` returns its content."""

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._most_events = _MORE_EVENTS + _EVENTS_PER_TOKEN * max_tokens
        self._characters_left = _MORE_CHARACTERS + _CHARACTERS_PER_TOKEN * max_tokens
        self._events = EventReader()
        self._so_far = Timeline()
        self._tokens: list[int | None] = []  # tokens of each chunk; None if its event had no usage
        self._counted = 0
        self._text: list[str] = []
        self._token_ids: list[int] = []
        self._index: Any = None
        self._ids: dict[str, None] = {}
        self._repeats_an_id = False
        self._model_name = ""
        self._cached_tokens: Any = None

    def feed(self, data: bytes, now_ns: int) -> None:
        for event in self._events.feed(data):
            self._event(event, now_ns)

    def _event(self, data: bytes, now_ns: int) -> None:
        if data == b"[DONE]":
            self._so_far.ended = True
            return
        try:
            value = _decoded(data.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError) as error:
            raise BadStreamError(f"not JSON in the stream: {data[:80]!r}") from error
        if not isinstance(value, dict):
            raise BadStreamError(f"not an object in the stream: {data[:80]!r}")
        if value.get("error"):
            raise BadStreamError(_error_text(value["error"]))
        try:
            self._chunk(value, now_ns)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise BadStreamError(f"not a completion chunk: {data[:80]!r}") from error

    def _chunk(self, value: dict[str, Any], now_ns: int) -> None:
        line = self._so_far
        line.events += 1
        if line.events > self._most_events:
            raise self._too_much(f"{self._most_events:,} events")
        choices = value.get("choices") or []
        text = ""
        if choices:
            choice = self._only_choice(choices)
            text = _text_of(choice)
            if text:
                self._check_source(value)
            if ids := choice.get("token_ids"):
                self._add_token_ids(ids)
            if (reason := choice.get("finish_reason")) is not None:
                line.finish_reason = _finish(reason) or line.finish_reason
        self._add_counts(value)
        tokens = self._usage(value.get("usage"), in_stream=bool(choices))
        if tokens or (text and tokens is None):
            line.chunk_times_ns.append(now_ns)
            line.chunk_characters.append(0)
            self._tokens.append(tokens)
        if text:
            self._add_text(text)

    def _add_counts(self, value: dict[str, Any]) -> None:
        """Keep what an event says beside its `usage`: the counts that only one server sends."""
        if metrics := value.get("metrics"):
            self._so_far.acceptance = _acceptance_in_vllm(metrics, self._max_tokens)
        elif timings := value.get("timings"):
            self._so_far.acceptance = _acceptance_in_llama_cpp(timings, self._max_tokens)
            # llama.cpp before February 2026 counts cached tokens here alone, and not in `usage`.
            if (cached_tokens := _field(timings, "cache_n")) is not None:
                self._cached_tokens = cached_tokens

    def _check_source(self, value: dict[str, Any]) -> None:
        """Raise BadStreamError if chunks with text are from two answers or two models.

        Chunks without text are not checked, because a gateway may add its own first and last chunk.
        """
        name = value.get("model")
        if name and isinstance(name, str):
            self._model_name = self._model_name or name
            if name.casefold() != self._model_name.casefold():
                raise BadStreamError(_mixed("models", self._model_name, name))
        if (chunk_id := value.get("id")) and isinstance(chunk_id, str):
            self._repeats_an_id = self._repeats_an_id or chunk_id in self._ids
            self._ids[chunk_id] = None
            if self._repeats_an_id and len(self._ids) > 1:
                first, second, *_ = self._ids
                raise BadStreamError(_mixed("ids", first, second))

    def _only_choice(self, choices: list[Any]) -> dict[str, Any]:
        if len(choices) > 1:
            raise BadStreamError(f"a chunk with {len(choices)} choices, allowed: one")
        choice: dict[str, Any] = choices[0]
        if (index := choice.get("index")) is not None:
            if self._index is None:
                self._index = index
            if index != self._index:
                raise BadStreamError(_mixed("choices", self._index, index))
        return choice

    def _add_text(self, text: str) -> None:
        self._characters_left -= len(text)
        if self._characters_left < 0:
            raise self._too_much("text")
        self._text.append(text)
        if self._so_far.chunk_characters:  # text without a new token belongs to the last chunk
            self._so_far.chunk_characters[-1] += len(text)

    def _add_token_ids(self, ids: Any) -> None:
        if not all(type(each) is int and 0 <= each < _MOST_TOKEN_IDS for each in ids):
            raise BadStreamError(f"token_ids: allowed: whole numbers from 0 to {_MOST_TOKEN_IDS:,}")
        self._token_ids += ids
        if len(self._token_ids) > self._max_tokens:
            raise self._too_much("token_ids")

    def _too_much(self, what: str) -> BadStreamError:
        return BadStreamError(f"more {what} than {self._max_tokens:,} tokens can have")

    def _usage(self, usage: dict[str, Any] | None, *, in_stream: bool) -> int | None:
        """Return how many output tokens an event adds to those before; None: it has no usage.

        usage: the event's object `usage`, with the number of all tokens so far.
        in_stream: whether the event has choices. An event without choices only repeats the total
            at the stream's end, so it adds 0.
        """
        if not usage:
            return None
        line = self._so_far
        total = _count("completion_tokens", usage["completion_tokens"], self._max_tokens)
        prompt_tokens = usage.get("prompt_tokens", line.input_tokens)
        if prompt_tokens is not None and prompt_tokens != line.input_tokens:
            line.input_tokens = _count("prompt_tokens", prompt_tokens, _MAX_INPUT_TOKENS)
        if details := usage.get("prompt_tokens_details"):
            self._cached_tokens = isinstance(details, dict) and details.get("cached_tokens")
        if line.output_tokens is not None and total < line.output_tokens:
            raise BadStreamError(f"completion_tokens fell from {line.output_tokens} to {total}")
        line.output_tokens = total
        if not in_stream:
            return 0
        added = total - self._counted
        self._counted = total
        return added

    @property
    def has_chunks(self) -> bool:
        return bool(self._tokens)

    def timeline(self) -> Timeline:
        so_far = self._so_far
        exact = [t for t in self._tokens if t is not None]
        every_chunk = len(exact) == len(self._tokens) and sum(exact) == so_far.output_tokens
        all_ids = len(self._token_ids) == so_far.output_tokens
        return replace(
            so_far,
            chunk_tokens=exact if every_chunk and exact else None,
            text=encodable("".join(self._text)),
            ended=so_far.ended or so_far.finish_reason is not None,
            token_ids=self._token_ids if all_ids and self._token_ids else None,
            model_name=one_line(self._model_name),
            cached_input_tokens=_cached_tokens(self._cached_tokens, so_far.input_tokens),
        )


def _decoded(text: str) -> Any:
    """Decode one JSON value, faster than `json.loads`; ValueError: no JSON, or text after it."""
    value, end = _decode(text)
    if end < len(text):
        raise ValueError("more than one value")
    return value


def _text_of(choice: dict[str, Any]) -> str:
    delta = choice.get("delta")
    if delta is None:
        return "".join([choice.get("text") or ""])  # TypeError if `text` is not a string
    pieces = [value for name, value in delta.items() if value and name in _TEXT_FIELDS]
    for call in delta.get("tool_calls") or ():
        function = call.get("function") or {}
        pieces += [function.get(name) or "" for name in _CALL_FIELDS]
    return "".join(pieces)


def _count(name: str, value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise BadStreamError(
            f"{name}: given {_short(value)}, allowed: a whole number from 0 to {most:,}"
        )
    return value


def _cached_tokens(count: Any, input_tokens: int | None) -> int | None:
    """Return a count of prompt tokens from a cache; None if it is missing or impossible.

    An impossible count does not fail the request, because no figure is computed from it.
    """
    return count if type(count) is int and 0 <= count <= (input_tokens or 0) else None


def _mixed(kind: str, first: Any, second: Any) -> str:
    return f"chunks of two {kind} in one answer: {_short(first)} and {_short(second)}"


def _short(value: Any) -> str:
    return one_line(reprlib.repr(value), characters=40)


def _acceptance_in_vllm(metrics: Any, most: int) -> Acceptance | None:
    """Return a request's counts of steps and drafted tokens from the `metrics` that vLLM sends.

    None: the counts are impossible or have another format. The request does not fail then, because
    vLLM calls the format experimental.
    most: the most output tokens of the request, so also the most steps.
    """
    names = ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens")
    counts = _whole_numbers(_field(metrics, "speculative_decoding"), names)
    if counts is None:
        return None
    steps, drafted, accepted = counts
    if not (0 <= steps <= most and 0 <= accepted <= drafted <= steps * most):
        return None
    return Acceptance(steps_with_drafts=steps, drafted_tokens=drafted, accepted_tokens=accepted)


def _acceptance_in_llama_cpp(timings: Any, most: int) -> Acceptance | None:
    """Return a request's counts of drafted tokens from the `timings` that llama.cpp's server sends.

    The server leaves both counts out if it drafted no token (llama.cpp b11434,
    `server_slot_stats::to_json`). None: the counts are impossible or have another format.
    most: the most output tokens of the request.
    """
    generated = _whole_numbers(timings, ("predicted_n",))
    if generated is None or not 0 <= generated[0] <= most:
        return None
    if "draft_n" not in timings:
        return Acceptance(steps_with_drafts=None, drafted_tokens=0, accepted_tokens=0)
    drafts = _whole_numbers(timings, ("draft_n", "draft_n_accepted"))
    if drafts is None or not 0 <= drafts[1] <= drafts[0] <= most * most:
        return None
    return Acceptance(steps_with_drafts=None, drafted_tokens=drafts[0], accepted_tokens=drafts[1])


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _whole_numbers(value: Any, names: Sequence[str]) -> list[int] | None:
    numbers = [_field(value, name) for name in names]
    return numbers if all(type(number) is int for number in numbers) else None


def _finish(reason: Any) -> str | None:
    if not isinstance(reason, str):
        return None
    return one_line(reason, characters=_MAX_FINISH_REASON_CHARACTERS)


def _error_text(error: Any) -> str:
    message = error.get("message") if isinstance(error, dict) else None
    text = message or error
    return one_line(text if isinstance(text, str) else reprlib.repr(text))
