"""Token timelines: which chunks the ground-truth server emits, and when.

A specification (JSON) with a seed determines the plan of each request. Request n of a server has
plan n modulo `POOL`, so the server can encode all plans before the first request.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

MODEL = "ground-truth"
POOL = 64
PROMPT_TOKENS = 16
DONE = b"data: [DONE]\n\n"

Usage = Literal["every_chunk", "last_chunk", "off"]

# Each ASCII letter is a token of the tokenizer in `tokenizer/`, so peers that count tokens with it
# get the right number.
_LETTERS = "speculative decoding "


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A chunk of `tokens` output tokens that is due `offset_ns` after the request was read."""

    offset_ns: int
    tokens: int
    reasoning: bool = False


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The timeline of a request. With `role_chunk`, it begins at once with an empty chunk."""

    chunks: tuple[Chunk, ...]
    role_chunk: bool = False


@dataclass(frozen=True, kw_only=True)
class TimelineSpec:
    """The distribution that plans are drawn from.

    chunk_tokens: (smallest, largest) number of tokens in a chunk; uniform.
    first_chunk_tokens: tokens of the first chunk; None: drawn as for the other chunks.
    jitter: each wait, including that for the first token, is multiplied by 1 +- jitter, uniform.
    usage: the chunks that report token counts; fewer chunks do if the request asks for fewer.
    reasoning_tokens: how many of the first tokens are sent as reasoning deltas.
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
    seed: int = 0

    @classmethod
    def from_json(cls, text: str) -> TimelineSpec:
        value: Mapping[str, Any] = json.loads(text)
        spec = cls(**{**value, "chunk_tokens": tuple(value.get("chunk_tokens", (1, 1)))})
        low, high = spec.chunk_tokens
        if not 1 <= low <= high or spec.output_tokens < 1 or not 0 <= spec.jitter < 1:
            raise ValueError(f"need 1 <= {low} <= {high}, a token, and a jitter below 1: {value}")
        return spec


# Window 1: one token per step. Window 7: one to eight tokens per step, as with seven drafted
# tokens. The first chunk has one token, from the prefill, so peers that divide by N - 1 are right.
WINDOWS = {
    1: TimelineSpec(),
    7: TimelineSpec(
        chunk_tokens=(1, 8),
        first_chunk_tokens=1,
        gap_seconds=0.06,
        jitter=0.3,
        role_chunk=True,
        seed=7,
    ),
}


def plan_of(spec: TimelineSpec, index: int) -> Plan:
    """Return the plan of request `index`; equal arguments give equal plans."""
    rng = random.Random(spec.seed * 1_000_003 + index % POOL)  # noqa: S311 (a load, no secret)
    chunks: list[Chunk] = []
    sent, due_seconds = 0, 0.0
    while sent < spec.output_tokens:
        wait_seconds = spec.gap_seconds if chunks else spec.ttft_seconds
        due_seconds += wait_seconds * (1 + rng.uniform(-spec.jitter, spec.jitter))
        drawn = rng.randint(*spec.chunk_tokens)
        if not chunks and spec.first_chunk_tokens is not None:
            drawn = spec.first_chunk_tokens
        tokens = min(drawn, spec.output_tokens - sent)
        reasoning = sent < spec.reasoning_tokens
        chunks.append(Chunk(offset_ns=int(due_seconds * 1e9), tokens=tokens, reasoning=reasoning))
        sent += tokens
    return Plan(chunks=tuple(chunks), role_chunk=spec.role_chunk)


@dataclass(frozen=True)
class Event:
    """Bytes that are due `offset_ns` after the request was read, with `tokens` output tokens."""

    offset_ns: int
    tokens: int
    data: bytes


def events_of(plan: Plan, *, usage: Usage) -> Iterator[Event]:
    """Yield a plan's server-sent events in the form in which vLLM writes them."""
    every = usage == "every_chunk"
    if plan.role_chunk:
        choice: dict[str, Any] = {"delta": {"role": "assistant", "content": ""}}
        yield Event(0, 0, _encode(choice, 0 if every else None))
    sent = 0
    for chunk in plan.chunks:
        text = "".join(_LETTERS[i % len(_LETTERS)] for i in range(sent, sent + chunk.tokens))
        choice = {"delta": {"reasoning_content" if chunk.reasoning else "content": text}}
        sent += chunk.tokens
        if chunk is plan.chunks[-1]:
            choice["finish_reason"] = "length"
        data = _encode(choice, sent if every else None)
        yield Event(chunk.offset_ns, chunk.tokens, data)
    end_ns = plan.chunks[-1].offset_ns
    if usage != "off":
        yield Event(end_ns, 0, _encode(None, sent))
    yield Event(end_ns, 0, DONE)


def _encode(choice: dict[str, Any] | None, tokens: int | None) -> bytes:
    value: dict[str, Any] = {
        "id": "chatcmpl-ground-truth",
        "object": "chat.completion.chunk",
        "created": 1_795_168_800,
        "model": MODEL,
        "choices": [],
    }
    if choice is not None:
        value["choices"] = [{"index": 0, "logprobs": None, "finish_reason": None, **choice}]
    if tokens is not None:
        value["usage"] = {
            "prompt_tokens": PROMPT_TOKENS,
            "total_tokens": PROMPT_TOKENS + tokens,
            "completion_tokens": tokens,
        }
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"
