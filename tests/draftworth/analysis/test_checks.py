"""Cross-checks of a figure: its two sources agree, do not agree, or one of them is missing."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from draftworth.analysis import checks
from draftworth.analysis.summary import groups_of, summarize
from draftworth.metrics import definitions
from draftworth.metrics.steps import step_counting
from draftworth.records import results
from draftworth.report.attention import attention_of
from tests.draftworth.report import runs
from tests.support.blocks import make_block, make_failed_record, make_record
from tests.support.present import present


@pytest.mark.parametrize(("factor", "agrees"), [(1.0, True), (1.05, True), (1.2, False)])
def test_a_server_that_sees_other_latencies_is_noticed(factor: float, agrees: bool) -> None:
    check = present(
        checks.server_check([runs.make_drafted_block(1, "structured", server_factor=factor)])
    )
    assert check.requests == 8
    assert check.difference == pytest.approx(1 / factor - 1)
    assert check.agrees is agrees


def test_a_block_with_foreign_requests_is_not_compared() -> None:
    server = results.ServerTimings(time_per_output_token_sum_s=1.0, time_per_output_token_count=3)
    records = (make_record(0), make_record(1), make_failed_record(2))
    assert checks.server_check([make_block(requests=records, server=server)]) is None
    assert checks.server_check([make_block(server=None)]) is None


def test_warm_up_and_fillers_count_on_our_side() -> None:
    block = make_block(
        requests=(make_record(0, inter_token_latency_s=0.02),),
        others=results.OtherRequests(inter_token_latency_sum_s=0.10, inter_token_latency_count=2),
        server=results.ServerTimings(
            time_per_output_token_sum_s=0.12,
            time_per_output_token_count=3,
        ),
    )
    check = present(checks.server_check([block]))
    assert check.requests == 3
    assert check.ours_s == pytest.approx(0.04)
    assert check.difference == pytest.approx(0.0)
    assert checks.server_check([replace(block, others=results.OtherRequests())]) is None


@pytest.mark.parametrize("most", [2, 7, 8])
@pytest.mark.parametrize("chance", [0.0, 0.3, 0.9, 1.0])
def test_acceptance_is_recovered_from_simulated_steps(most: int, chance: float) -> None:
    """In each simulated step, each drafted token is accepted with the probability `chance`.

    The first one that is not accepted ends the step, which yields one token more.
    """
    generator = random.Random(5)
    steps, accepted, tokens = 4000, 0, 0
    for _ in range(steps):
        run = 0
        while run < most - 1 and generator.random() < chance:
            run += 1
        accepted += run
        tokens += run + 1

    check = checks.AcceptanceCheck(counted=None, tokens_per_step=tokens / steps, most=most)

    assert check.estimated == pytest.approx(accepted / (steps * (most - 1)))
    assert replace(check, whole_windows=False).estimated is None


@pytest.mark.parametrize(
    ("tokens_per_step", "most"), [(9.0, 8), (8.1, 8), (0.9, 8), (1.0, 1), (None, 8), (4.0, None)]
)
def test_what_no_acceptance_explains_is_not_estimated(
    tokens_per_step: float | None, most: int | None
) -> None:
    check = checks.AcceptanceCheck(counted=None, tokens_per_step=tokens_per_step, most=most)
    assert check.estimated is None
    assert check.agrees is None


@pytest.mark.parametrize(
    ("most", "steps", "merged"),
    [(8, 9.0, True), (8, 4.0, False), (None, 9.0, False), (None, 3.0, True)],
)
def test_chunks_are_called_merged_only_where_certain(
    most: int | None, steps: float, merged: bool
) -> None:
    """If it is not known how many tokens a step can yield, a chunk of nine may well be one step."""
    check = checks.AcceptanceCheck(
        counted=None, tokens_per_step=steps, most=most, tokens_per_chunk=max(steps, 4.0)
    )
    assert check.merged is merged


def test_acceptance_by_position_counts_drafts_of_all_blocks() -> None:
    blocks = [
        make_block(
            speculation=results.SpeculationCounters(
                drafts=drafts, draft_tokens=0, accepted_tokens=0, accepted_per_position=accepted
            )
        )
        for drafts, accepted in ((10, (8, 4)), (30, (24,)))
    ]
    assert checks.acceptance_by_position(blocks) == pytest.approx((0.8, 0.1))
    assert checks.acceptance_by_position([make_block(speculation=None)]) == ()


def test_break_even_is_step_over_baseline_token() -> None:
    block = runs.make_drafted_block(1, "structured")
    # The 99 tokens after the first one arrive in 17 chunks: the last has 3 tokens, the others 6.
    tokens_per_step = 99 / 17
    acceptance = checks.AcceptanceCheck(counted=None, tokens_per_step=tokens_per_step, most=8)

    def break_even(
        records: Sequence[results.RequestRecord],
        *,
        itl_s: float | None = runs.PLAIN_ITL_S,
        share: float = 1.0,
    ) -> checks.BreakEven | None:
        count = step_counting([block])
        return checks.break_even(records, count, acceptance, baseline_itl_s=itl_s, share=share)

    figures = present(break_even(block.requests))
    assert figures.step_s == pytest.approx(runs.STEP_S * tokens_per_step / 6, rel=0.02)
    assert figures.needed == pytest.approx(3.0 * tokens_per_step / 6, rel=0.02)
    assert figures.predicted_speedup == pytest.approx(2.0, rel=0.02)
    for nothing in (None, 0.0):
        assert break_even(block.requests, itl_s=nothing) is None
    assert break_even(()) is None
    dear = present(break_even(block.requests, share=2.0))
    assert dear.needed == pytest.approx(2 * figures.needed)
    assert dear.predicted_speedup == figures.predicted_speedup


def test_llmperf_calls_a_step_a_token() -> None:
    drafted = runs.make_facts().speculative[0]
    assert drafted.value(definitions.LLMPERF_INTER_TOKEN_LATENCY) == pytest.approx(
        runs.STEP_S, rel=0.02
    )
    assert drafted.value(definitions.INTER_TOKEN_LATENCY) == pytest.approx(
        runs.STEP_S / 6, rel=0.02
    )
    failed = [make_block(requests=(make_failed_record(),))]
    (group,) = groups_of(failed)
    summary = summarize(failed, group, failed[0].variant)
    assert summary.value(definitions.LLMPERF_INTER_TOKEN_LATENCY) is None


def test_agreeing_sources_call_for_no_attention() -> None:
    assert attention_of(runs.make_facts()) == ()


def counted_requests(
    *, steps: int, drafted: int, accepted: int
) -> tuple[results.RequestRecord, ...]:
    """Return requests of 100 tokens in 17 chunks, with the server's counts for each request."""
    drafts = {"verification_steps": steps, "drafted_tokens": drafted, "accepted_tokens": accepted}
    return tuple(make_record(i, chunks=17, **drafts) for i in range(8))


def test_the_servers_steps_per_request_precede_chunks() -> None:
    """The 99 tokens after the first one took 25 steps, which arrived in 16 merged chunks."""
    block = runs.make_drafted_block(1, "structured")
    merged = counted_requests(steps=25, drafted=175, accepted=75)
    all_told = replace(block, requests=merged)
    one_not = replace(block, requests=(*merged[1:], make_record(0, chunks=17)))
    (group,) = groups_of([block])

    assert summarize([all_told], group, runs.VARIANT).value(
        definitions.TOKENS_PER_STEP
    ) == pytest.approx(99 / 25)
    assert summarize([one_not], group, runs.VARIANT).value(
        definitions.TOKENS_PER_STEP
    ) == pytest.approx(99 / 16)


def test_a_steps_time_is_by_the_servers_count() -> None:
    records = counted_requests(steps=25, drafted=175, accepted=75)
    acceptance = checks.AcceptanceCheck(counted=None, tokens_per_step=99 / 25, most=8)
    count = step_counting([runs.make_drafted_block(1, "structured", requests=records)])
    figures = present(
        checks.break_even(records, count, acceptance, baseline_itl_s=runs.PLAIN_ITL_S, share=1.0)
    )
    assert figures.step_s == pytest.approx(0.015 * 99 / 25, rel=1e-3)


def test_without_counters_requests_give_the_acceptance_rate() -> None:
    requests = counted_requests(steps=25, drafted=175, accepted=75)
    block = runs.make_drafted_block(1, "structured", requests=requests, speculation=None)
    (group,) = groups_of([block])
    value = summarize([block], group, runs.VARIANT).value(definitions.ACCEPTANCE_RATE)
    assert value == pytest.approx(75 / 175)


def every(**fields: Any) -> dict[str, Any]:
    return {"requests": tuple(make_record(i, **fields) for i in range(8))}


FEW_ACCEPTED = results.SpeculationCounters(drafts=1, draft_tokens=100, accepted_tokens=20)
DISAGREEMENTS: dict[str, dict[str, Any]] = {
    "k7: our mean ITL is 5.03 ms and the server's own 7.55 ms, -33%": {"server_factor": 1.5},
    "the server counts 20.0% accepted, tokens per step explain": {"speculation": FEW_ACCEPTED},
    "0.0% of the outputs are the baseline's": every(output_sha256="f" * 64),
    "1 of 8 requests failed": {"requests": (*every()["requests"][1:], make_failed_record(0))},
    "14.14 tokens per chunk where a step yields at most 8": every(chunks=8),
    "6.19 tokens per chunk, and the server counts 3.96 per step: chunks were merged": {
        "requests": counted_requests(steps=25, drafted=175, accepted=75)
    },
    "what it tells with each answer 19.6% (tolerance 5%): other requests were served": {
        "requests": counted_requests(steps=16, drafted=112, accepted=22)
    },
    "counts tokens only at the end of an answer": every(usage_source="last_chunk"),
    "k7: 75.0% of the prompt tokens came from a cache of the server, because a prompt": every(
        number_input_tokens=64, cached_input_tokens=48
    ),
}


def test_a_baseline_that_speculates_calls_for_attention() -> None:
    plain = runs.make_plain_block(1, "structured", speculation=FEW_ACCEPTED)
    blocks = (plain, runs.make_drafted_block(2, "structured"))
    attention = attention_of(runs.make_facts(runs.make_run(blocks=blocks)))
    assert any("baseline: its own counters say that it accepts drafts" in a for a in attention)


@pytest.mark.parametrize("cached", [None, 0, 1])
def test_a_hundredth_from_cache_calls_for_no_attention(cached: int | None) -> None:
    requests = every(number_input_tokens=100, cached_input_tokens=cached)
    drafted = runs.make_drafted_block(2, "structured", **requests)
    run = runs.make_run(blocks=(runs.make_plain_block(1, "structured"), drafted))
    assert not any("from a cache" in line for line in attention_of(runs.make_facts(run)))


@pytest.mark.parametrize("sentence", DISAGREEMENTS)
def test_a_disagreement_calls_for_attention(sentence: str) -> None:
    drafted = runs.make_drafted_block(2, "structured", **DISAGREEMENTS[sentence])
    blocks = (runs.make_plain_block(1, "structured"), drafted)
    attention = attention_of(runs.make_facts(runs.make_run(blocks=blocks)))
    assert any(sentence in line for line in attention), attention
    assert all(runs.VARIANT in line for line in attention)
