"""Verdicts that failed requests or latency limits prevent, highest request rates, and goodput."""

from dataclasses import replace
from typing import Any

import pytest

from draftworth.analysis.limits import (
    RateBounds,
    goodput,
    keeps,
    limit_check,
    rate_bounds,
    why_not_comparable,
)
from draftworth.analysis.pairing import Traffic
from draftworth.records.load_shapes import ConcurrencyLoad, PoissonLoad
from draftworth.records.results import BlockResult, Limits, RequestRecord
from draftworth.report.contents import document_of
from draftworth.report.reason_sentences import latency_words, not_comparable_words
from tests.draftworth.report.runs import make_facts, make_run
from tests.support.blocks import each_request, make_block, make_failed_record, make_record
from tests.support.present import present

TRAFFIC = Traffic(weights={"structured": 1.0}, load=ConcurrencyLoad(concurrency=4))
SIDES = ("baseline", "k7")


def why(blocks: list[BlockResult], limits: Limits) -> str:
    doubt = why_not_comparable(blocks, TRAFFIC, limits, SIDES)
    return not_comparable_words(doubt) if doubt else ""


def late(index: int) -> RequestRecord:
    return make_failed_record(
        index, error_code=-2, error_msg="no end within 300 s", timed_out_after_s=300.0
    )


def blocks_of(
    *, failed: dict[str, int], requests: int = 100, timed_out: bool = False
) -> list[BlockResult]:
    fail = late if timed_out else make_failed_record
    return [
        make_block(
            variant=side,
            requests=tuple(
                fail(i) if i < failed.get(side, 0) else make_record(i) for i in range(requests)
            ),
        )
        for side in SIDES
    ]


@pytest.mark.parametrize(
    ("failed", "reason"),
    [
        ({}, ""),
        ({"baseline": 2, "k7": 2}, ""),
        (
            {"k7": 78},
            "78 of 100 requests of k7 in structured at 4 requests at a time failed (at most 2.0%)",
        ),
        ({"baseline": 3}, "3 of 100 requests of baseline"),
    ],
)
def test_failures_above_the_limit_leave_no_verdict(failed: dict[str, int], reason: str) -> None:
    words = why(blocks_of(failed=failed), Limits())
    assert words.startswith(reason)
    assert bool(words) is bool(reason)


def test_a_stated_limit_replaces_two_per_cent() -> None:
    blocks = blocks_of(failed={"baseline": 9, "k7": 9})
    assert not why_not_comparable(blocks, TRAFFIC, Limits(failed_share=0.1), SIDES)
    assert why_not_comparable(blocks, TRAFFIC, Limits(failed_share=0.05), SIDES)


def test_unequal_shares_of_failures_leave_no_verdict() -> None:
    allowed = Limits(failed_share=0.2)
    unequal = blocks_of(failed={"k7": 9})
    assert "failed unequally: 0 of 100 of baseline and 9 of 100 of k7" in why(unequal, allowed)
    near = blocks_of(failed={"baseline": 6, "k7": 9})
    assert not why_not_comparable(near, TRAFFIC, allowed, SIDES)


def test_a_side_not_measured_has_failed_nothing() -> None:
    plain, _ = blocks_of(failed={"baseline": 1})
    assert why_not_comparable([plain], TRAFFIC, Limits(), SIDES) is None


def test_time_outs_are_named_as_such() -> None:
    blocks = blocks_of(failed={"k7": 50}, timed_out=True)
    assert "failed, 50 of them by time-out" in why(blocks, Limits())


def spaced(variant: str, round_number: int, *, late_requests: int = 0) -> BlockResult:
    """Return a block with TTFTs of 200 to 300 ms, the same in every block."""
    requests = [make_record(i, ttft_s=0.2 + i / 1000) for i in range(100 - late_requests)]
    return make_block(
        variant=variant,
        round=round_number,
        requests=(*requests, *(late(i) for i in range(late_requests))),
    )


@pytest.mark.parametrize(
    ("limit_s", "kept", "sentence"),
    [
        (0.35, True, ""),
        (0.25, False, "TTFT p95 of k7 in structured at 4 requests at a time is 29"),
        (0.295, None, "measure more requests"),
    ],
)
def test_a_limit_is_kept_broken_or_open(limit_s: float, kept: bool | None, sentence: str) -> None:
    blocks = [spaced("k7", number) for number in range(1, 5)]
    check = limit_check(blocks, TRAFFIC, Limits(ttft_p95_s=limit_s), "k7")
    assert check.kept is kept
    assert sentence in (latency_words(check.latency) if check.latency else "")


def test_a_timed_out_request_counts_with_its_wait() -> None:
    blocks = [spaced("k7", number, late_requests=10) for number in range(1, 5)]
    assert limit_check(blocks, TRAFFIC, Limits(e2e_p95_s=10.0), "k7").kept is False
    without = [spaced("k7", number) for number in range(1, 5)]
    assert limit_check(without, TRAFFIC, Limits(e2e_p95_s=10.0), "k7").kept is True


def test_few_requests_do_not_show_a_tail() -> None:
    check = limit_check([make_block(variant="k7")], TRAFFIC, Limits(ttft_p95_s=9.0), "k7")
    assert check.kept is None
    assert "some 100 or more would" in latency_words(present(check.latency))


def test_a_limit_on_unmeasured_figures_is_open() -> None:
    block = make_block(variant="k7", requests=(make_record(inter_token_latency_s=None),))
    check = limit_check([block], TRAFFIC, Limits(itl_p95_s=9.0), "k7")
    assert (check.kept, "was not measured" in latency_words(present(check.latency))) == (None, True)


def test_the_highest_rate_is_below_the_first_failing() -> None:
    """Rates above the lowest one that breaks the limits are ignored, even if they keep them."""

    def at(rate: float, add_s: float, warmup: int = 32) -> list[BlockResult]:
        load = PoissonLoad(requests_per_second=rate)
        blocks = [spaced("k7", number) for number in range(1, 5)]
        return [
            replace(
                each_request(block, lambda r: replace(r, ttft_s=(r.ttft_s or 0) + add_s)),
                load=load,
                warmup_requests=warmup,
            )
            for block in blocks
        ]

    limits, weights = Limits(ttft_p95_s=0.35), {"structured": 1.0}
    blocks = [*at(8.0, 0.0), *at(1.0, 0.0), *at(2.0, 0.0), *at(4.0, 1.0)]
    bounds = rate_bounds(blocks, weights, limits, variant="k7", input_tokens=None)
    two, four = (PoissonLoad(requests_per_second=rate) for rate in (2.0, 4.0))
    assert bounds == RateBounds(variant="k7", input_tokens=None, kept=two, broken=four)
    slow = rate_bounds(at(1.0, 1.0), weights, limits, variant="k7", input_tokens=None)
    assert (slow.kept, slow.broken) == (None, PoissonLoad(requests_per_second=1.0))
    longer = rate_bounds(blocks, weights, limits, variant="k7", input_tokens=8000)
    assert (longer.kept, longer.broken) == (None, None)
    blocks = [*at(1.0, 0.0), *at(2.0, 0.0, warmup=31), *at(4.0, 1.0, warmup=31)]
    short = rate_bounds(blocks, weights, limits, variant="k7", input_tokens=None)
    one = PoissonLoad(requests_per_second=1.0)
    assert (short.kept, short.broken, present(short.warmup).sent) == (one, four, 31)


LIMITS = Limits(e2e_p95_s=2.0)


def record(number: int, *, seconds: float, tokens: int = 100) -> RequestRecord:
    return make_record(
        number,
        request_id=f"run/1-{number}",
        end_to_end_latency_s=seconds,
        number_output_tokens=tokens,
    )


def block(*records: RequestRecord, prompt_class: str = "structured") -> BlockResult:
    return make_block(
        variant="k7", prompt_class=prompt_class, load=TRAFFIC.load, requests=records, round=1
    )


TIMED_OUT = replace(
    record(2, seconds=1.0),
    error_code=-2,
    error_msg="no end",
    end_to_end_latency_s=None,
    timed_out_after_s=5.0,
)
EXCLUDED = replace(record(2, seconds=9.0), excluded="the client waited for a core")


@pytest.mark.parametrize(
    ("more_records", "kept", "requests", "server_s"),
    [
        # Requests that take 6 seconds in all, with four in flight, take 1.5 seconds of the server.
        ((record(2, seconds=3.0), record(3, seconds=2.0)), 2, 3, 1.5),
        ((TIMED_OUT,), 1, 2, 1.5),
        ((EXCLUDED,), 1, 1, 0.25),
    ],
    ids=["too late", "timed out", "the client was too late"],
)
def test_late_requests_are_no_goodput_but_take_time(
    more_records: tuple[RequestRecord, ...], kept: int, requests: int, server_s: float
) -> None:
    rates = present(goodput([block(record(1, seconds=1.0), *more_records)], TRAFFIC, LIMITS, "k7"))
    assert (rates.kept, rates.requests) == (kept, requests)
    assert rates.requests_per_s == pytest.approx(kept / server_s)
    assert rates.tokens_per_s == pytest.approx(100 * kept / server_s)


def test_classes_have_their_parts_of_the_tokens() -> None:
    mix = Traffic(weights={"structured": 0.75, "open_ended": 0.25}, load=TRAFFIC.load)
    slow = block(record(9, seconds=4.0), prompt_class="open_ended")
    rates = present(goodput([block(record(1, seconds=1.0)), slow], mix, LIMITS, "k7"))

    # On average, a token takes 0.75 x 2.5 ms + 0.25 x 10 ms = 4.375 ms of the server. Only
    # `structured`, with three of four tokens, keeps the limit.
    assert rates.tokens_per_s == pytest.approx(0.75 / 0.004375)
    assert rates.requests_per_s == pytest.approx(0.75 / 100 / 0.004375)


@pytest.mark.parametrize(
    ("limits", "changed", "expected"),
    [
        (Limits(ttft_p95_s=0.3), {"ttft_s": 0.3}, True),
        (Limits(ttft_p95_s=0.3), {"ttft_s": 0.31}, False),
        (Limits(ttft_p95_s=0.3), {"ttft_s": None}, False),
        (Limits(itl_p95_s=0.1), {"inter_token_latency_s": None}, False),
        (Limits(itl_p95_s=0.1), {"inter_token_latency_s": None, "number_output_tokens": 1}, True),
        (Limits(ttft_p95_s=1.0, e2e_p95_s=0.5), {"ttft_s": 0.1}, False),
    ],
)
def test_a_request_counts_only_within_every_limit(
    limits: Limits, changed: dict[str, Any], *, expected: bool
) -> None:
    assert keeps(replace(record(1, seconds=1.0), **changed), limits) is expected


def test_arrivals_at_rates_have_their_serving_time() -> None:
    load = PoissonLoad(requests_per_second=1.0)
    measured = replace(block(record(1, seconds=1.0)), load=load)
    rates = present(goodput([measured], replace(TRAFFIC, load=load), LIMITS, "k7"))

    assert rates.requests_per_s == pytest.approx(1 / measured.output_seconds)


def test_the_report_has_goodput_where_limits_are() -> None:
    headings = [
        table.headings
        for limits in (Limits(), LIMITS)
        for table in document_of(make_facts(make_run(limits=limits))).sections[0].tables
    ]
    assert ["goodput requests/s" in h for h in headings].count(True) == 1
