"""The verdict on a comparison: which pairs count, the intervals, and the judgement."""

import hashlib
import math
import re
import statistics
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from draftworth.analysis import ratios
from draftworth.analysis.doubts import LatencyAtLimit
from draftworth.analysis.limits import LimitCheck
from draftworth.analysis.pairing import Pair, Traffic, paired
from draftworth.analysis.statistics import Estimate, quantile_estimate
from draftworth.analysis.summary import Group, summarize
from draftworth.decision.reasons import LimitDecides
from draftworth.decision.verdict import Comparison, clears, compare, hides_in_floor, judge
from draftworth.metrics.definitions import INTER_TOKEN_LATENCY, usd_per_million_tokens
from draftworth.records.judgement import Judgement
from draftworth.records.load_shapes import ConcurrencyLoad, PoissonLoad
from draftworth.records.results import BlockResult, Limits
from draftworth.report.reason_sentences import reason_words, words_of
from tests.support.blocks import each_request, make_block, make_price, make_record
from tests.support.present import present

LOAD = ConcurrencyLoad(concurrency=4)
STRUCTURED = Group(prompt_class="structured", load=LOAD)
TRAFFIC = Traffic.of(STRUCTURED)
KEPT = LimitCheck(kept=True)


def estimate(value: float, low: float | None, high: float | None) -> Estimate:
    return Estimate(value=value, low=low, high=high, prompts=8, blocks=2, samples=16)


def compared(blocks: list[BlockResult], **overrides: Any) -> Comparison:
    fields: dict[str, Any] = {"variant": "k7", "baseline": "baseline", **overrides}
    return compare(blocks, fields.pop("traffic", TRAFFIC), **fields)


@pytest.mark.parametrize(
    ("low", "high", "judgement"),
    [
        (0.4, 0.6, "cheaper per token"),
        (0.4, 0.953, "inconclusive"),
        (1.06, 2.2, "more expensive"),
        (0.97, 1.03, "no difference"),
        (0.8, 1.3, "inconclusive"),
        (1.01, 1.4, "inconclusive"),
        (0.7, 0.99, "inconclusive"),
    ],
)
def test_judgements(low: float, high: float, judgement: str) -> None:
    verdict, reason = judge(estimate((low + high) / 2, low, high), KEPT)
    assert verdict == judgement
    is_near_break_even = judgement == "inconclusive" and not low <= 1 <= high
    assert words_of(reason).endswith("and up to 5% counts as no difference") == is_near_break_even


@given(low=st.floats(0.01, 4.0), factor=st.floats(1.0, 1.5))
@example(low=1.157, factor=1.052)  # +15.7% to +21.7% was once reported as `at least 16% more`
@example(low=1.06, factor=1.0)
def test_a_bound_is_rounded_towards_zero(low: float, factor: float) -> None:
    high = low * factor
    reason = words_of(judge(estimate(low, low, high), KEPT)[1])
    matched = re.search(r"at least (\d+)% (less|more)", reason)
    if matched:
        bound = 1 - Fraction(high) if matched[2] == "less" else Fraction(low) - 1
        assert 0 <= 100 * bound - int(matched[1]) < 1
    else:
        assert low <= 1.05
        assert high >= 1 / 1.05


@pytest.mark.parametrize("ratio", [None, estimate(2.0, None, None)])
def test_without_an_interval_the_verdict_is_inconclusive(ratio: Estimate | None) -> None:
    assert judge(ratio, KEPT)[0] == "inconclusive"


@pytest.mark.parametrize(
    ("kept", "ratio", "judgement"),
    [
        (False, 0.5, "outside the limits"),
        (None, 0.5, "inconclusive"),
        (None, 1.5, "more expensive"),
        (True, 0.5, "cheaper per token"),
    ],
)
def test_a_verdict_holds_only_inside_the_limits(
    kept: bool | None, ratio: float, judgement: str
) -> None:
    latency = LatencyAtLimit(
        latency="TTFT", group=STRUCTURED, variant="k7", p95=estimate(0.812, 0.7, 0.9), limit_s=0.5
    )
    check = LimitCheck(kept=kept, latency=None if kept else latency)
    verdict, reason = judge(estimate(ratio, ratio - 0.01, ratio + 0.01), check)
    assert verdict == judgement
    assert (reason == LimitDecides(latency=latency)) is (not kept and judgement != "more expensive")


def paired_blocks(*, factor: float, prompts: int = 8, rounds: int = 2) -> list[BlockResult]:
    """Return blocks of baseline and variant, where the variant is `factor` times as fast.

    prompts: the number of prompts in each block.
    """
    blocks = []
    for round_number in range(1, rounds + 1):
        for variant, faster in (("baseline", 1.0), ("k7", factor)):
            records = [
                make_record(
                    prompt_id=f"p{i}",
                    inter_token_latency_s=(0.01 + i / 1e3) / faster,
                    end_to_end_latency_s=(1 + i / 10) / faster,
                )
                for i in range(prompts)
            ]
            if variant == "k7":
                records.reverse()
            blocks.append(make_block(variant=variant, round=round_number, requests=tuple(records)))
    return blocks


def test_pairs_are_matched_by_prompt_whatever_their_order() -> None:
    comparison = compared(paired_blocks(factor=2.0))
    assert comparison.pairs == 16
    assert present(comparison.cost_ratio).value == pytest.approx(0.5)
    assert present(comparison.cost_ratio).low == pytest.approx(0.5)
    assert present(comparison.itl_speedup).value == pytest.approx(2.0)
    assert comparison.judgement == "cheaper per token"
    assert reason_words(comparison) == "a token costs at least 50% less in this run"


def test_five_prompts_repeated_for_ever_are_inconclusive() -> None:
    comparison = compared(paired_blocks(factor=2.0, prompts=5, rounds=9))
    assert comparison.judgement == "inconclusive"
    assert "too few prompts or rounds: it takes 6 prompts" in reason_words(comparison)


def test_a_repeated_prompt_is_paired_with_its_repetition() -> None:
    records = [make_record(prompt_id="p", inter_token_latency_s=v) for v in (0.01, 0.02)]
    blocks = [
        make_block(variant="baseline", requests=tuple(records)),
        make_block(variant="k7", requests=tuple(records)),
    ]
    comparison = compared(blocks)
    assert comparison.pairs == 2
    assert present(comparison.itl_speedup).value == pytest.approx(1.0)


def test_a_long_request_weighs_what_it_costs() -> None:
    """Seven short requests take half as long, and a long one takes twice as long.

    The median of their ratios would say that the variant is cheaper.
    """

    def block(variant: str, number: int, seconds: list[float]) -> BlockResult:
        tokens = [10] * 7 + [1000 if variant == "baseline" else 990]
        records = (
            make_record(prompt_id=f"p{i}", end_to_end_latency_s=s, number_output_tokens=n)
            for i, (s, n) in enumerate(zip(seconds, tokens, strict=True))
        )
        return make_block(variant=variant, round=number, requests=tuple(records))

    blocks = []
    for number in (1, 2):
        blocks.append(block("baseline", number, [0.2] * 7 + [20.0]))
        blocks.append(block("k7", number, [0.1] * 7 + [40.0]))
    ratio = present(compared(blocks).cost_ratio)
    assert ratio.value == pytest.approx((40.7 / 1060) / (21.4 / 1070))


def test_a_latency_of_zero_is_a_latency() -> None:
    """An ITL of 0 (all tokens came at once) is a value, not a missing one.

    If it were left out, the variant would look slower than it is.
    """
    blocks = paired_blocks(factor=1.0)
    blocks[1] = each_request(blocks[1], lambda r: replace(r, inter_token_latency_s=0.0))
    speedup = present(compared(blocks).itl_speedup)
    assert speedup.value == pytest.approx(2.0)
    assert speedup.samples == 16


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_a_sum_of_nothing_has_no_ratio(weight: float) -> None:
    """A run's file may be made by hand, with all weight on a class whose requests took no time."""
    zero = [
        replace(
            each_request(block, lambda r: replace(r, inter_token_latency_s=0.0)),
            prompt_class="instant",
        )
        for block in paired_blocks(factor=2.0)
    ]
    blocks = [*paired_blocks(factor=2.0), *zero]
    weights = {"structured": 1 - weight, "instant": weight}
    speedup = compared(blocks, traffic=Traffic(weights=weights, load=LOAD)).itl_speedup
    assert (speedup is None) is (weight == 1.0)


def test_a_node_share_of_zero_changes_nothing() -> None:
    price = make_price(node_shares={"baseline": 0.0, "k7": 0.5})
    ratio = present(compared(paired_blocks(factor=2.0), price=price).cost_ratio)
    assert ratio.value == pytest.approx(0.5)


def test_arrivals_at_rates_are_judged_by_limits() -> None:
    load = PoissonLoad(requests_per_second=2.0)
    blocks = [
        replace(b, load=load, warmup_requests=32) for b in paired_blocks(factor=2.0, prompts=60)
    ]
    traffic = Traffic(weights={"structured": 1.0}, load=load)
    without = compared(blocks, traffic=traffic)
    assert without.cost_ratio is None
    assert without.judgement == "inconclusive"
    assert "workload.limits" in reason_words(without)
    wide, tight = (
        compared(blocks, traffic=traffic, limits=Limits(ttft_p95_s=s)) for s in (0.5, 0.1)
    )
    assert (wide.judgement, tight.judgement) == ("within the limits", "outside the limits")


def test_a_short_warm_up_shows_no_kept_limit() -> None:
    """Latencies read too low after it, so a limit that is broken all the same is broken."""
    load = PoissonLoad(requests_per_second=2.0)
    blocks = [
        replace(b, load=load, warmup_requests=31) for b in paired_blocks(factor=2.0, prompts=60)
    ]
    traffic = Traffic(weights={"structured": 1.0}, load=load)
    wide, tight = (
        compared(blocks, traffic=traffic, limits=Limits(ttft_p95_s=s)) for s in (0.5, 0.1)
    )
    assert (wide.judgement, tight.judgement) == ("inconclusive", "outside the limits")
    assert "31 requests of warm-up" in reason_words(wide)
    assert "takes 32 or more" in reason_words(wide)


def test_failed_and_excluded_requests_leave_their_pair() -> None:
    blocks = paired_blocks(factor=2.0)
    failed = make_record(prompt_id="p0", error_code=500, inter_token_latency_s=None)
    excluded = make_record(prompt_id="p1", inter_token_latency_s=9.0, excluded="waited")
    kept = [r for r in blocks[1].requests if r.prompt_id not in ("p0", "p1")]
    blocks[1] = make_block(variant="k7", requests=(failed, excluded, *kept))

    comparison = compared(blocks)
    summary = summarize(blocks, STRUCTURED, "k7")

    assert comparison.pairs == 14
    assert present(comparison.itl_speedup).value == pytest.approx(2.0)
    assert present(comparison.cost_ratio).value == pytest.approx(0.5)
    assert (summary.requests, summary.failed, summary.excluded) == (16, 1, 1)
    assert summary.value(INTER_TOKEN_LATENCY) == pytest.approx(
        statistics.median(
            r.inter_token_latency_s for r in (*kept, *blocks[3].requests) if r.inter_token_latency_s
        )
    )


@pytest.mark.parametrize(
    ("lost", "ratio"),
    [
        # On each side, the requests of the fifteen other pairs take 19.9 s together.
        ({"failed_after_s": 0.5}, 1 + 0.5 / 19.9),
        ({"timed_out_after_s": 30.0}, 1 + 30.0 / 19.9),
        # Refusing the longest request at once saves nothing, as it has to be sent again.
        ({"failed_after_s": 0.0}, 1.0),
        # It is not known how long the failed request took, as in files of an earlier version.
        ({}, 1.0),
    ],
)
def test_a_failed_request_costs_the_time_taken(lost: dict[str, Any], ratio: float) -> None:
    blocks = paired_blocks(factor=1.0)
    failed = make_record(prompt_id="p7", error_code=500, **lost)
    kept = [r for r in blocks[1].requests if r.prompt_id != failed.prompt_id]
    blocks[1] = make_block(variant="k7", requests=(failed, *kept))
    assert present(compared(blocks).cost_ratio).value == pytest.approx(ratio)


def test_too_many_excluded_samples_refuse_a_verdict() -> None:
    blocks = paired_blocks(factor=2.0, prompts=12, rounds=1)
    records = list(blocks[1].requests)
    waited = [
        make_record(prompt_id=r.prompt_id, excluded="waited") if i < 3 else r
        for i, r in enumerate(records)
    ]
    blocks[1] = make_block(variant="k7", requests=tuple(waited))

    comparison = compared(blocks)

    assert comparison.judgement == "inconclusive"
    assert (
        "25% of the samples of k7 in structured at 4 requests at a time are excluded"
        in reason_words(comparison)
    )


def waiting(rounds: int, requests: int, ttft_s: Callable[[str, int], float]) -> list[BlockResult]:
    """Return blocks of baseline and variant with the given TTFTs.

    ttft_s: returns the TTFT in seconds of a variant's request with a given number.
    """
    return [
        make_block(
            variant=variant,
            round=number,
            requests=tuple(
                make_record(prompt_id=f"p{i}", ttft_s=ttft_s(variant, i)) for i in range(requests)
            ),
        )
        for number in range(1, rounds + 1)
        for variant in ("baseline", "k7")
    ]


@pytest.mark.parametrize(
    ("shift_s", "unchanged"), [(0.001, True), (0.2, False)], ids=["1 ms of 250", "200 ms of 250"]
)
def test_ttft_is_unchanged_only_when_that_is_shown(shift_s: float, unchanged: bool) -> None:
    added_s = {"baseline": 0.0, "k7": shift_s}
    comparison = compared(waiting(2, 32, lambda variant, _: 0.25 + added_s[variant]))
    assert comparison.ttft_unchanged is unchanged
    assert comparison.ttft_p95_unchanged is None, "64 requests show no tail"
    assert present(comparison.ttft_ratio).value == pytest.approx((0.25 + shift_s) / 0.25)
    few = compared(waiting(8, 31, lambda variant, _: 0.25 + added_s[variant]))
    assert few.ttft_unchanged is False, "a kind of prompt may be missing"


def test_a_tail_that_moves_alone_is_seen() -> None:
    """If one request in eight takes twice as long, the 95th percentile of the TTFT changes."""
    slow = {"baseline": 1.0, "k7": 2.0}
    blocks = waiting(6, 160, lambda v, i: (0.25 + i / 1e4) * (slow[v] if i % 8 == 0 else 1))
    comparison = compared(blocks)
    assert comparison.ttft_p95_unchanged is False
    same = compared([replace(b, variant=v) for b in blocks[::2] for v in ("baseline", "k7")])
    assert same.ttft_p95_unchanged is True


NO_TEXT = hashlib.sha256(b"").hexdigest()


@pytest.mark.parametrize(
    ("hashes", "sampled", "share", "count"),
    [
        (("a" * 64, "a" * 64), False, 1.0, 8),
        (("a" * 64, "b" * 64), False, 0.5, 8),
        # Two empty texts prove nothing: the text may be in a field of the answer that is not read.
        ((NO_TEXT, NO_TEXT), False, None, 0),
        (("a" * 64, "a" * 64), True, None, 0),
    ],
)
def test_greedy_outputs_with_a_text_are_compared(
    hashes: tuple[str, str], sampled: bool, share: float | None, count: int
) -> None:
    """Every other output of the variant has the second hash; all other outputs have the first."""
    plain = [make_record(prompt_id=f"p{i}", output_sha256=hashes[0]) for i in range(8)]
    drafted = [make_record(prompt_id=f"p{i}", output_sha256=hashes[i % 2]) for i in range(8)]
    blocks = [
        make_block(variant="baseline", requests=tuple(plain)),
        make_block(variant="k7", requests=tuple(drafted)),
    ]
    comparison = compared(blocks, sampled=sampled)
    assert (comparison.identical_share, comparison.compared_outputs) == (share, count)


def test_nothing_measured_gives_no_figures_rather_than_zero() -> None:
    summary = summarize([], STRUCTURED, "k7")
    assert summary.requests == 0
    assert summary.figures == {}


def test_cost_is_the_slots_share_over_throughput() -> None:
    price = make_price(usd_per_node_hour=8.64, node_shares={"k7": 0.5})
    # Half of 8.64 USD an hour is 0.0012 USD a second; at 100 tokens/s a million takes 10,000 s.
    assert usd_per_million_tokens(price, "k7", 100.0) == pytest.approx(12.0)
    assert usd_per_million_tokens(price, "k7", None) is None
    assert usd_per_million_tokens(None, "k7", 100.0) is None


@pytest.mark.parametrize(
    ("repetitions", "words"),
    [(1, " in this run"), (3, " in these 3 repetitions"), (4, "")],
)
def test_few_repetitions_speak_of_themselves_alone(repetitions: int, words: str) -> None:
    ratio = replace(estimate(0.5, 0.4, 0.6), repetitions=repetitions)
    _, reason = judge(ratio, LimitCheck(kept=True))
    assert words_of(reason) == f"a token costs at least 40% less{words}"


def ttft_pairs(*blocks: BlockResult) -> tuple[Pair, ...]:
    return paired(blocks, TRAFFIC, variant="k7", baseline="baseline")


def test_ratios_of_one_run_share_prompts_and_blocks() -> None:
    blocks = waiting(2, 8, lambda variant, i: 0.25 + (i / 100 if variant == "k7" else 0.0))
    slower = each_request(blocks[3], lambda r: replace(r, ttft_s=1.05 * present(r.ttft_s)))
    pairs = (ttft_pairs(*blocks), ttft_pairs(*blocks[:3], slower))
    ttft, runs = ratios.mean_of(attrgetter("ttft_s")), ("one", "other")
    even, uneven = (present(ratios.log_ratio_of_sums(p, TRAFFIC.weights, ttft)) for p in pairs)
    for shared in (even.over(even, runs=runs), uneven.beside(uneven)):
        assert shared.estimate().interval == pytest.approx((1.0, 1.0))
    assert present(uneven.over(uneven, runs=runs).estimate().relative_width) > 0.05


def test_repeated_rounds_leave_the_interval_of_prompts() -> None:
    logs = [0.1 + i / 50 for i in range(8)]
    blocks = waiting(9, 8, lambda variant, i: 0.25 * math.exp(logs[i] * (variant == "k7")))
    ratio = present(ratios.ratio_of_typical(ttft_pairs(*blocks), "ttft_s"))
    half = 2.365 * statistics.stdev(logs) / math.sqrt(8)  # Student's t, 7 degrees of freedom
    assert (ratio.value, ratio.samples) == pytest.approx((math.exp(statistics.fmean(logs)), 72))
    assert present(ratio.low) == pytest.approx(ratio.value * (1 - half), rel=0.01)


def test_a_ratio_of_quantiles_has_both_errors() -> None:
    pairs = ttft_pairs(*waiting(2, 60, lambda v, i: 1.0 + i / (100 if v == "k7" else 200)))
    plain = [pair.sample(present(pair.plain.ttft_s)) for pair in pairs]
    drafted = [pair.sample(present(pair.drafted.ttft_s)) for pair in pairs]
    ratio = present(ratios.ratio_of_quantiles(plain, drafted, 0.5, confidence=0.8))
    sides = [quantile_estimate(side, 0.5, confidence=0.8) for side in (plain, drafted)]
    both, *each = (math.log(present(e.high) / present(e.low)) for e in (ratio, *sides))
    assert max(each) < both < sum(each)
    assert ratios.ratio_of_quantiles(plain, [], 0.5, confidence=0.8) is None


def test_equal_costs_per_token_leave_no_error() -> None:
    requests = [(p.place, n) for n, p in enumerate(ttft_pairs(*waiting(2, 8, lambda *_: 1.0)), 1)]
    cost = present(ratios.log_of_sums(requests, lambda tokens: (tokens / 100, tokens))).estimate()
    assert (cost.low, cost.value, cost.high) == pytest.approx((0.01, 0.01, 0.01))


AROUND_1, BELOW, ABOVE = (0.95, 1.05), (0.67, 0.75), (1.05, 1.15)


@pytest.mark.parametrize(
    ("judgement", "low", "high", "floor", "clear", "decided"),
    [
        ("cheaper per token", 0.7, 0.9, AROUND_1, True, True),
        ("cheaper per token", 0.7, 0.9, (0.85, 0.95), False, False),
        # A wide noise floor that contains 1 shows no difference between the two servers: the report
        # says that it is not cleared, but the verdict stands.
        ("cheaper per token", 0.7, 0.9, (0.85, 1.15), False, True),
        ("cheaper per token", 0.7, 0.96, AROUND_1, False, True),
        # The second server without speculation is even cheaper than the variant.
        ("cheaper per token", 0.8, 0.88, BELOW, False, False),
        ("cheaper per token", 0.8, 0.88, ABOVE, True, True),
        ("more expensive", 1.1, 1.2, AROUND_1, True, True),
        ("more expensive", 1.1, 1.2, (1.3, 1.4), False, False),
        ("more expensive", 1.1, 1.2, BELOW, True, True),
        ("more expensive", 1.1, 1.3, ABOVE, False, False),
        ("more expensive", 1.2, 1.3, ABOVE, True, True),
        ("no difference", 0.97, 1.03, AROUND_1, None, True),
        ("no difference", 0.97, 1.03, (1.01, 1.05), None, True),
        ("cheaper per token", 0.7, 0.9, (None, None), None, True),
        ("cheaper per token", None, None, AROUND_1, None, True),
    ],
)
def test_what_equal_servers_show_is_no_gain(
    judgement: Judgement,
    low: float | None,
    high: float | None,
    floor: tuple[float | None, float | None],
    clear: bool | None,
    decided: bool,
) -> None:
    assert clears(judgement, estimate(1.0, low, high), estimate(1.0, *floor)) is clear
    assert clears(judgement, estimate(1.0, low, high), None) is None
    assert hides_in_floor(judgement, estimate(1.0, low, high), estimate(1.0, *floor)) is not decided
