"""Token timelines: which chunks the truth server sends, when, and the traps for load generators.

A trap is a timeline that a load generator with a certain mistake measures wrongly. A specification
with a seed determines the chunks of each request. Request n of a server gets the chunks of request
n modulo `POOL`, so the server can encode all chunks before the first request.
"""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from draftworth.errors import UserInputError, suggestion
from draftworth.records.codec import RecordError, dump_json, load_object, load_record
from draftworth.truth.block_cache import PromptTokens
from draftworth.untrusted import one_line

MODEL = "ground-truth"
POOL = 64
PROMPT = PromptTokens(tokens=16)
DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
# Limits of a timeline, far above what a test of a load generator needs.
_MOST_TOKENS, _MOST_SECONDS = 10_000, 10.0

Usage = Literal["every_chunk", "last_chunk", "off"]
# The kind of request: for an answer in a chat, or for the continuation of a text.
Form = Literal["chat", "text"]
PATHS: Mapping[str, Form] = {"/v1/chat/completions": "chat", "/v1/completions": "text"}
_OBJECTS: Mapping[Form, str] = {"chat": "chat.completion.chunk", "text": "text_completion"}

# Outputs repeat this text. Each of its characters is one token of `benchmarks/tokenizer/`, so load
# generators that count tokens with that tokenizer get the true number.
_LETTERS = "speculative decoding "


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A chunk of `tokens` output tokens that is due `offset_ns` after the request was read.

    A chunk without tokens is the empty first chunk that has only the role. reasoning: whether the
    text is sent as a reasoning delta.
    """

    offset_ns: int
    tokens: int
    reasoning: bool = False


@dataclass(frozen=True, kw_only=True)
class TimelineSpec:
    """The distribution that the chunks of requests are drawn from.

    chunk_tokens: (smallest, largest) number of tokens in a chunk, drawn uniformly.
    first_chunk_tokens: tokens of the first chunk; None: drawn as for the other chunks.
    ttft_seconds: wait for the first chunk. gap_seconds: wait between two chunks.
    jitter: each wait is multiplied by a number drawn uniformly from 1 - jitter to 1 + jitter.
    role_chunk: whether an empty chunk with the role is sent at once.
    usage: which chunks report token counts; if a request asks for fewer counts, it gets fewer.
    reasoning_tokens: how many of the first tokens are sent as reasoning deltas.
    keep_alive: whether comments (events without data) are sent: one at once, and one between any
        two writes.
    cache_block_tokens: tokens in a block of the server's prefix cache, which shortens the wait for
        the first chunk in proportion; 0: no cache. With a cache a prompt has as many tokens as
        characters.
    reports_cached: whether usage has the tokens that came from the cache.
    chunks_per_write: how many chunks are joined to one write, which is sent when its last chunk is
        due; the first chunk is a write of its own.
    """

    output_tokens: int = 121
    chunk_tokens: tuple[int, int] = (1, 1)
    first_chunk_tokens: int | None = None
    ttft_seconds: float = 0.2
    gap_seconds: float = 0.045
    jitter: float = 0.0
    role_chunk: bool = False
    usage: Usage = "every_chunk"
    reasoning_tokens: int = 0
    keep_alive: bool = False
    chunks_per_write: int = 1
    cache_block_tokens: int = 0
    reports_cached: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        low, high = self.chunk_tokens
        first = low if self.first_chunk_tokens is None else self.first_chunk_tokens
        counts = (low, high, first, self.output_tokens, self.chunks_per_write)
        seconds = (self.ttft_seconds, self.gap_seconds)
        if low > high or min(counts) < 1 or max(counts) > _MOST_TOKENS:
            raise ValueError(
                "output_tokens, chunk_tokens, first_chunk_tokens, chunks_per_write: allowed: 1 to "
                f"{_MOST_TOKENS:,}; in chunk_tokens the fewest first"
            )
        if not 0 <= self.cache_block_tokens <= _MOST_TOKENS:
            raise ValueError(f"cache_block_tokens: allowed: 0 to {_MOST_TOKENS:,}; 0 is no cache")
        if min(seconds) < 0 or max(seconds) > _MOST_SECONDS or not 0 <= self.jitter < 1:
            raise ValueError(
                f"ttft_seconds, gap_seconds: allowed: 0 to {_MOST_SECONDS:g}; jitter: allowed: 0 "
                "to below 1"
            )

    def changed(self, text: str) -> TimelineSpec:
        """Return a copy with some fields replaced; raise UserInputError if one of them is wrong.

        text: a JSON object with the new values by field.
        """
        try:
            fields = load_object(text)
            if unknown := fields.keys() - vars(self).keys():
                near = suggestion(min(unknown), vars(self))
                raise RecordError(  # noqa: TRY301 (as the codec does)
                    f"no field {', '.join(unknown)}{near}; allowed: some of {', '.join(vars(self))}"
                )
            return load_record(TimelineSpec, dump_json({**vars(self), **fields}))
        except RecordError as error:
            raise UserInputError(
                f"--timeline: given {one_line(text)}: {error}; next: a JSON object in quotes, for "
                """example --timeline '{"output_tokens": 8, "chunk_tokens": [1, 4]}'"""
            ) from error


class Trap(NamedTuple):
    """A timeline of `traps.toml`, and the mistake that a wrong load generator makes with it."""

    spec: TimelineSpec
    mistake: str


def _traps() -> Iterator[tuple[str, Trap]]:
    text = Path(__file__).with_name("traps.toml").read_text(encoding="utf-8")
    declared = tomllib.loads(text)
    plain = {name: value for name, value in declared["plain"].items() if name != "mistake"}
    for name, fields in declared.items():
        mistake = fields.pop("mistake")
        yield name, Trap(TimelineSpec().changed(json.dumps(plain | fields)), mistake)


TRAPS = dict(_traps())


def chunks_of(spec: TimelineSpec, index: int) -> list[Chunk]:
    """Return the chunks that answer request number `index` (from 0), with their due times.

    Equal arguments give equal chunks, because the random numbers come from the specification's
    seed and from `index` modulo `POOL`.
    """
    rng = random.Random(spec.seed * 1_000_003 + index % POOL)  # noqa: S311 (a load, no secret)
    chunks = [Chunk(offset_ns=0, tokens=0)] if spec.role_chunk else []
    sent, due_seconds = 0, 0.0
    while sent < spec.output_tokens:
        wait_seconds = spec.gap_seconds if sent else spec.ttft_seconds
        due_seconds += wait_seconds * (1 + rng.uniform(-spec.jitter, spec.jitter))
        drawn = rng.randint(*spec.chunk_tokens)
        if not sent and spec.first_chunk_tokens is not None:
            drawn = spec.first_chunk_tokens
        tokens = min(drawn, spec.output_tokens - sent)
        reasoning = sent < spec.reasoning_tokens
        chunks.append(Chunk(offset_ns=int(due_seconds * 1e9), tokens=tokens, reasoning=reasoning))
        sent += tokens
    return chunks


@dataclass(frozen=True)
class Event:
    """Bytes that are due `offset_ns` after the request was read, with `tokens` output tokens."""

    offset_ns: int
    tokens: int
    data: bytes


def without_wait(chunks: Sequence[Chunk], share: float) -> list[Chunk]:
    """Return the chunks with `share` (0 to 1) of the wait for the first token left out."""
    first_ns = next(chunk.offset_ns for chunk in chunks if chunk.tokens)
    saved_ns = int(first_ns * share)
    return [
        replace(chunk, offset_ns=chunk.offset_ns - saved_ns) if chunk.tokens else chunk
        for chunk in chunks
    ]


def events_of(
    chunks: Sequence[Chunk], *, usage: Usage, form: Form = "chat", prompt: PromptTokens = PROMPT
) -> Iterator[Event]:
    """Yield the server-sent events of chunks as vLLM writes them, up to `[DONE]`.

    usage: which events report token counts.
    form: whether the events answer a chat or continue a text. prompt: its reported token counts.
    """
    every = usage == "every_chunk"
    sent = 0
    for chunk in chunks:
        text = "".join(_LETTERS[i % len(_LETTERS)] for i in range(sent, sent + chunk.tokens))
        delta = {"reasoning_content" if chunk.reasoning else "content": text}
        role = {} if chunk.tokens else {"role": "assistant"}
        choice: dict[str, Any] = {"delta": role | delta} if form == "chat" else {"text": text}
        sent += chunk.tokens
        if chunk is chunks[-1]:
            choice["finish_reason"] = "length"
        data = _encode(choice, sent if every else None, form, prompt)
        yield Event(chunk.offset_ns, chunk.tokens, data)
    end_ns = chunks[-1].offset_ns
    if usage != "off":
        yield Event(end_ns, 0, _encode(None, sent, form, prompt))
    yield Event(end_ns, 0, DONE)


def writes_of(
    spec: TimelineSpec,
    index: int,
    usage: Usage,
    form: Form = "chat",
    prompt: PromptTokens = PROMPT,
) -> tuple[Event, ...]:
    """Return the writes that answer request number `index`, in the order in which they are due.

    usage: which events report token counts. form: whether the answer is for a chat or continues a
        text. prompt: its tokens; those from the cache shorten the wait for the first chunk.

    The writes are the server-sent events, joined as `spec.chunks_per_write` says, and keep-alive
    comments.
    """
    chunks = without_wait(chunks_of(spec, index), (prompt.cached or 0) / max(1, prompt.tokens))
    counts = prompt if spec.reports_cached else replace(prompt, cached=None)
    events = tuple(events_of(chunks, usage=usage, form=form, prompt=counts))
    first, end = 1 + spec.role_chunk, len(chunks)
    groups = [
        events[start : min(start + spec.chunks_per_write, end)]
        for start in range(first, end, spec.chunks_per_write)
    ]
    merged = (
        Event(group[-1].offset_ns, sum(e.tokens for e in group), b"".join(e.data for e in group))
        for group in groups
    )
    writes = (*events[:first], *merged, *events[end:])
    if not spec.keep_alive:
        return writes
    between = [(a.offset_ns + b.offset_ns) // 2 for a, b in pairwise(writes)]
    comments = (Event(offset_ns, 0, KEEP_ALIVE) for offset_ns in (0, *between))
    return tuple(sorted((*comments, *writes), key=lambda event: event.offset_ns))


def _encode(
    choice: dict[str, Any] | None, tokens: int | None, form: Form, prompt: PromptTokens
) -> bytes:
    value: dict[str, Any] = {
        "id": "chatcmpl-ground-truth",
        "object": _OBJECTS[form],
        "created": 1_795_168_800,
        "model": MODEL,
        "choices": [],
    }
    if choice is not None:
        value["choices"] = [{"index": 0, "logprobs": None, "finish_reason": None, **choice}]
    if tokens is not None:
        value["usage"] = {
            "prompt_tokens": prompt.tokens,
            "total_tokens": prompt.tokens + tokens,
            "completion_tokens": tokens,
        }
        if prompt.cached is not None:
            value["usage"]["prompt_tokens_details"] = {"cached_tokens": prompt.cached}
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"
