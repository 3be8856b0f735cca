"""Two sides that were started several times, and what their starts say of a change."""

import math
import statistics
from dataclasses import replace

import pytest

from draftworth.analysis.between_starts import Side, cost_change
from draftworth.analysis.pairing import Traffic
from draftworth.analysis.student_t import student_t
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.results import BlockResult
from tests.support.blocks import make_block, make_record
from tests.support.present import present

TRAFFIC = Traffic(weights={"structured": 1.0}, load=ConcurrencyLoad(concurrency=4))


def side(name: str, *seconds: float, usd_per_second: float = 1.0, rounds: int = 2) -> Side:
    """A side whose starts answer in so many seconds; eight prompts differ by much more."""
    return Side(
        name=name,
        variant="measured",
        usd_per_second=usd_per_second,
        blocks=[
            block(f"{name}-{start}", number, value)
            for start, value in enumerate(seconds)
            for number in range(1, rounds + 1)
        ],
    )


def block(run_id: str, number: int, seconds: float) -> BlockResult:
    records = (
        make_record(index, end_to_end_latency_s=seconds * (1 + index / 4)) for index in range(8)
    )
    return make_block(run_id=run_id, variant="measured", round=number, requests=tuple(records))


def test_one_start_is_judged_by_four_others() -> None:
    before = (1.0, 1.01, 0.99, 1.02)
    change = present(cost_change(side("a", *before), side("b", 1.05), TRAFFIC))
    mean = statistics.fmean(before)
    deviation = statistics.stdev(map(math.log, before))
    expected = student_t(0.975, 3) * deviation * math.sqrt(1 + 1 / 4)
    assert math.exp(change.log_ratio) == pytest.approx(1.05 / mean)
    assert present(change.half_width(0.95)) == pytest.approx(expected)
    assert change.starts == (4, 1)


def test_equal_starts_leave_the_error_of_requests() -> None:
    change = present(cost_change(side("a", 1.0, 1.0, 1.0, 1.0), side("b", 1.0), TRAFFIC))
    assert present(change.half_width(0.95)) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("before", "after"), [(3, 1), (1, 3), (2, 2)])
def test_few_starts_give_no_interval(before: int, after: int) -> None:
    change = cost_change(side("a", *[1.0] * before), side("b", *[1.0] * after), TRAFFIC)
    assert present(change).half_width(0.95) is None


def test_a_start_without_every_case_is_no_start() -> None:
    """Its requests count, but what it costs is not that of a start of the whole work."""
    starts = side("a", 1.0, 1.0, 1.0, 1.0, 1.0).blocks
    second_case = [replace(b, case="other") for b in starts if b.run_id != "a-4"]
    first = Side(name="a", blocks=[*starts, *second_case], variant="measured")
    change = cost_change(first, side("b", 1.0), TRAFFIC)
    assert present(change).starts == (4, 1)


def test_a_dearer_node_is_a_dearer_token() -> None:
    change = cost_change(
        side("a", 1.0, 1.0, 1.0, 1.0, usd_per_second=2.0),
        side("b", 1.0, usd_per_second=3.0),
        TRAFFIC,
    )
    assert math.exp(present(change).log_ratio) == pytest.approx(1.5)
    assert present(change).seconds_per_token[0] == present(change).seconds_per_token[1]


def test_tokens_that_nobody_counts_have_no_cost() -> None:
    uncounted = make_block(
        variant="measured", requests=(make_record(number_output_tokens=None),), run_id="b-0"
    )
    second = Side(name="b", blocks=[uncounted], variant="measured")
    assert cost_change(side("a", 1.0), second, TRAFFIC) is None
