"""Tokens per step of answers that real servers gave, compared with what their engines counted.

`record_answer.py` recorded the answers of vLLM 0.32 on a CPU with the rehearsal's target and draft
model, of llama.cpp b11434 with SmolLM2-135M, and of the mock server of guidellm 0.8.1, which does
not speculate. For a test, a server on loopback sends a recorded answer again, and the measuring
client reads it. The expected figure comes from engine counters that this project does not use.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from draftworth.measuring.server_counters import parse_metrics, speculation_between
from draftworth.measuring.streamed_request import Client
from draftworth.metrics import steps
from draftworth.metrics.definitions import TOKENS_PER_STEP
from draftworth.records.prompt_files import Prompt
from draftworth.records.results import BlockResult, RequestRecord, SpeculationCounters
from draftworth.report.answer_of_run import answer_of
from tests.draftworth.metrics.record_answer import AFTER, FOLDER
from tests.draftworth.report import runs
from tests.support.blocks import make_block
from tests.support.present import present
from tests.support.specifications import shape
from tests.support.stream_server import HEADERS, Write, stream_server

PROMPT = Prompt(id="p1", messages=({"role": "user", "content": "Explain why the sea is salt."},))


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A recorded answer of a server.

    most: the most tokens that a step can yield, as a user would state it; None: not stated.
    truth: the true tokens per step: output tokens after the first / the number of times that the
        engine ran the model, without the prefill.
    """

    name: str
    most: int | None
    truth: float

    @property
    def stream(self) -> bytes:
        return (FOLDER / f"{self.name}.sse").read_bytes()

    @property
    def pages(self) -> tuple[str, str]:
        before, after = (FOLDER / f"{self.name}.metrics").read_text().split(AFTER)
        return before, after

    def engine_runs(self) -> float | None:
        counter = r"(vllm:iteration_tokens_total_count|llamacpp:n_decode_total)(?:\{.*\})? (.+)"
        before, after = (dict(re.findall(counter, page)) for page in self.pages)
        return next((float(after[name]) - float(before[name]) for name in after), None)


VLLM_NGRAM = Recorded(name="vllm-ngram", most=6, truth=95 / 82)
VLLM_DRAFT_MODEL = Recorded(name="vllm-draft-model", most=8, truth=95 / 83)
VLLM_PLAIN = Recorded(name="vllm-plain", most=None, truth=1.0)
LLAMA_CPP_NGRAM_8 = Recorded(name="llama-cpp-ngram-8", most=9, truth=95 / 47)
LLAMA_CPP_NGRAM_12 = Recorded(name="llama-cpp-ngram-12", most=13, truth=95 / 45)
LLAMA_CPP_PLAIN = Recorded(name="llama-cpp-plain", most=None, truth=1.0)
# This server sends a chunk for each token, some with blank text, and counts tokens only at the end.
GUIDELLM_MOCK = Recorded(name="guidellm-mock", most=None, truth=1.0)
WITH_COUNTERS = (
    *(VLLM_NGRAM, VLLM_DRAFT_MODEL, LLAMA_CPP_NGRAM_8, LLAMA_CPP_NGRAM_12, LLAMA_CPP_PLAIN),
)
ALL = (*WITH_COUNTERS, VLLM_PLAIN, GUIDELLM_MOCK)


def read_by_the_client(stream: bytes) -> RequestRecord:
    asked_for = shape(output_tokens=96)
    with stream_server(lambda _: [Write(HEADERS + stream)]) as server:
        client = Client(base_url=server.base_url, shape=asked_for, read_wait=lambda: 0)
        measured = asyncio.run(client.measure(PROMPT, request_id="r1", seed=0))
    assert not measured.record.failed, measured.record.error_msg
    # Here the whole answer comes at once. Compared with that short time, a busy machine sends the
    # request late, so the record may be excluded.
    return replace(measured.record, excluded=None)


def block_of(
    recorded: Recorded, stream: bytes | None = None, *, counts: bool = True
) -> BlockResult:
    before, after = map(parse_metrics, recorded.pages)
    return make_block(
        requests=(read_by_the_client(stream or recorded.stream),),
        warmup_requests=0,
        max_tokens_per_step=recorded.most,
        speculation=speculation_between(before, after) if counts else None,
    )


def changed_events(stream: bytes, change: Callable[[dict[str, Any]], bool]) -> bytes:
    """Return the event stream with `change` applied to each of its JSON events.

    change: changes an event in place, and returns whether to keep it.
    """

    def events() -> Iterator[bytes]:
        for event in stream.split(b"\n\n"):
            if not event.startswith(b"data: {"):
                yield event
                continue
            value = json.loads(event.removeprefix(b"data: "))
            if change(value):
                yield b"data: " + json.dumps(value).encode()

    return b"\n\n".join(events())


def without_own_counts(stream: bytes) -> bytes:
    """Return the stream without the server's counts of drafted tokens for this request."""

    def change(value: dict[str, Any]) -> bool:
        value.pop("metrics", None)
        value.pop("timings", None)
        return True

    return changed_events(stream, change)


def merged(stream: bytes) -> bytes:
    """Return the stream with each two events merged, as a busy front end of vLLM sends them."""
    texts: list[str] = []
    places = iter(range(10_000))

    def change(value: dict[str, Any]) -> bool:
        choices = value.get("choices")
        if not choices or not choices[0]["delta"].get("content"):
            return True
        texts.append(choices[0]["delta"]["content"])
        if next(places) % 2 and choices[0]["finish_reason"] is None:
            return False
        choices[0]["delta"]["content"] = "".join(texts)
        texts.clear()
        return True

    return changed_events(stream, change)


@pytest.mark.parametrize("recorded", ALL, ids=lambda r: r.name)
def test_tokens_per_step_are_what_the_engine_counted(recorded: Recorded) -> None:
    made = block_of(recorded)
    (record,) = made.requests
    if engine_runs := recorded.engine_runs():
        after_first = present(record.number_output_tokens) - 1
        assert recorded.truth == pytest.approx(after_first / (engine_runs - 1))
    assert steps.tokens_per_step([made]) == pytest.approx(recorded.truth, rel=0.01)


@pytest.mark.parametrize("recorded", WITH_COUNTERS, ids=lambda r: r.name)
def test_counters_alone_give_the_same(recorded: Recorded) -> None:
    made = block_of(recorded, without_own_counts(recorded.stream))
    assert made.requests[0].verification_steps is None
    assert steps.tokens_per_step([made]) == pytest.approx(recorded.truth, rel=0.03)


@pytest.mark.parametrize("recorded", [VLLM_NGRAM, VLLM_DRAFT_MODEL], ids=lambda r: r.name)
@pytest.mark.parametrize("own_counts", [True, False])
def test_merged_chunks_give_the_same(recorded: Recorded, own_counts: bool) -> None:
    stream = recorded.stream if own_counts else without_own_counts(recorded.stream)
    made = block_of(recorded, merged(stream))
    assert present(steps.tokens_per_chunk([made])) > 1.5 * recorded.truth
    assert steps.tokens_per_step([made]) == pytest.approx(recorded.truth, rel=0.03)


def test_what_a_server_says_nowhere_is_not_known() -> None:
    """If a server sends a token per event and counts no drafts, its steps are not known.

    A user has stated the window, so the server is known to speculate.
    """
    stream = without_own_counts(LLAMA_CPP_NGRAM_12.stream)
    assert steps.tokens_per_step([block_of(LLAMA_CPP_NGRAM_12, stream, counts=False)]) is None


def times(count: int, counters: SpeculationCounters | None) -> SpeculationCounters | None:
    """Return the server's counters after `count` equal requests, from those of one request."""
    if counters is None:
        return None
    return SpeculationCounters(
        drafts=count * counters.drafts,
        draft_tokens=count * counters.draft_tokens,
        accepted_tokens=count * counters.accepted_tokens,
        generated_tokens=count * present(counters.generated_tokens),
    )


@pytest.mark.parametrize("recorded", ALL, ids=lambda r: r.name)
def test_the_ten_lines_and_tables_share_one_figure(recorded: Recorded) -> None:
    made = block_of(recorded)
    drafted = runs.make_drafted_block(
        2,
        "structured",
        speculation=times(8, made.speculation),
        max_tokens_per_step=recorded.most,
    )
    named = zip(drafted.requests, made.requests * len(drafted.requests), strict=False)
    requests = tuple(
        replace(answer, request_id=place.request_id, prompt_id=place.prompt_id, ttft_s=0.1)
        for place, answer in named
    )
    plain = runs.make_plain_block(1, "structured")
    blocks = runs.two_rounds(plain, replace(drafted, requests=requests, warmup_requests=0))
    facts = runs.make_facts(runs.make_run(blocks=blocks, class_weights={}))
    (variant,) = facts.speculative
    (in_lines,) = answer_of(facts).tokens_per_step
    assert in_lines.measured == pytest.approx(recorded.truth, rel=0.01)
    assert variant.value(TOKENS_PER_STEP) == pytest.approx(in_lines.measured)
