"""Intervals, compared with values worked out by hand.

`tests/benchmarks/test_calibration.py` tests how often they contain the true value.
"""

import math
import random

import pytest

from draftworth.analysis import statistics
from draftworth.analysis.spread import spread
from tests.support.present import present
from tests.support.samples import estimate_between, samples


@pytest.mark.parametrize("rows", [[[1.0, 2.0]] * 5, [[1.0]] * 9], ids=["prompts", "rounds"])
def test_too_few_prompts_or_rounds_show_no_error(rows: list[list[float]]) -> None:
    assert spread(samples(rows)) is None
    estimate = statistics.ratio_estimate(0.0, None, samples=9)
    assert estimate.value == 1.0
    assert (estimate.low, estimate.high, estimate.relative_width) == (None, None, None)


def test_only_wide_intervals_exceed_their_logarithm() -> None:
    rows = [0.3, -0.3, 0.1, -0.1, 0.2, -0.2]
    for scale, factor in ((0.01, 1.0), (0.6, 1.05)):
        error = present(spread(samples([[scale * v / 4] * 4 for v in rows])))
        half = error.half_width(0.95)
        ratio = statistics.ratio_estimate(0.0, error, samples=24)
        assert present(ratio.high) / math.exp(half) >= factor
        assert present(ratio.high) * present(ratio.low) == pytest.approx(1.0)
        assert present(ratio.inverse.high) == pytest.approx(present(ratio.high))


def test_an_interval_without_upper_end_is_dropped() -> None:
    error = present(spread(samples([[v, v] for v in (3.0, -3.0, 1.0, -1.0, 2.0, -2.0)])))
    assert statistics.ratio_estimate(0.0, error, samples=12).low is None


@pytest.mark.parametrize(("share", "value"), [(0, 1), (0.5, 2.5), (0.25, 1.75), (1, 4)])
def test_quantiles_are_interpolated(share: float, value: float) -> None:
    assert statistics.quantile([4, 1, 3, 2], share) == pytest.approx(value)
    assert statistics.quantile([7], share) == 7


@pytest.mark.parametrize(
    ("requests", "share", "has_interval"),
    [(40, 0.5, True), (24, 0.1, False), (200, 0.95, True), (90, 0.95, False), (400, 0.99, False)],
)
def test_a_quantile_needs_values_beyond_for_an_interval(
    requests: int, share: float, has_interval: bool
) -> None:
    draw = random.Random(1).random
    rows = [[draw() for _ in range(4)] for _ in range(requests // 4)]
    estimate = statistics.quantile_estimate(samples(rows), share)
    assert (estimate.low is not None) is has_interval
    if estimate.low is not None:
        assert estimate.low <= estimate.value <= present(estimate.high)


def test_no_values_are_an_error_not_zero() -> None:
    with pytest.raises(IndexError):
        statistics.quantile_estimate([], 0.5)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.95, 1.05, True), (0.8, 1.05, False), (0.95, 1.2, False), (None, None, None)],
)
def test_only_an_interval_inside_the_margin_shows_equivalence(
    low: float | None, high: float | None, verdict: bool | None
) -> None:
    assert statistics.within(estimate_between(low, high), factor=1.1) is verdict
