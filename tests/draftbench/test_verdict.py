"""The verdict: pairs, intervals and judgements."""

from __future__ import annotations

import random
import statistics

import pytest

from draftbench.verdict import Interval, compare, judge, median_interval, summarize
from tests.support.blocks import make_block, make_record


def test_the_interval_holds_the_true_median_as_often_as_it_says() -> None:
    generator = random.Random(11)
    hits = 0
    for _ in range(1000):
        interval = median_interval([generator.lognormvariate(0, 1) for _ in range(15)])
        assert interval.low is not None
        assert interval.high is not None
        hits += interval.low <= 1.0 <= interval.high
    assert 940 <= hits <= 990  # 95% at least; order statistics of 15 values give 96.5%


@pytest.mark.parametrize("count", [1, 2, 5])
def test_fewer_than_six_values_have_no_interval(count: int) -> None:
    interval = median_interval([1.0] * count)
    assert interval == Interval(median=1.0, low=None, high=None)


def test_six_values_have_one() -> None:
    assert median_interval([1, 2, 3, 4, 5, 6]) == Interval(median=3.5, low=1, high=6)


@pytest.mark.parametrize(
    ("low", "high", "judgement"),
    [
        (1.8, 2.2, "pays"),
        (0.4, 0.6, "costs"),
        (0.97, 1.03, "does not pay"),
        (0.8, 1.3, "cannot tell"),
        (1.01, 1.4, "cannot tell"),
        (0.7, 0.99, "cannot tell"),
    ],
)
def test_judgements(low: float, high: float, judgement: str) -> None:
    verdict, reason = judge(Interval(median=(low + high) / 2, low=low, high=high), pairs=20)
    assert verdict == judgement
    assert reason


def test_too_few_pairs_cannot_tell() -> None:
    verdict, reason = judge(Interval(median=2.0, low=None, high=None), pairs=3)
    assert verdict == "cannot tell"
    assert "3 usable pairs" in reason


def paired_blocks(*, factor: float, count: int = 8) -> list:  # type: ignore[type-arg]
    plain = [
        make_record(prompt_id=f"p{i}", inter_token_latency_s=0.01 + i / 1e3) for i in range(count)
    ]
    drafted = [
        make_record(prompt_id=f"p{i}", inter_token_latency_s=(0.01 + i / 1e3) / factor)
        for i in range(count)
    ]
    return [
        make_block(variant="baseline", block=1, requests=tuple(plain)),
        make_block(variant="k7", block=2, requests=tuple(reversed(drafted))),
    ]


def test_pairs_are_matched_by_prompt_whatever_their_order() -> None:
    comparison = compare(
        paired_blocks(factor=2.0), prompt_class="structured", variant="k7", baseline="baseline"
    )
    assert comparison.pairs == 8
    assert comparison.speedup is not None
    assert comparison.speedup.median == pytest.approx(2.0)
    assert comparison.speedup.low == pytest.approx(2.0)
    assert comparison.judgement == "pays"


def test_a_prompt_sent_twice_is_paired_with_its_own_repetition() -> None:
    records = [make_record(prompt_id="p", inter_token_latency_s=v) for v in (0.01, 0.02)]
    blocks = [
        make_block(variant="baseline", requests=tuple(records)),
        make_block(variant="k7", requests=tuple(records)),
    ]
    comparison = compare(blocks, prompt_class="structured", variant="k7", baseline="baseline")
    assert comparison.pairs == 2
    assert comparison.speedup is not None
    assert comparison.speedup.median == pytest.approx(1.0)


def test_failed_and_spoilt_requests_leave_their_pair_and_are_counted() -> None:
    blocks = paired_blocks(factor=2.0)
    failed = make_record(prompt_id="p0", error_code=500, inter_token_latency_s=None)
    spoilt = make_record(prompt_id="p1", inter_token_latency_s=9.0, spoilt="waited")
    kept = [r for r in blocks[1].requests if r.prompt_id not in ("p0", "p1")]
    blocks[1] = make_block(variant="k7", requests=(failed, spoilt, *kept))

    comparison = compare(blocks, prompt_class="structured", variant="k7", baseline="baseline")
    summary = summarize(blocks, prompt_class="structured", variant="k7")

    assert comparison.pairs == 6
    assert comparison.speedup is not None
    assert comparison.speedup.median == pytest.approx(2.0)
    assert (summary.requests, summary.failed, summary.spoilt) == (8, 1, 1)
    assert summary.inter_token_latency_s == pytest.approx(
        statistics.median(r.inter_token_latency_s for r in kept if r.inter_token_latency_s)
    )


def test_nothing_measured_gives_no_figures_rather_than_zero() -> None:
    summary = summarize([], prompt_class="structured", variant="k7")
    assert summary.inter_token_latency_s is None
    assert summary.output_throughput_token_per_s is None
    assert summary.tokens_per_step is None
    assert summary.acceptance_rate is None
