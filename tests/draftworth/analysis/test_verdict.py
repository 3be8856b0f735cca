"""The verdict: pairs, intervals and judgements."""

from __future__ import annotations

import hashlib
import statistics

import pytest

from draftworth.analysis.costs import usd_per_million_tokens
from draftworth.analysis.metrics import INTER_TOKEN_LATENCY
from draftworth.analysis.statistics import Estimate
from draftworth.analysis.summary import Group, groups_of, summarize
from draftworth.analysis.verdict import compare, judge
from draftworth.records.load import ConcurrencyLoad, PoissonLoad
from draftworth.records.results import BlockResult
from tests.support.blocks import make_block, make_price, make_record

LOAD = ConcurrencyLoad(concurrency=4)
STRUCTURED = Group(prompt_class="structured", load=LOAD)


def known(value: float, low: float | None, high: float | None) -> Estimate:
    return Estimate(value=value, low=low, high=high, prompts=8, samples=16)


@pytest.mark.parametrize(
    ("low", "high", "judgement"),
    [
        (1.8, 2.2, "pays"),
        (0.4, 0.6, "costs"),
        (0.97, 1.03, "does not pay"),
        (0.8, 1.3, "inconclusive"),
        (1.01, 1.4, "inconclusive"),
        (0.7, 0.99, "inconclusive"),
    ],
)
def test_judgements(low: float, high: float, judgement: str) -> None:
    verdict, reason = judge(known((low + high) / 2, low, high))
    assert verdict == judgement
    assert reason


@pytest.mark.parametrize("speedup", [None, known(2.0, None, None)])
def test_without_an_interval_the_verdict_is_inconclusive(speedup: Estimate | None) -> None:
    assert judge(speedup)[0] == "inconclusive"


def paired_blocks(*, factor: float, prompts: int = 8, rounds: int = 1) -> list[BlockResult]:
    blocks = []
    for round_number in range(1, rounds + 1):
        plain = [
            make_record(prompt_id=f"p{i}", inter_token_latency_s=0.01 + i / 1e3)
            for i in range(prompts)
        ]
        drafted = [
            make_record(prompt_id=f"p{i}", inter_token_latency_s=(0.01 + i / 1e3) / factor)
            for i in range(prompts)
        ]
        blocks += [
            make_block(variant="baseline", round=round_number, requests=tuple(plain)),
            make_block(variant="k7", round=round_number, requests=tuple(reversed(drafted))),
        ]
    return blocks


def test_pairs_are_matched_by_prompt_whatever_their_order() -> None:
    comparison = compare(paired_blocks(factor=2.0), STRUCTURED, variant="k7", baseline="baseline")
    assert comparison.pairs == 8
    assert comparison.itl_speedup is not None
    assert comparison.itl_speedup.value == pytest.approx(2.0)
    assert comparison.itl_speedup.low == pytest.approx(2.0)
    assert comparison.judgement == "pays"


def test_rounds_of_the_same_prompts_are_more_samples_but_no_more_prompts() -> None:
    comparison = compare(
        paired_blocks(factor=2.0, rounds=3), STRUCTURED, variant="k7", baseline="baseline"
    )
    assert comparison.itl_speedup is not None
    assert comparison.itl_speedup.samples == 24
    assert comparison.itl_speedup.prompts == 8


def test_five_prompts_repeated_for_ever_are_inconclusive() -> None:
    comparison = compare(
        paired_blocks(factor=2.0, prompts=5, rounds=9),
        STRUCTURED,
        variant="k7",
        baseline="baseline",
    )
    assert comparison.judgement == "inconclusive"
    assert comparison.reason == "5 prompts are too few for a 95% interval"


def test_a_prompt_sent_twice_is_paired_with_its_own_repetition() -> None:
    records = [make_record(prompt_id="p", inter_token_latency_s=v) for v in (0.01, 0.02)]
    blocks = [
        make_block(variant="baseline", requests=tuple(records)),
        make_block(variant="k7", requests=tuple(records)),
    ]
    comparison = compare(blocks, STRUCTURED, variant="k7", baseline="baseline")
    assert comparison.pairs == 2
    assert comparison.itl_speedup is not None
    assert comparison.itl_speedup.value == pytest.approx(1.0)


def test_failed_and_excluded_requests_leave_their_pair_and_are_counted() -> None:
    blocks = paired_blocks(factor=2.0)
    failed = make_record(prompt_id="p0", error_code=500, inter_token_latency_s=None)
    excluded = make_record(prompt_id="p1", inter_token_latency_s=9.0, excluded="waited")
    kept = [r for r in blocks[1].requests if r.prompt_id not in ("p0", "p1")]
    blocks[1] = make_block(variant="k7", requests=(failed, excluded, *kept))

    comparison = compare(blocks, STRUCTURED, variant="k7", baseline="baseline")
    summary = summarize(blocks, STRUCTURED, "k7")

    assert comparison.pairs == 6
    assert comparison.itl_speedup is not None
    assert comparison.itl_speedup.value == pytest.approx(2.0)
    assert (summary.requests, summary.failed, summary.excluded) == (8, 1, 1)
    assert summary.value(INTER_TOKEN_LATENCY) == pytest.approx(
        statistics.median(r.inter_token_latency_s for r in kept if r.inter_token_latency_s)
    )


def test_too_many_excluded_samples_refuse_a_verdict() -> None:
    blocks = paired_blocks(factor=2.0, prompts=12)
    records = list(blocks[1].requests)
    waited = [
        make_record(prompt_id=r.prompt_id, excluded="waited") if i < 3 else r
        for i, r in enumerate(records)
    ]
    blocks[1] = make_block(variant="k7", requests=tuple(waited))

    comparison = compare(blocks, STRUCTURED, variant="k7", baseline="baseline")

    assert comparison.judgement == "inconclusive"
    assert "25% of a variant's samples are excluded" in comparison.reason


@pytest.mark.parametrize(
    ("shift_s", "unchanged"), [(0.001, True), (0.2, False)], ids=["1 ms of 250", "200 ms of 250"]
)
def test_ttft_is_unchanged_only_when_that_is_shown(shift_s: float, unchanged: bool) -> None:
    plain = [make_record(prompt_id=f"p{i}", ttft_s=0.25) for i in range(8)]
    drafted = [make_record(prompt_id=f"p{i}", ttft_s=0.25 + shift_s) for i in range(8)]
    blocks = [
        make_block(variant="baseline", requests=tuple(plain)),
        make_block(variant="k7", requests=tuple(drafted)),
    ]
    comparison = compare(blocks, STRUCTURED, variant="k7", baseline="baseline")
    assert comparison.ttft_unchanged is unchanged
    assert comparison.ttft_difference_s is not None
    assert comparison.ttft_difference_s.value == pytest.approx(shift_s)


def test_outputs_that_differ_are_counted() -> None:
    plain = [make_record(prompt_id=f"p{i}", output_sha256="a" * 64) for i in range(8)]
    drafted = [make_record(prompt_id=f"p{i}", output_sha256="ab"[i % 2] * 64) for i in range(8)]
    blocks = [
        make_block(variant="baseline", requests=tuple(plain)),
        make_block(variant="k7", requests=tuple(drafted)),
    ]
    comparison = compare(blocks, STRUCTURED, variant="k7", baseline="baseline")
    assert comparison.identical_share == pytest.approx(0.5)


def test_outputs_without_a_text_are_not_the_same() -> None:
    nothing = hashlib.sha256(b"").hexdigest()
    requests = tuple(make_record(prompt_id=f"p{i}", output_sha256=nothing) for i in range(8))
    blocks = [make_block(variant=name, requests=requests) for name in ("baseline", "k7")]
    comparison = compare(blocks, STRUCTURED, variant="k7", baseline="baseline")
    assert comparison.identical_share == 0.0


def test_loads_are_judged_apart() -> None:
    other = PoissonLoad(requests_per_second=2.0)
    blocks = [make_block(variant="baseline"), make_block(variant="baseline", load=other)]
    assert [group.label for group in groups_of(blocks)] == ["structured at c4", "structured at p2"]


def test_nothing_measured_gives_no_figures_rather_than_zero() -> None:
    summary = summarize([], STRUCTURED, "k7")
    assert summary.requests == 0
    assert summary.figures == {}


def test_cost_is_the_slots_part_of_the_node_over_its_throughput() -> None:
    price = make_price(usd_per_node_hour=8.64, node_shares={"k7": 0.5})
    # Half of 8.64 USD an hour is 0.0012 USD a second; at 100 tokens/s a million takes 10,000 s.
    assert usd_per_million_tokens(price, "k7", 100.0) == pytest.approx(12.0)
    assert usd_per_million_tokens(price, "k7", None) is None
    assert usd_per_million_tokens(None, "k7", 100.0) is None
