"""The result format: what is written is read, what is not a result file is refused by key."""

import re

import pytest

from draftworth.records import results
from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.records.load_shapes import ConcurrencyLoad, Load, PoissonLoad
from draftworth.untrusted import one_line
from tests.support.blocks import make_block, make_failed_record, make_record


def test_not_a_number_is_refused_in_both_directions() -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        dump_record(results.TimeAccount(measuring_s=float("nan")))
    data = dump_record(make_block()).replace(b'"ttft_s":0.25,', b'"ttft_s":NaN,')
    assert b"NaN" in data
    with pytest.raises(RecordError, match="NaN"):
        load_record(results.BlockResult, data)


TWO_DONE_AND_A_FAILED_ONE = (
    make_record(0, started_at_unix_s=100.0, end_to_end_latency_s=2.0, number_output_tokens=50),
    make_record(1, started_at_unix_s=101.0, end_to_end_latency_s=3.0, number_output_tokens=70),
    make_failed_record(2, started_at_unix_s=200.0),
)
LATE = make_failed_record(3, error_code=-2, timed_out_after_s=5.0, number_output_tokens=30)


@pytest.mark.parametrize(
    ("requests", "load", "throughput"),
    [
        # At random times: all tokens from the first start to the last end.
        (TWO_DONE_AND_A_FAILED_ONE, PoissonLoad(requests_per_second=1.0), 120 / 4),
        # With four in flight each request took a quarter of the server.
        (TWO_DONE_AND_A_FAILED_ONE, ConcurrencyLoad(concurrency=4), 4 * 120 / (2 + 3)),
        # Failed requests took of the server, and gave no tokens.
        (
            (*TWO_DONE_AND_A_FAILED_ONE, LATE, make_failed_record(4, failed_after_s=6.0)),
            ConcurrencyLoad(concurrency=4),
            4 * 120 / (2 + 3 + 5 + 6),
        ),
        ((make_failed_record(),), ConcurrencyLoad(concurrency=4), None),
    ],
)
def test_throughput_is_tokens_in_the_servers_time(
    requests: tuple[results.RequestRecord, ...], load: Load, throughput: float | None
) -> None:
    block = make_block(requests=requests, load=load)
    assert block.output_throughput_token_per_s == pytest.approx(throughput)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 1e300])
@pytest.mark.parametrize("field", ["ttft_s", "tokens_per_step", "started_at_unix_s"])
def test_such_figures_are_not_written_either(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field}: given {re.escape(str(value))}"):
        make_record(0, **{field: value})


def test_no_time_and_no_tokens_are_figures() -> None:
    record = make_record(ttft_s=0.0, number_output_tokens=0, chunks=0, started_at_unix_s=0.0)
    assert load_record(results.BlockResult, dump_record(make_block(requests=(record,))))


def test_the_largest_block_is_within_the_read_limit() -> None:
    last = results.MAX_REQUESTS_PER_BLOCK - 1
    longest = make_failed_record(last, error_msg=one_line("🚀" * 500))
    one, two = (len(dump_record(make_block(requests=(longest,) * count))) for count in (1, 2))
    assert one + last * (two - one) <= results.RESULT_LIMIT_BYTES
