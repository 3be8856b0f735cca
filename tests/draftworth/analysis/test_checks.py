"""Cross-checks: when both sources agree, when they do not, and when there is only one."""

from __future__ import annotations

import random

import pytest

from draftworth.analysis.checks import (
    AcceptanceCheck,
    acceptance_by_position,
    break_even,
    server_check,
)
from draftworth.analysis.metrics import INTER_TOKEN_LATENCY, LLMPERF_INTER_TOKEN_LATENCY
from draftworth.analysis.summary import groups_of, summarize
from draftworth.records.results import ServerTimings, SpeculationCounters
from tests.draftworth.report.runs import (
    PLAIN_ITL_S,
    STEP_S,
    VARIANT,
    make_drafted_block,
    make_facts,
    make_plain_block,
    make_run,
)
from tests.support.blocks import make_block, make_failed_record, make_record


@pytest.mark.parametrize(("factor", "agrees"), [(1.0, True), (1.05, True), (1.2, False)])
def test_a_server_that_sees_other_latencies_is_noticed(factor: float, agrees: bool) -> None:
    check = server_check([make_drafted_block(1, "structured", server_factor=factor)])
    assert check is not None
    assert check.requests == 8
    assert check.difference == pytest.approx(1 / factor - 1)
    assert check.agrees is agrees


def test_a_block_in_which_the_server_saw_other_requests_is_not_compared() -> None:
    server = ServerTimings(
        time_per_output_token_sum_s=1.0, time_per_output_token_count=3, ttft_sum_s=1, ttft_count=3
    )
    records = (make_record(0), make_record(1), make_failed_record(2))
    assert server_check([make_block(requests=records, server=server)]) is None
    assert server_check([make_block(server=None)]) is None


def test_acceptance_is_estimated_where_the_server_does_not_count() -> None:
    check = AcceptanceCheck(counted=None, tokens_per_step=4.5, most=8)
    assert check.estimated == pytest.approx(0.5)
    assert check.agrees is None


@pytest.mark.parametrize(("counted", "agrees"), [(0.52, True), (0.60, False)])
def test_counters_and_estimate_are_held_against_each_other(counted: float, agrees: bool) -> None:
    check = AcceptanceCheck(counted=counted, tokens_per_step=4.5, most=8)
    assert check.agrees is agrees


@pytest.mark.parametrize("most", [2, 7, 8])
@pytest.mark.parametrize("chance", [0.0, 0.3, 0.9, 1.0])
def test_acceptance_is_recovered_from_simulated_steps(most: int, chance: float) -> None:
    """Draft after draft is accepted with `chance` until one is not; then one token follows."""
    generator = random.Random(5)
    steps, accepted, tokens = 4000, 0, 0
    for _ in range(steps):
        run = 0
        while run < most - 1 and generator.random() < chance:
            run += 1
        accepted += run
        tokens += run + 1

    check = AcceptanceCheck(counted=None, tokens_per_step=tokens / steps, most=most)

    assert check.estimated == pytest.approx(accepted / (steps * (most - 1)))


@pytest.mark.parametrize(
    ("tokens_per_step", "most"), [(9.0, 8), (8.1, 8), (0.9, 8), (1.0, 1), (None, 8)]
)
def test_what_no_acceptance_explains_is_not_estimated(
    tokens_per_step: float | None, most: int
) -> None:
    check = AcceptanceCheck(counted=None, tokens_per_step=tokens_per_step, most=most)
    assert check.estimated is None
    assert check.agrees is None


def test_acceptance_by_position_is_a_share_of_drafts_over_all_blocks() -> None:
    blocks = [
        make_block(
            speculation=SpeculationCounters(
                drafts=drafts, draft_tokens=0, accepted_tokens=0, accepted_per_position=accepted
            )
        )
        for drafts, accepted in ((10, (8, 4)), (30, (24,)))
    ]
    assert acceptance_by_position(blocks) == pytest.approx((0.8, 0.1))
    assert acceptance_by_position([make_block(speculation=None)]) == ()


def test_break_even_is_the_step_over_the_baselines_token() -> None:
    records = make_drafted_block(1, "structured").requests
    acceptance = AcceptanceCheck(counted=None, tokens_per_step=6.0, most=8)
    figures = break_even(records, acceptance, baseline_itl_s=PLAIN_ITL_S)
    assert figures is not None
    assert figures.step_s == pytest.approx(STEP_S, rel=0.02)
    assert figures.needed == pytest.approx(3.0, rel=0.02)
    assert figures.predicted_speedup == pytest.approx(2.0, rel=0.02)
    for nothing in (None, 0.0):
        assert break_even(records, acceptance, baseline_itl_s=nothing) is None
    assert break_even((), acceptance, baseline_itl_s=0.01) is None


def test_llmperf_calls_a_step_a_token() -> None:
    drafted = make_facts().speculative[0]
    assert drafted.value(LLMPERF_INTER_TOKEN_LATENCY) == pytest.approx(STEP_S, rel=0.02)
    assert drafted.value(INTER_TOKEN_LATENCY) == pytest.approx(STEP_S / 6, rel=0.02)
    failed = [make_block(requests=(make_failed_record(),))]
    (group,) = groups_of(failed)
    summary = summarize(failed, group, failed[0].variant)
    assert summary.value(LLMPERF_INTER_TOKEN_LATENCY) is None


def test_agreeing_sources_call_for_no_attention() -> None:
    assert make_facts().attention == ()


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (
            {"server_factor": 1.5},
            "structured at c4, k7: our mean ITL is 5.03 ms and the server's own 7.55 ms, -33%",
        ),
        (
            {"speculation": SpeculationCounters(drafts=1, draft_tokens=100, accepted_tokens=20)},
            "the server counts 20.0% accepted, tokens per step explain",
        ),
        (
            {"requests": tuple(make_record(i, output_sha256="f" * 64) for i in range(8))},
            "only 0% of the greedy outputs are the baseline's",
        ),
        (
            {"requests": (*(make_record(i) for i in range(7)), make_failed_record(7))},
            "1 of 8 requests failed",
        ),
        (
            {"requests": tuple(make_record(i, chunks=8) for i in range(8))},
            "14.14 tokens a step where a step yields at most 8",
        ),
    ],
    ids=["server", "acceptance", "outputs", "failures", "merged chunks"],
)
def test_a_disagreement_calls_for_attention(overrides: dict[str, object], sentence: str) -> None:
    blocks = (make_plain_block(1, "structured"), make_drafted_block(2, "structured", **overrides))  # type: ignore[arg-type]
    attention = make_facts(make_run(blocks=blocks)).attention
    assert any(sentence in line for line in attention), attention
    assert all(VARIANT in line for line in attention)
