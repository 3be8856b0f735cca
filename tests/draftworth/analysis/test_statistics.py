"""Intervals by hand; how often they hold the truth is in `tests/benchmarks/test_calibration.py`."""

from __future__ import annotations

import math
import random

import pytest

from draftworth.analysis.statistics import (
    Estimate,
    Sample,
    Shortfall,
    more_rounds_help,
    quantile,
    quantile_estimate,
    ratio_estimate,
    shortfall,
    spread,
    student_t,
    within,
)


def samples(rows: list[list[float]], *, stratum: str = "case") -> list[Sample]:
    """A prompt a row, a block a column."""
    return [
        Sample(stratum=stratum, prompt=f"{stratum}/p{i}", block=f"{stratum}/{j}", value=value)
        for i, row in enumerate(rows)
        for j, value in enumerate(row)
    ]


def known(low: float | None, high: float | None, *, lasting: float | None = None) -> Estimate:
    return Estimate(
        value=1.0, low=low, high=high, prompts=8, blocks=4, samples=32, lasting_width=lasting
    )


@pytest.mark.parametrize(
    ("probability", "degrees", "quantile_by_table"),
    [
        *((0.975, 1, 12.706), (0.975, 2, 4.303), (0.975, 5, 2.571), (0.975, 30, 2.042)),
        *((0.95, 1, 6.314), (0.95, 10, 1.812), (0.95, 2000, 1.645)),
    ],
)
def test_students_t_is_the_tables(
    probability: float, degrees: int, quantile_by_table: float
) -> None:
    assert student_t(probability, degrees) == pytest.approx(quantile_by_table, abs=6e-4)


def test_more_rounds_of_the_same_prompts_do_not_fool_the_error() -> None:
    """Prompts differ, their repetitions do not: so many requests are so many prompts."""
    levels = [0.5, -0.5, 0.2, -0.2, 0.4, -0.4]
    two, many = (spread(samples([[v / n] * n for v in levels])) for n in (2, 50))
    assert two is not None
    assert many is not None
    assert many.standard_error == pytest.approx(two.standard_error)
    by_hand = math.sqrt(6 / 5 * sum(v**2 for v in levels))
    assert many.standard_error == pytest.approx(by_hand)


def test_prompts_that_were_seen_once_show_nothing_that_lasts() -> None:
    """What differs may as well be the minute: more requests are asked for, not prompts."""
    once = [
        Sample(stratum="case", prompt=f"p{i}", block=str(i % 2), value=value)
        for i, value in enumerate((0.3, -0.3, 0.1, -0.1, 0.2, -0.2))
    ]
    found = spread(once)
    assert found is not None
    assert found.lasting_error == 0
    lasting = spread(samples([[v / 4] * 4 for v in (0.3, -0.3, 0.1, -0.1, 0.2, -0.2)]))
    assert lasting is not None
    assert lasting.lasting_error > 0.8 * lasting.standard_error


def test_an_error_that_a_whole_block_has_is_no_smaller_for_many_prompts() -> None:
    few, many = (spread(samples([[1 / n, -1 / n]] * n)) for n in (6, 60))
    assert few is not None
    assert many is not None
    assert many.standard_error == pytest.approx(few.standard_error) == pytest.approx(2.0)
    assert many.degrees_of_freedom == 1


def test_what_lies_between_cases_is_no_error_and_what_lies_within_them_is() -> None:
    far = [samples([[level, level]] * 3, stratum=name) for name, level in (("a", 5.0), ("b", -5.0))]
    within_cases = spread([*far[0], *far[1]])
    assert within_cases is not None
    assert within_cases.standard_error == 0
    assert within_cases.degrees_of_freedom == 2
    as_one = spread([Sample(**{**vars(s), "stratum": "all"}) for s in (*far[0], *far[1])])
    assert as_one is not None
    assert as_one.standard_error > 10


def test_cases_of_one_prompt_are_put_together() -> None:
    rows = [sample for i in range(6) for sample in samples([[i, i]], stratum=f"case-{i}")]
    found = spread(rows)
    assert found is not None
    assert found.standard_error > 0
    assert found.prompts == 6


@pytest.mark.parametrize("rows", [[[1.0, 2.0]] * 5, [[1.0]] * 9], ids=["prompts", "rounds"])
def test_too_few_prompts_or_rounds_show_no_error(rows: list[list[float]]) -> None:
    assert spread(samples(rows)) is None
    found = ratio_estimate(0.0, None, samples=9)
    assert (found.value, found.low, found.high, found.relative_width) == (1.0, None, None, None)


def test_a_wide_interval_is_wider_than_its_logarithm_and_a_narrow_one_is_not() -> None:
    rows = [0.3, -0.3, 0.1, -0.1, 0.2, -0.2]
    for scale, factor in ((0.01, 1.0), (0.5, 1.05)):
        found = spread(samples([[scale * v / 4] * 4 for v in rows]))
        assert found is not None
        half = found.half_width(0.95)
        ratio = ratio_estimate(0.0, found, samples=24)
        assert ratio.high is not None
        assert ratio.low is not None
        assert ratio.high / math.exp(half) >= factor
        assert ratio.high * ratio.low == pytest.approx(1.0)
        assert ratio.inverse == ratio


def test_an_interval_without_end_is_none() -> None:
    found = spread(samples([[v, v] for v in (3.0, -3.0, 1.0, -1.0, 2.0, -2.0)]))
    assert found is not None
    assert ratio_estimate(0.0, found, samples=12).low is None


@pytest.mark.parametrize(("share", "value"), [(0, 1), (0.5, 2.5), (0.25, 1.75), (1, 4)])
def test_quantiles_are_interpolated(share: float, value: float) -> None:
    assert quantile([4, 1, 3, 2], share) == pytest.approx(value)


@pytest.mark.parametrize(
    ("requests", "share", "has_interval"),
    [(40, 0.5, True), (24, 0.1, False), (200, 0.95, True), (90, 0.95, False), (400, 0.99, False)],
)
def test_a_quantile_has_an_interval_where_enough_lies_beyond_it(
    requests: int, share: float, has_interval: bool
) -> None:
    draw = random.Random(1).random
    rows = [[draw() for _ in range(4)] for _ in range(requests // 4)]
    found = quantile_estimate(samples(rows), share)
    assert (found.low is not None) is has_interval
    if found.low is not None:
        assert found.high is not None
        assert found.low <= found.value <= found.high


def test_no_values_are_an_error_and_not_a_zero() -> None:
    with pytest.raises(IndexError):
        quantile_estimate([], 0.5)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.95, 1.05, True), (0.8, 1.05, False), (0.95, 1.2, False), (None, None, None)],
)
def test_equivalence_is_shown_only_by_an_interval_inside_the_margin(
    low: float | None, high: float | None, verdict: bool | None
) -> None:
    assert within(known(low, high), factor=1.1) is verdict


def test_a_factor_that_no_ratio_can_be_within_is_a_defect() -> None:
    with pytest.raises(ValueError, match="above 1"):
        within(known(0.9, 1.1), factor=1.0)


def test_what_is_missing_is_requests_as_long_as_they_help_and_then_prompts() -> None:
    wide = known(0.9, 1.1, lasting=0.0)
    assert shortfall(wide, target_width=0.3) == Shortfall()
    assert not shortfall(wide, target_width=0.3)
    # A width of 0.2 is halved by four times the requests.
    assert shortfall(wide, target_width=0.1) == Shortfall(requests=96)
    kept_wide = known(0.9, 1.1, lasting=0.19)
    # 0.19 of 0.2 lasts: (0.19 / 0.1)^2 times the 8 prompts.
    assert shortfall(kept_wide, target_width=0.1) == Shortfall(prompts=21)
    assert shortfall(known(None, None), target_width=0.1) is None
    assert shortfall(None, target_width=0.1) is None


@pytest.mark.parametrize(
    ("lasting", "helps"), [(0.05, True), (0.15, True), (0.19, False), (None, True)]
)
def test_more_rounds_help_until_the_prompts_alone_are_left(
    lasting: float | None, helps: bool
) -> None:
    assert more_rounds_help(known(0.9, 1.1, lasting=lasting), target_width=0.1) is helps
