"""The steps that texts and drafts allow, beside those that a request's chunks show."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from draftworth.errors import DraftworthError
from draftworth.estimate.prompt_lookup import LookedUp, LookupLengths
from draftworth.estimate.replayed_run import (
    checked_size,
    keep_allowed_steps,
    readings_by_text,
    request_steps,
    steps_of_requests,
)
from draftworth.estimate.target_outputs import TargetOutputs
from draftworth.metrics.steps import step_counting
from draftworth.records.allowed_steps import LIMIT_BYTES, RequestSteps
from draftworth.records.readings import Replayed
from draftworth.records.run_folder import Run
from draftworth.records.transcripts import Transcript
from tests.support.blocks import make_block, make_record, make_run
from tests.support.readings import make_output, make_reading

# After the first token `a`, nothing is drafted until `a b` is repeated; then five tokens follow.
NGRAM = LookedUp(
    prompt_class="chat",
    case="case",
    prompt_id="p0",
    prompt_ids=(7, 8, 9),
    output_ids=(1, 2, 3, 4, 5) * 3,
    lengths=LookupLengths(2, 4),
)
NGRAM_STEPS = (1, 1, 1, 1, 1, 1, 6, 2)
DRAFT = make_reading("110110101100")
DRAFT_STEPS = (3, 3, 2, 3, 1)
OTHER = make_reading("0" * 12)


def steps_of(
    replayed: Replayed, *chunks: int, checked: int, more: int = 0, **record: Any
) -> RequestSteps | None:
    """Return a request's steps. more: output tokens that the server counts beyond the text's."""
    fields = {
        "number_output_tokens": replayed.tokens_after_first + 1 + more,
        "first_chunk_tokens": chunks[0],
        "chunks": len(chunks),
        **record,
    }
    request = make_record(**fields)
    block = make_block(requests=(request,), speculation=None, max_tokens_per_step=checked + 1)
    transcript = Transcript(request_id=request.request_id, chunk_tokens=chunks)
    return request_steps(request, transcript, replayed, checked, step_counting([block]))


@pytest.mark.parametrize(
    ("replayed", "steps", "checked"), [(NGRAM, NGRAM_STEPS, 5), (DRAFT, DRAFT_STEPS, 2)]
)
def test_a_step_follows_any_number_of_tokens(
    replayed: Replayed, steps: Sequence[int], checked: int
) -> None:
    assert tuple(replayed.steps(checked)) == steps
    yielded = 1
    for step in steps:
        assert replayed.step_after(yielded, checked) == step
        yielded += step


def test_a_step_can_begin_within_an_allowed_one() -> None:
    assert NGRAM.step_after(8, 5) == 6
    assert NGRAM.step_after(12, 5) == 3
    assert DRAFT.step_after(2, 2) == 2


def test_a_request_can_take_exactly_the_allowed_steps() -> None:
    steps = steps_of(DRAFT, 1, *DRAFT_STEPS, checked=2)
    assert steps is not None
    assert (steps.tokens, steps.steps, steps.taken_as_allowed) == (12, 5, True)
    assert (steps.accepted, steps.acceptable) == ((5, 4, 3), (4, 3))


def test_a_rejected_draft_is_counted_at_its_position() -> None:
    # The first step accepts one of two acceptable drafts, so the second begins at the other one.
    steps = steps_of(DRAFT, 1, 2, 1, 3, 2, 3, 1, checked=2)
    assert steps is not None
    assert (steps.steps, steps.taken_as_allowed, steps.taken_at_least) == (5, False, 6)
    assert (steps.accepted, steps.acceptable) == ((6, 4, 2), (4, 3))


@pytest.mark.parametrize(
    ("chunks", "at_least", "as_allowed"),
    [
        ((1, 3, 5, 3, 1), 5, True),
        ((4, 3, 2, 3, 1), 5, True),
        # A step more than allowed, of which one chunk's end is within an allowed step.
        ((1, 2, 4, 2, 3, 1), 6, False),
    ],
)
def test_merged_chunks_show_the_fewest_steps(
    chunks: Sequence[int], at_least: int, *, as_allowed: bool
) -> None:
    steps = steps_of(DRAFT, *chunks, checked=2)
    assert steps is not None
    assert (steps.taken_at_least, steps.taken_as_allowed) == (at_least, as_allowed)


COUNTS = {"verification_steps": 5, "drafted_tokens": 10, "accepted_tokens": 7}


def test_counted_steps_decide_where_chunks_are_merged() -> None:
    """The chunks fit the allowed steps, but the server counts one step more than these."""
    for more, as_allowed in ((0, True), (1, False)):
        counts = {**COUNTS, "verification_steps": 5 + more, "accepted_tokens": 7 - more}
        steps = steps_of(DRAFT, 1, 6, 2, 4, checked=2, **counts)
        assert steps is not None
        assert (steps.taken_as_allowed, steps.taken_at_least) == (as_allowed, 0)
        assert steps.accepted == ()


@pytest.mark.parametrize(("drafted", "as_allowed"), [(4, False), (3, True)])
def test_an_exact_count_is_no_merged_chunk(drafted: int, *, as_allowed: bool) -> None:
    """Steps of 1 and 2 tokens are allowed; the engine counts two steps, the first of 3 tokens."""
    counts = {"verification_steps": 2, "drafted_tokens": drafted, "accepted_tokens": 3}
    steps = steps_of(make_reading("01011"), 1, 3, 2, checked=2, **counts)
    assert steps is not None
    assert (steps.steps, steps.taken_as_allowed) == (3, as_allowed)


@pytest.mark.parametrize(
    ("replayed", "merged", "as_allowed"), [(DRAFT, 2, True), (DRAFT, 3, False), (OTHER, 0, False)]
)
def test_merged_chunks_do_not_explain_another_draft(
    replayed: Replayed, merged: int, *, as_allowed: bool
) -> None:
    """Any chunks end with steps of one token each, which a draft that is never right allows."""
    of_request = [(1, 3, 5, 3, 1)] * merged + [(1, *DRAFT_STEPS)] * (6 - merged)
    requests = [
        make_record(n, number_output_tokens=13, first_chunk_tokens=1, chunks=len(chunks))
        for n, chunks in enumerate(of_request)
    ]
    block = make_block(requests=tuple(requests), speculation=None, max_tokens_per_step=3)
    names = [request.request_id for request in requests]
    transcripts = {
        name: Transcript(request_id=name, chunk_tokens=chunks)
        for name, chunks in zip(names, of_request, strict=True)
    }
    steps = steps_of_requests([block], transcripts, dict.fromkeys(names, replayed), 2)
    assert all(s.taken_as_allowed for s in steps) == as_allowed
    assert {bool(s.taken_at_least) for s in steps} == {as_allowed}


def test_a_chunk_per_token_shows_no_step() -> None:
    steps = steps_of(DRAFT, *[1] * 13, checked=2, **COUNTS)
    assert steps is not None
    assert (steps.accepted, steps.acceptable, steps.taken_at_least) == ((), (), 0)
    assert not steps.taken_as_allowed


def test_a_token_without_text_may_end_an_output() -> None:
    text = steps_of(DRAFT, 1, *DRAFT_STEPS, checked=2)
    assert steps_of(DRAFT, 1, *DRAFT_STEPS[:-1], 2, checked=2, more=1) == text
    assert text is not None
    (a_step_more,) = [steps_of(DRAFT, 1, *DRAFT_STEPS, 1, checked=2, more=1)]
    assert a_step_more == text


@pytest.mark.parametrize("more", [-1, 2])
def test_texts_of_other_tokens_are_left_out(more: int) -> None:
    chunks = (1, *DRAFT_STEPS[:-1], DRAFT_STEPS[-1] + more) if more > 0 else (1, *DRAFT_STEPS[:-1])
    assert steps_of(DRAFT, *chunks, checked=2, more=more) is None
    one_token = replace(NGRAM, output_ids=(1,))
    assert steps_of(one_token, 1, checked=5) is None


def test_readings_in_another_order_keep_their_outputs() -> None:
    outputs = [make_output(id=f"o{n}", prompt_id=f"p{n}", text=f"{n}") for n in range(3)]
    readings = [make_reading("1" * n, of=output) for n, output in enumerate(outputs)]
    by_text = readings_by_text(outputs, reversed(readings))
    hits = {text[-1]: reading.hits for text, reading in by_text.items()}
    assert hits == {"0": "", "1": "1", "2": "11"}


def test_more_than_is_read_is_not_written() -> None:
    assert checked_size(b"x" * LIMIT_BYTES)
    with pytest.raises(DraftworthError, match=r"given 67,108,865 bytes, allowed: 67,108,864"):
        checked_size(b"x" * (LIMIT_BYTES + 1))


@pytest.mark.parametrize(("variants", "count"), [(("baseline", "k7"), 1), (("baseline",), 0)])
def test_a_comparison_of_nothing_is_reported(variants: tuple[str, ...], count: int) -> None:
    """A variant under another name than the experiment's has no allowed steps."""
    run = Run(result=make_run(variants=variants), blocks=())
    source = TargetOutputs(outputs=(), run=run)
    lines: list[str] = []
    keep_allowed_steps((), source, progress=lines.append)
    assert len(lines) == count
    assert all("no engine is compared" in line for line in lines)
