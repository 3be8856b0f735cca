"""Estimates updated by a measurement, against a textbook's two-dimensional case and in limits."""

import math
from statistics import NormalDist

import pytest

from draftworth.searching.gaussian import Gaussian, chance_above_zero, mean_above_zero

TWO = Gaussian(means=[1.0, 2.0], covariance=[[4.0, 3.0], [3.0, 9.0]])


def test_a_measurement_moves_what_hangs_together_with_it() -> None:
    """Bishop 2006, equations 2.81 and 2.82, with noise of variance 1 added to the first number."""
    after = TWO.measured(0, 6.0, variance=1.0)
    assert after.means == pytest.approx([1 + 4 / 5 * 5, 2 + 3 / 5 * 5])
    assert after.covariance[1][1] == pytest.approx(9 - 3 * 3 / 5)
    assert after.covariance[0][1] == pytest.approx(3 - 4 * 3 / 5)


def test_an_exact_measurement_leaves_no_doubt() -> None:
    after = TWO.measured(0, 6.0, variance=0.0)
    assert (after.means[0], after.deviation(0)) == (6.0, 0.0)
    assert after.measured(0, 7.0, variance=0.0) is after


def test_measurements_in_either_order_say_the_same() -> None:
    one = TWO.measured(0, 6.0, variance=1.0).measured(1, 0.0, variance=2.0)
    other = TWO.measured(1, 0.0, variance=2.0).measured(0, 6.0, variance=1.0)
    assert one.means == pytest.approx(other.means)
    assert one.covariance[0] == pytest.approx(other.covariance[0])


def test_the_density_is_that_of_what_is_measured() -> None:
    """The doubt of a measurement is that of the number and that of measuring it."""
    density = math.exp(TWO.log_density(0, 6.0, variance=5.0))
    assert density == pytest.approx(NormalDist(1.0, 3.0).pdf(6.0))
    exact = TWO.measured(0, 6.0, variance=0.0)
    assert exact.log_density(0, 7.0, variance=0.0) == 0.0


def test_an_amount_is_added_by_shares() -> None:
    added = TWO.plus([0.0, 2.0], mean=0.5, deviation=3.0)
    assert added.means == [1.0, 3.0]
    assert added.covariance == [[4.0, 3.0], [3.0, 9.0 + (2 * 3.0) ** 2]]


def test_an_amount_in_both_joins_them() -> None:
    added = TWO.plus([1.0, 1.0], mean=0.0, deviation=3.0)
    assert added.difference(0, 1) == TWO.difference(0, 1)


def test_a_difference_knows_what_both_share() -> None:
    difference = TWO.difference(1, 0)
    assert [difference.mean, difference.stdev] == pytest.approx([1.0, math.sqrt(4 + 9 - 6)])
    halved = TWO.difference(1, 0, factor=0.5)
    assert [halved.mean, halved.stdev] == pytest.approx([0.0, math.sqrt(9 / 4 + 4 - 3)])


def test_the_mean_above_zero_is_the_integral() -> None:
    normal, step = NormalDist(0.3, 0.5), 1e-3
    summed = sum(step * n * normal.pdf(step * n) * step for n in range(5000))
    assert mean_above_zero(normal) == pytest.approx(summed, rel=1e-3)
    assert chance_above_zero(normal) == pytest.approx(NormalDist().cdf(0.6))


@pytest.mark.parametrize(("mean", "chance", "above"), [(0.2, 1.0, 0.2), (-0.2, 0.0, 0.0)])
def test_without_doubt_it_is_one_or_the_other(mean: float, chance: float, above: float) -> None:
    normal = NormalDist(mean, 0.0)
    assert (chance_above_zero(normal), mean_above_zero(normal)) == (chance, above)
