"""Requests that come at rates: the answer is how many per second each variant can take."""

from dataclasses import replace

import pytest

from draftworth.decision.winner import NoWinnerError
from draftworth.records.judgement import Judgement
from draftworth.records.load_shapes import LEAST_WARMUP_AT_A_RATE, PoissonLoad
from draftworth.records.results import BlockResult, Limits
from draftworth.report.answer_of_run import answer_of
from draftworth.report.contents import document_of
from draftworth.report.sentences import winner_to_export
from tests.draftworth.report.runs import BASELINE, make_facts, make_run, slower


def at_rate(blocks: tuple[BlockResult, ...], rate: float, ttft_s: float) -> list[BlockResult]:
    """Return blocks at a request rate, seven copies of each: enough to show a 95th percentile."""
    return [
        replace(
            block,
            load=PoissonLoad(requests_per_second=rate),
            warmup_requests=LEAST_WARMUP_AT_A_RATE,
            round=block.round + 2 * again,
            block=block.block + 100 * again + round(rate * 10_000),
            requests=tuple(replace(r, ttft_s=ttft_s) for r in block.requests),
        )
        for block in blocks
        for again in range(7)
    ]


def rates_that_differ() -> tuple[BlockResult, ...]:
    """Return blocks in which the variant keeps 0.5 s of TTFT at 2 requests/s, the baseline at 1."""
    blocks = make_run().blocks
    plain = tuple(block for block in blocks if block.variant == BASELINE)
    return (
        *at_rate(blocks, 1.0, 0.2),
        *at_rate(tuple(b for b in blocks if b not in plain), 2.0, 0.2),
        *at_rate(plain, 2.0, 0.9),
    )


def test_a_rate_within_both_limits_decides_nothing() -> None:
    """The variant takes longer from end to end, but keeps the only limit, which is on TTFT."""
    blocks = tuple(
        block if block.variant == BASELINE else slower(block, 1.4) for block in make_run().blocks
    )
    run = make_run(blocks=tuple(at_rate(blocks, 2.0, 0.2)), limits=Limits(ttft_p95_s=0.5))
    facts = make_facts(run)
    assert {mix.judgement for mix in facts.mixes} == {Judgement.WITHIN_LIMITS}

    answer = answer_of(facts)
    assert answer.serve is None
    assert answer.decision == "No decision: all keep the limits at every measured rate."
    assert "measure higher rates" in answer.next_step
    assert answer.missing == ("rates at which one side keeps the limits and the other does not",)
    assert "E2E 1.37 (1.35 to 1.38) times as long" in answer.headline
    with pytest.raises(NoWinnerError, match="Highest measured rate within the limits, k7"):
        winner_to_export(facts)


def test_the_highest_rate_per_variant_is_the_answer() -> None:
    measured = rates_that_differ()
    limits = Limits(ttft_p95_s=0.5)
    # The same rates with long prompts, with which no rate is within the limits.
    longer = [
        replace(
            block,
            load=replace(block.load, input_tokens=8000),
            block=block.block + 1_000_000,
            requests=tuple(replace(r, ttft_s=0.9) for r in block.requests),
        )
        for block in measured
    ]
    facts = make_facts(make_run(blocks=(*measured, *longer), limits=limits))
    kept = {(b.variant, b.input_tokens): b.kept for b in facts.highest_rates}
    assert kept["k7", 8000] is None
    assert kept["k7", None] == PoissonLoad(requests_per_second=2.0)
    paragraphs = document_of(facts).sections[0].paragraphs
    assert (
        "Highest measured rate within the limits, baseline: one request per second." in paragraphs
    )
    assert "Highest measured rate within the limits, k7: 2 requests per second." in paragraphs
    assert facts.mixes[0].cost_ratio is None
    without = document_of(make_facts(make_run(blocks=measured[:8]))).sections[0].paragraphs
    assert not any("Highest" in sentence for sentence in without)


def test_the_higher_rate_of_another_model_decides_nothing() -> None:
    limits, blocks = Limits(ttft_p95_s=0.5), rates_that_differ()
    assert make_facts(make_run(blocks=blocks, limits=limits)).decision.serve == "k7"

    named = tuple(replace(block, answering_models=(block.variant,)) for block in blocks)
    facts = make_facts(make_run(blocks=named, limits=limits))
    assert facts.decision.serve is None
    assert answer_of(facts).decision.startswith("No decision at")
    assert "model" in answer_of(facts).decision


def test_a_winner_by_rates_has_its_highest_rate() -> None:
    run = make_run(blocks=rates_that_differ(), limits=Limits(ttft_p95_s=0.5))
    winner = winner_to_export(make_facts(run))
    assert (winner.variant, winner.cheaper_at) == ("k7", ())
    assert winner.takes_up_to == (PoissonLoad(requests_per_second=2.0),)


def test_a_short_warm_up_leaves_rates_open() -> None:
    short = tuple(replace(block, warmup_requests=31) for block in rates_that_differ())
    facts = make_facts(make_run(blocks=short, limits=Limits(ttft_p95_s=0.5)))
    answer = answer_of(facts)
    assert answer.serve is None
    assert (
        "k7: none of them; open at one request per second, which takes 32 or more"
        in answer.headline
    )
    assert "workload.warmup_requests" in answer.next_step
    assert any(
        "baseline in structured at one request per second" in missing for missing in answer.missing
    )


def test_the_baselines_short_warm_up_is_named_once() -> None:
    short = tuple(replace(block, warmup_requests=31) for block in rates_that_differ())
    another = tuple(
        replace(block, variant="k3", block=block.block + 10_000_000)
        for block in short
        if block.variant == "k7"
    )
    run = make_run(
        blocks=(*short, *another),
        variants=(BASELINE, "k7", "k3"),
        limits=Limits(ttft_p95_s=0.5),
    )
    missing = answer_of(make_facts(run)).missing
    assert (
        sum("baseline in structured at one request per second" in sentence for sentence in missing)
        == 1
    )
    assert (
        sum("k3 in structured at one request per second" in sentence for sentence in missing) == 1
    )
