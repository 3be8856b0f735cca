"""Simulated runs in which the true cost ratio is not what the median latency suggests."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean

import pytest

from benchmarks.calibration import outcomes
from benchmarks.planted import GROUP, Cell
from draftworth.analysis.pairing import Traffic
from draftworth.decision.verdict import Comparison, compare
from draftworth.records.results import BlockResult
from draftworth.report.sentences import rare_sentences
from tests.support.blocks import make_block, make_record
from tests.support.present import present

RUNS = 30


def judgements(cell: Cell, runs: int = RUNS) -> Counter[str]:
    all_judgements = [outcome.comparison.judgement for outcome in outcomes(cell, runs)]
    assert len(all_judgements) == runs
    return Counter(all_judgements)


def test_mostly_faster_but_dearer_is_not_cheaper() -> None:
    """70% of prompts are 1.2 times as fast, and 30% are 0.4 times as fast.

    So the cost ratio is 0.7 / 1.2 + 0.3 / 0.4 = 1.33.
    """
    cell = Cell(cost_ratio=4 / 3, cases=4, gains=((1 / 1.2, 0.7), (1 / 0.4, 0.3)))
    counts = judgements(cell)
    assert counts["cheaper per token"] == 0
    assert counts["more expensive"] > RUNS / 4


def test_the_other_way_round_it_is_cheaper() -> None:
    """70% of prompts are a little slower, but 30% are so much faster that tokens cost less."""
    counts = judgements(Cell(cost_ratio=0.855, cases=4, gains=((1.05, 0.7), (0.4, 0.3))))
    assert counts["more expensive"] == 0
    assert counts["cheaper per token"] > 0


@pytest.mark.parametrize("time_outs", [0.5, 0.78])
def test_where_requests_time_out_there_is_no_verdict(time_outs: float) -> None:
    counts = judgements(Cell(cost_ratio=0.4, cases=4, time_outs=time_outs), 10)
    assert counts == {"inconclusive": 10}


def prefill_heavy() -> Iterator[BlockResult]:
    """Yield blocks with long prompts and 32 output tokens, where most of the time is prefill.

    The variant decodes 1.5 times as fast as the baseline, but its first token comes later.
    """
    for number in (1, 2, 3):
        for variant, ttft_s, itl_s in (("baseline", 1.0, 0.03), ("variant", 1.6, 0.02)):
            yield make_block(
                variant=variant,
                prompt_class=GROUP.prompt_class,
                load=GROUP.load,
                round=number,
                requests=tuple(
                    make_record(
                        i,
                        ttft_s=ttft_s + i / 100,
                        inter_token_latency_s=itl_s,
                        end_to_end_latency_s=ttft_s + i / 100 + 31 * itl_s,
                        number_output_tokens=32,
                    )
                    for i in range(8)
                ),
            )


def test_faster_decoding_after_slow_prefill_may_cost_more() -> None:
    comparison: Comparison = compare(
        [*prefill_heavy()], Traffic.of(GROUP), variant="variant", baseline="baseline"
    )
    assert present(comparison.itl_speedup).value == pytest.approx(1.5)
    assert comparison.judgement == "more expensive"


def test_rare_slow_blocks_are_told_as_rare() -> None:
    """4% of the variant's blocks take three times as long: most runs meet none or too few."""
    cell = Cell(cost_ratio=0.5, cases=4, spread=0.05, slow_blocks=(0.04, 3.0))
    comparisons = [outcome.comparison for outcome in outcomes(cell, 10)]
    decided = [c for c in comparisons if c.judgement == "cheaper per token"]
    assert decided
    assert all(" blocks" in rare_sentences(comparison) for comparison in decided)


def test_what_a_block_carries_over_looks_cheaper() -> None:
    """Nothing in the data shows a carry-over: `compare` says where servers share a host."""
    cell = Cell(cost_ratio=1.0, cases=4, spread=0.0, block_error=0.0)
    ratios = [
        fmean(present(o.comparison.cost_ratio).value for o in outcomes(world, 5))
        for world in (cell, replace(cell, carry_over=0.05))
    ]
    assert ratios[0] == pytest.approx(1.0, abs=0.005)
    assert ratios[1] < 0.995
