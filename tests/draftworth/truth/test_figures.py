"""With exact clocks and without a network, the client computes the true figures of any timeline.

The expected figures are computed here with fractions, from the plan (the chunks that are sent)
alone, without any code of the client.
"""

import itertools
import json
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from draftworth.errors import UserInputError
from draftworth.measuring.chunks import ChunkReader, Timeline
from draftworth.measuring.event_stream import BadStreamError
from draftworth.measuring.streamed_request import figures_of
from draftworth.truth.token_timeline import (
    Chunk,
    TimelineSpec,
    Usage,
    chunks_of,
    events_of,
)

# Figures are floats of 16 digits, so the last digit may be wrong by a few units.
EXACT = 1e-12
SENT_NS = 5_000_000_000

MODES: tuple[Usage, ...] = ("every_chunk", "last_chunk", "off")


@st.composite
def plans(draw: st.DrawFn) -> list[Chunk]:
    steps = draw(
        st.lists(
            st.tuples(st.integers(1, 10_000_000_000), st.integers(1, 9), st.booleans()),
            min_size=1,
            max_size=40,
        )
    )
    offsets = itertools.accumulate(wait_ns for wait_ns, _, _ in steps)
    role = [Chunk(offset_ns=0, tokens=0)] if draw(st.booleans()) else []
    return role + [
        Chunk(offset_ns=offset_ns, tokens=tokens, reasoning=reasoning)
        for offset_ns, (_, tokens, reasoning) in zip(offsets, steps, strict=True)
    ]


def measured(plan: list[Chunk], usage: Usage) -> tuple[Timeline, dict[str, Any]]:
    """Return what the client measures if every event of the plan arrives when it is due."""
    reader = ChunkReader(1_000)
    for event in events_of(plan, usage=usage):
        reader.feed(event.data, SENT_NS + event.offset_ns)
    timeline = reader.timeline()
    return timeline, figures_of(timeline, SENT_NS)


@dataclass(frozen=True, kw_only=True)
class Expected:
    """A request's figures, computed from the plan; None: there is nothing to divide by."""

    ttft_s: Fraction
    inter_token_latency_s: Fraction | None
    end_to_end_latency_s: Fraction
    request_output_throughput_token_per_s: Fraction | None
    tokens_per_step: Fraction | None
    llmperf_inter_token_latency_s: Fraction


def expected(plan: list[Chunk], usage: Usage) -> Expected:
    chunks = [chunk for chunk in plan if chunk.tokens]
    first, last = chunks[0], chunks[-1]
    total = sum(chunk.tokens for chunk in chunks)
    # If chunks report no token counts, the first chunk is taken to have one token. If nothing does,
    # there are no figures per token.
    after_first = total - (first.tokens if usage == "every_chunk" else 1)
    steps = len(chunks) - 1
    divides = usage != "off" and steps > 0
    span_ns = last.offset_ns - first.offset_ns
    e2e_s = Fraction(last.offset_ns, 10**9)
    return Expected(
        ttft_s=Fraction(first.offset_ns, 10**9),
        inter_token_latency_s=Fraction(span_ns, 10**9 * after_first) if divides else None,
        end_to_end_latency_s=e2e_s,
        request_output_throughput_token_per_s=total / e2e_s if usage != "off" else None,
        tokens_per_step=Fraction(after_first, steps) if divides else None,
        # llmperf divides by the number of events without the last one (`[DONE]`), which is no JSON.
        llmperf_inter_token_latency_s=e2e_s / (len([*events_of(plan, usage=usage)]) - 1),
    )


@given(plans(), st.sampled_from(MODES))
def test_figures_are_those_of_the_timeline(plan: list[Chunk], usage: Usage) -> None:
    """The expected figures ignore a first chunk with only the role; reasoning tokens are tokens."""
    timeline, figures = measured(plan, usage)
    chunks = [chunk for chunk in plan if chunk.tokens]

    for name, value in vars(expected(plan, usage)).items():
        got = figures[name]
        if value is None:
            assert got is None, name
        else:
            assert got == pytest.approx(float(value), rel=EXACT), name
    assert timeline.chunk_times_ns == [SENT_NS + chunk.offset_ns for chunk in chunks]
    if usage == "every_chunk":
        assert timeline.chunk_tokens == [chunk.tokens for chunk in chunks]


LINE_ENDS = (b"\n", b"\r\n", b"\r")


@st.composite
def transmissions(draw: st.DrawFn) -> tuple[bytes, list[bytes], bytes]:
    """Draw an answer as a server may write it, its pieces as a network may cut it, its line end."""
    plan = draw(plans())
    end = draw(st.sampled_from(LINE_ENDS))
    body = b""
    for event in events_of(plan, usage=draw(st.sampled_from(MODES))):
        data = event.data.strip().removeprefix(b"data: ")
        match draw(st.integers(0, 4)):
            case 0:
                lines = [b"data:" + data]
            case 1:
                lines = [b": a comment", b"data:  " + data + b" "]
            case 2 if data != b"[DONE]":  # JSON on two lines
                lines = [b"data: {", b"data: " + data[1:]]
            case 3:
                lines = [b"event: chunk", b"id: 7", b"data: " + data]
            case _:
                lines = [b"data: " + data]
        body += end.join([*lines, b"", b""])
    cuts = sorted(draw(st.sets(st.integers(1, len(body) - 1), max_size=30)))
    pieces = [body[a:b] for a, b in itertools.pairwise([0, *cuts, len(body)])]
    return body, pieces, end


def reference(body: bytes, pieces: list[bytes], end: bytes) -> tuple[list[int], str, int]:
    """Return (arrival time of each chunk with tokens, text, number of events) of an answer.

    They are read from the whole body at once, which is simple and slow. Piece n arrives at time n.
    An event has arrived with the piece that ends its empty line: if lines end with \\r\\n, with the
    first of these bytes.
    """
    arrivals = [number for number, piece in enumerate(pieces) for _ in piece]
    times, text, events, counted, position = [], "", 0, 0, 0
    for raw in body.split(end + end)[:-1]:
        position += len(raw) + 2 * len(end)
        lines = [line[5:] for line in raw.split(end) if line[:5] == b"data:"]
        data = b"\n".join(lines).strip()
        if data == b"[DONE]":
            continue
        events += 1
        value = json.loads(data)
        if not value["choices"]:
            continue
        delta = value["choices"][0]["delta"]
        spoken = delta.get("content", "") + delta.get("reasoning_content", "")
        text += spoken
        total = value["usage"]["completion_tokens"] if "usage" in value else None
        if (total is None and spoken) or (total is not None and total > counted):
            times.append(arrivals[position - len(end)])
        counted = total if total is not None else counted
    return times, text, events


EVENT = b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}'


@given(transmissions())
@example((EVENT + b"\r\n\r\n", [EVENT + b"\r", b"\n", b"\r", b"\n"], b"\r\n"))
@example((EVENT + b"\r\r", [EVENT + b"\r", b"\r"], b"\r"))
def test_line_ends_and_cuts_change_no_figure(
    transmission: tuple[bytes, list[bytes], bytes],
) -> None:
    body, pieces, end = transmission
    reader = ChunkReader(1_000)
    for number, piece in enumerate(pieces):
        reader.feed(piece, number)
    timeline = reader.timeline()

    times, text, events = reference(body, pieces, end)
    assert timeline.chunk_times_ns == times
    assert timeline.text == text
    assert timeline.events == events
    assert timeline.ended


@given(st.binary(min_size=1, max_size=60).filter(lambda data: data.strip() not in (b"", b"[DONE]")))
def test_invalid_json_is_refused_with_its_beginning(data: bytes) -> None:
    line = data.replace(b"\n", b"?").replace(b"\r", b"?")
    try:
        if isinstance(json.loads(line), dict):
            return
    except ValueError:
        pass
    with pytest.raises(BadStreamError, match="in the stream"):
        ChunkReader(1_000).feed(b"data: " + line + b"\n\n", 0)


def test_a_plan_is_the_same_whenever_drawn() -> None:
    spec = TimelineSpec(chunk_tokens=(1, 8), jitter=0.3, seed=4)

    assert chunks_of(spec, 5) == chunks_of(spec, 5)
    assert chunks_of(spec, 5) != chunks_of(spec, 6)
    assert sum(chunk.tokens for chunk in chunks_of(spec, 5)) == spec.output_tokens


NO_TIMELINES = {
    '{"gap": 1}': "no field gap; allowed: some of output_tokens",
    '{"chunk_tokens": [3, 2]}': "in chunk_tokens the fewest first",
    '{"chunk_tokens": [0, 2]}': "chunk_tokens, first_chunk_tokens, chunks_per_write: allowed: 1 to",
    '{"chunk_tokens": [1]}': "chunk_tokens: given [1], allowed: a list of 2",
    '{"first_chunk_tokens": 0}': "first_chunk_tokens, chunks_per_write: allowed: 1 to 10,000",
    '{"output_tokens": "3"}': "output_tokens: given '3', allowed: a whole number",
    '{"gap_seconds": -1}': "gap_seconds: allowed: 0 to 10",
    '{"jitter": 1}': "jitter: allowed: 0 to below 1",
    '{"usage": "never"}': "usage: given 'never', allowed: one of",
    "[]": "given list, allowed: an object",
}


@pytest.mark.parametrize("fields", NO_TIMELINES)
def test_a_timeline_that_makes_no_sense_is_refused(fields: str) -> None:
    with pytest.raises(UserInputError, match=re.escape(NO_TIMELINES[fields])):
        TimelineSpec().changed(fields)
