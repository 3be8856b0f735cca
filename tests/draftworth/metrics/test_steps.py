"""How decoding steps are counted: which source is taken, and when steps are not known."""

from typing import Any

import pytest

from draftworth.metrics import steps
from draftworth.records.results import BlockResult, SpeculationCounters
from tests.support.blocks import make_block, make_record
from tests.support.present import present

# A request has 100 tokens: one from the prefill, and 99 in 33 steps of three tokens.
TOKENS, STEPS = 100, 33


def block(
    *,
    chunks: int,
    generated: int | None = 3 * TOKENS,
    drafts: int = 3 * STEPS,
    accepted: int = 3 * (TOKENS - 1 - STEPS),
    window: int = 7,
    most: int | None = 8,
    **request: Any,
) -> BlockResult:
    """Return a block with two measured requests and one warm-up request.

    By default, every step has drafted tokens, of which two are accepted.
    """
    counters = SpeculationCounters(
        drafts=drafts,
        draft_tokens=window * drafts,
        accepted_tokens=accepted,
        generated_tokens=generated,
    )
    values = {"number_output_tokens": TOKENS, "first_chunk_tokens": 1, "chunks": chunks, **request}
    return make_block(
        requests=tuple(make_record(index, **values) for index in range(2)),
        warmup_requests=1,
        max_tokens_per_step=most,
        speculation=counters,
    )


def silent(**values: Any) -> BlockResult:
    """Return a block of a server that has no counters of drafted, accepted or generated tokens."""
    made = block(**values)
    return make_block(
        requests=made.requests, max_tokens_per_step=made.max_tokens_per_step, speculation=None
    )


# N-gram drafting often drafts nothing: in each request, only 11 of the 33 steps have drafted
# tokens, and each of these steps accepts six of them.
N_GRAM = {"drafts": 3 * 11, "accepted": 3 * 66}
OTHER_WINDOWS = {"verification_steps": 25, "drafted_tokens": 175, "accepted_tokens": 75}

COUNTED: dict[str, tuple[BlockResult, str | None, float | None]] = {
    "chunks that agree with the counters": (block(chunks=STEPS + 1), "chunks", 3.0),
    "a few merged chunks agree": (block(chunks=STEPS), "chunks", 99 / 32),
    "merged chunks": (block(chunks=12), "counters", 3.0),
    "a chunk for each token": (block(chunks=TOKENS), "counters", 3.0),
    "n-gram drafting": (block(chunks=STEPS + 1, **N_GRAM), "chunks", 3.0),
    "n-gram drafting, merged chunks": (block(chunks=12, **N_GRAM), "counters", 3.0),
    "n-gram drafting, a chunk for each token": (block(chunks=TOKENS, **N_GRAM), "counters", 3.0),
    "drafts accepted after the outputs' ends": (
        block(chunks=STEPS + 1, accepted=3 * (TOKENS - 1 - STEPS + 6)),
        "chunks",
        3.0,
    ),
    "steps of each request": (block(chunks=12, **OTHER_WINDOWS), "verification steps", 99 / 25),
    "no speculation, merged chunks": (silent(chunks=12, most=1), "tokens", 1.0),
    "no counters": (silent(chunks=STEPS + 1), "chunks", 3.0),
    "no counters, and chunks of more than a step": (silent(chunks=10), None, None),
    "no counters, and a chunk for each token": (silent(chunks=TOKENS), None, None),
    "no counters, and nobody says that it speculates": (
        silent(chunks=TOKENS, most=None),
        "chunks",
        1.0,
    ),
    "no count of generated tokens": (block(chunks=STEPS + 1, generated=None), "chunks", 3.0),
    "no count of generated tokens, a chunk for each": (
        block(chunks=TOKENS, generated=None, most=None),
        None,
        None,
    ),
    "counters that contradict each other": (block(chunks=STEPS + 1, generated=9), "chunks", 3.0),
    "a chunk for each token, short outputs and a long window": (
        block(
            chunks=20,
            number_output_tokens=20,
            generated=60,
            drafts=6,
            accepted=27,
            most=13,
            window=12,
        ),
        "counters",
        19 / 10,
    ),
    "a server that is said not to speculate, and does": (
        block(chunks=STEPS + 1, most=1),
        "chunks",
        3.0,
    ),
    "own counts that leave all drafts out": (
        block(
            chunks=TOKENS,
            **OTHER_WINDOWS | {"verification_steps": 99, "drafted_tokens": 0, "accepted_tokens": 0},
        ),
        "counters",
        3.0,
    ),
    "own counts of more than a step can yield": (
        block(chunks=TOKENS, **OTHER_WINDOWS | {"verification_steps": 11}),
        "counters",
        3.0,
    ),
    "no token is counted": (silent(chunks=12, number_output_tokens=None), None, None),
}


@pytest.mark.parametrize("case", COUNTED)
def test_steps_come_from_the_first_source_with_any(case: str) -> None:
    made, by, per_step = COUNTED[case]
    count = steps.step_counting([made])
    assert (count.by if count else None) == by
    assert steps.tokens_per_step([made]) == (per_step and pytest.approx(per_step))


def test_each_block_counts_by_its_own_counters() -> None:
    fewer = block(chunks=12, generated=3 * TOKENS, drafts=3 * 66, accepted=3 * 33)
    assert steps.tokens_per_step([fewer]) == pytest.approx(99 / 66)
    other = make_block(
        requests=tuple(
            make_record(index, number_output_tokens=TOKENS, first_chunk_tokens=1, chunks=12)
            for index in (7, 8)
        ),
        warmup_requests=1,
        max_tokens_per_step=8,
        speculation=block(chunks=12).speculation,
    )
    assert steps.tokens_per_step([fewer, other]) == pytest.approx(2 * 99 / (66 + 33))


def test_a_block_without_counters_hides_no_other() -> None:
    merged = block(chunks=12, most=16)
    (without,) = [
        make_block(
            requests=tuple(
                make_record(index, number_output_tokens=TOKENS, first_chunk_tokens=1, chunks=12)
                for index in (7, 8)
            ),
            max_tokens_per_step=16,
            speculation=speculation,
        )
        for speculation in [None]
    ]
    assert steps.tokens_per_step([merged]) == pytest.approx(3.0)
    assert steps.step_counting([merged, without]) is None
    whole = block(chunks=STEPS + 1)
    assert steps.tokens_per_step([whole, silent(chunks=STEPS + 1)]) == pytest.approx(3.0)


def test_classes_are_counted_by_themselves() -> None:
    whole, split = block(chunks=STEPS + 1), silent(chunks=TOKENS)
    other = make_block(
        prompt_class="open_ended",
        requests=tuple(make_record(i + 7, chunks=TOKENS) for i in range(2)),
        max_tokens_per_step=8,
        speculation=None,
    )
    assert steps.step_counting([split]) is None
    assert steps.step_counting([whole, other]) is None
    assert present(steps.step_counting([whole])).by == "chunks"


def test_only_whole_blocks_have_steps_by_counters() -> None:
    merged, whole = block(chunks=12), block(chunks=STEPS + 1)
    assert present(steps.step_counting([merged])).tokens_per_step(merged.requests[0]) is None
    assert present(steps.step_counting([whole])).tokens_per_step(whole.requests[0]) == 3.0


def test_failed_and_excluded_requests_count_for_nothing() -> None:
    assert steps.tokens_per_step([silent(chunks=34, excluded="the client waited")]) is None
    assert steps.tokens_per_step([]) is None


@pytest.mark.parametrize(
    ("made", "whole"),
    [
        (block(chunks=STEPS + 1), True),
        (block(chunks=STEPS + 1, **N_GRAM), False),
        (block(chunks=12, **OTHER_WINDOWS), True),
        (block(chunks=12, **OTHER_WINDOWS | {"drafted_tokens": 100}), False),
        (silent(chunks=12), True),
    ],
)
def test_whether_steps_draft_whole_windows(made: BlockResult, whole: bool) -> None:
    assert steps.draft_whole_windows([made], made.max_tokens_per_step) is whole
