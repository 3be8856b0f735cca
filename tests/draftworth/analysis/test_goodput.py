"""Goodput by hand: requests that keep every limit, of one server at its load."""

from dataclasses import replace
from typing import Any

import pytest

from draftworth.analysis.limits import goodput, keeps
from draftworth.analysis.pairing import Traffic
from draftworth.records.load import ConcurrencyLoad, PoissonLoad
from draftworth.records.results import BlockResult, Limits, RequestRecord
from draftworth.report.contents import document_of
from tests.draftworth.report.runs import make_facts, make_run
from tests.support.blocks import make_block, make_record
from tests.support.present import present

LOAD = ConcurrencyLoad(concurrency=4)
TRAFFIC = Traffic(weights={"structured": 1.0}, load=LOAD)
LIMITS = Limits(e2e_p95_s=2.0)


def record(number: int, *, seconds: float, tokens: int = 100) -> RequestRecord:
    return make_record(
        number,
        request_id=f"run/1-{number}",
        end_to_end_latency_s=seconds,
        number_output_tokens=tokens,
    )


def block(*records: RequestRecord, prompt_class: str = "structured") -> BlockResult:
    return make_block(variant="k7", prompt_class=prompt_class, load=LOAD, requests=records, round=1)


def test_what_is_too_late_is_no_goodput_and_takes_its_time() -> None:
    blocks = [block(record(1, seconds=1.0), record(2, seconds=3.0), record(3, seconds=2.0))]
    found = present(goodput(blocks, TRAFFIC, LIMITS, "k7"))

    # Six seconds with four in flight: 1.5 seconds of the server.
    assert (found.kept, found.requests) == (2, 3)
    assert found.requests_per_s == pytest.approx(2 / 1.5)
    assert found.tokens_per_s == pytest.approx(200 / 1.5)


def test_a_request_that_timed_out_takes_its_time_and_gives_nothing() -> None:
    late = replace(
        record(2, seconds=1.0),
        error_code=-2,
        error_msg="no end",
        end_to_end_latency_s=None,
        timed_out_after_s=5.0,
    )
    found = present(goodput([block(record(1, seconds=1.0), late)], TRAFFIC, LIMITS, "k7"))

    assert (found.kept, found.requests) == (1, 2)
    assert found.tokens_per_s == pytest.approx(100 / 1.5)


def test_what_the_client_was_too_late_for_says_nothing() -> None:
    excluded = replace(record(2, seconds=9.0), excluded="the client waited for a core")
    found = present(goodput([block(record(1, seconds=1.0), excluded)], TRAFFIC, LIMITS, "k7"))

    assert (found.kept, found.requests) == (1, 1)
    assert found.requests_per_s == pytest.approx(4.0)


def test_classes_have_their_parts_of_the_tokens() -> None:
    mix = Traffic(weights={"structured": 0.75, "open_ended": 0.25}, load=LOAD)
    slow = block(record(9, seconds=4.0), prompt_class="open_ended")
    found = present(goodput([block(record(1, seconds=1.0)), slow], mix, LIMITS, "k7"))

    # A token takes 0.75 x 2.5 ms + 0.25 x 10 ms of the server; three of four keep the limit.
    assert found.tokens_per_s == pytest.approx(0.75 / 0.004375)
    assert found.requests_per_s == pytest.approx(0.75 / 100 / 0.004375)


@pytest.mark.parametrize(
    ("limits", "changed", "expected"),
    [
        (Limits(ttft_p95_s=0.3), {"ttft_s": 0.3}, True),
        (Limits(ttft_p95_s=0.3), {"ttft_s": 0.31}, False),
        (Limits(ttft_p95_s=0.3), {"ttft_s": None}, False),
        (Limits(itl_p95_s=0.1), {"inter_token_latency_s": None}, False),
        (
            Limits(itl_p95_s=0.1),
            {"inter_token_latency_s": None, "number_output_tokens": 1},
            True,
        ),
        (Limits(ttft_p95_s=1.0, e2e_p95_s=0.5), {"ttft_s": 0.1}, False),
    ],
)
def test_a_request_counts_only_if_it_keeps_every_limit(
    limits: Limits, changed: dict[str, Any], *, expected: bool
) -> None:
    assert keeps(replace(record(1, seconds=1.0), **changed), limits) is expected


def test_without_a_limit_there_is_no_goodput() -> None:
    assert goodput([block(record(1, seconds=1.0))], TRAFFIC, Limits(), "k7") is None


def test_arrivals_at_a_rate_have_the_time_in_which_they_were_served() -> None:
    load = PoissonLoad(requests_per_second=1.0)
    measured = replace(block(record(1, seconds=1.0)), load=load)
    found = present(goodput([measured], replace(TRAFFIC, load=load), LIMITS, "k7"))

    assert found.requests_per_s == pytest.approx(1 / measured.output_seconds)


def test_the_report_shows_it_beside_the_cost_where_there_are_limits() -> None:
    headings = [
        table.headings
        for limits in (Limits(), LIMITS)
        for table in document_of(make_facts(make_run(limits=limits))).sections[0].tables
    ]
    assert ["goodput requests/s" in h for h in headings].count(True) == 1
