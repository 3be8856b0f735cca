"""Extreme requests that decide a verdict, and rare events that a run may have missed."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from benchmarks.planted import BASELINE, LOADS, VARIANT, Cell, planted_blocks
from draftworth.analysis.pairing import Traffic
from draftworth.analysis.rare import unseen_of
from draftworth.analysis.statistics import Estimate
from draftworth.decision.best_of_many import best_of_many
from draftworth.decision.decide import decide
from draftworth.decision.verdict import Comparison, compare
from draftworth.decision.winner import NoWinnerError
from draftworth.records.results import BlockResult
from draftworth.report.sentences import headline, rare_sentences, winner_to_export
from tests.draftworth.report.runs import make_facts
from tests.support.present import present

CELL = Cell(cost_ratio=0.955, cases=4, spread=0.01, block_error=0.003)
BLOCKS = planted_blocks(CELL, rounds=4, seed=1)


def judged(blocks: Sequence[BlockResult]) -> Comparison:
    traffic = Traffic(weights=CELL.traffic, load=LOADS[0])
    return compare(blocks, traffic, variant=VARIANT, baseline=BASELINE)


def stalled(count: int, *, times: float, variant: str) -> list[BlockResult]:
    """Return the blocks with one slow request in each of the variant's first `count` blocks.

    times: how many times as long as before the slow request takes.
    """
    numbers = [block.block for block in BLOCKS if block.variant == variant][:count]
    return [slowed(block, times) if block.block in numbers else block for block in BLOCKS]


def slowed(block: BlockResult, times: float) -> BlockResult:
    requests = [*block.requests]
    place = block.block % len(requests)
    latency_s = present(requests[place].end_to_end_latency_s) * times
    requests[place] = replace(requests[place], end_to_end_latency_s=latency_s)
    return replace(block, requests=tuple(requests))


def test_extreme_requests_are_named_with_the_other_cost() -> None:
    assert rare_sentences(judged(stalled(3, times=3.5, variant=BASELINE))) == (
        " 3 of 128 requests of baseline took at least 3.4 times as long as is usual for their "
        "prompts, and none of the other side: without them the cost difference is 4 to 6% less."
    )


@pytest.mark.parametrize("times", [1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0])
def test_three_extreme_requests_decide_no_verdict(times: float) -> None:
    """Without slow requests, the cost is just not low enough to count as cheaper.

    Three slow requests of the baseline do not change the verdict, however slow they are, but
    sixteen do.
    """
    assert judged(stalled(3, times=times, variant=BASELINE)).judgement == "inconclusive"
    assert judged(stalled(16, times=3.0, variant=BASELINE)).judgement == "cheaper per token"


def test_requests_are_extreme_on_one_side_alone() -> None:
    both = stalled(2, times=5.0, variant=BASELINE)
    variant = next(block for block in both if block.variant == VARIANT)
    one = judged([slowed(b, 5.0) if b is variant else b for b in both])
    assert "took at least" not in rare_sentences(one), "the machine stalls whoever is measured"


@pytest.mark.parametrize("gains", [(), ((0.4, 0.3), (1.2, 0.7))])
def test_prompts_of_two_kinds_are_no_extreme_requests(
    gains: tuple[tuple[float, float], ...],
) -> None:
    """If some prompts are far slower than others, their requests do not count as extreme.

    With 32 prompts, each prompt is sent once, so that it has no other request to compare with.
    """
    for prompts in (8, 32):
        blocks = planted_blocks(replace(CELL, gains=gains, prompts=prompts), rounds=4, seed=2)
        assert "took at least" not in rare_sentences(judged(blocks))


def test_a_decision_says_what_it_may_have_missed() -> None:
    cheap = judged(planted_blocks(replace(CELL, cost_ratio=0.5, prompts=3), rounds=4, seed=1))
    assert rare_sentences(cheap) == (
        " A run of this size may have missed what happens in fewer than 1 of 39 requests or "
        "3 of 16 blocks or 3 of 12 prompts."
    )
    open_run = judged(stalled(3, times=30.0, variant=VARIANT))
    assert open_run.judgement == "inconclusive"
    assert "may have missed" not in rare_sentences(open_run)
    starts = Estimate(value=0.5, low=0.4, high=0.6, prompts=32, blocks=9, samples=90, repetitions=4)
    assert "3 of 9 blocks or 3 of 32 prompts or 3 of 4 starts." in rare_sentences(
        replace(cheap, cost_ratio=starts)
    )


def test_requests_count_by_what_they_weigh() -> None:
    """A class has 95% of the traffic and 64 of the 128 requests: only these can show events."""
    cell = replace(CELL, cost_ratio=0.5, cases=2, weights=(0.95, 0.05))
    ratio = present(
        compare(
            planted_blocks(cell, rounds=8, seed=1),
            Traffic(weights=cell.traffic, load=LOADS[0]),
            variant=VARIANT,
            baseline=BASELINE,
        ).cost_ratio
    )
    assert ratio.samples == 128
    assert 15 < unseen_of(ratio).requests <= 64 // 3


def test_best_of_many_has_a_wider_interval() -> None:
    comparison = judged(planted_blocks(replace(CELL, cost_ratio=0.935), rounds=2, seed=1))
    assert comparison.judgement == "cheaper per token"
    assert best_of_many(comparison, 1) == comparison
    several = best_of_many(comparison, 2)
    assert several.judgement == comparison.judgement
    low, high = present(present(several.cost_ratio).interval)
    assert low < present(present(comparison.cost_ratio).low)
    assert high > present(present(comparison.cost_ratio).high)
    assert best_of_many(comparison, 10_000).judgement == "inconclusive"
    # The headline and the winner follow from the wider interval too.
    facts = make_facts()
    decision = decide(facts.run, mixes=(comparison,) * 10_000, of_classes=())
    facts = replace(facts, decision=decision)
    assert headline(facts).startswith("No answer yet")
    with pytest.raises(NoWinnerError, match="No answer yet"):
        winner_to_export(facts)
