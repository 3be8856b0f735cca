"""Estimates under several assumptions, against Bayes' rule by hand and one assumption alone."""

import math
from statistics import NormalDist

import pytest

from draftworth.searching.gaussian import Gaussian
from draftworth.searching.mixture import Assumption, Mixture

LOW = Gaussian(means=[0.0, 1.0], covariance=[[1.0, 0.5], [0.5, 2.0]])
HIGH = Gaussian(means=[4.0, 1.0], covariance=[[1.0, 0.0], [0.0, 2.0]])


def either(low: float = 0.25) -> Mixture:
    return Mixture(
        assumptions=[
            Assumption(probability=low, numbers=LOW),
            Assumption(probability=1 - low, numbers=HIGH),
        ]
    )


def probabilities(mixture: Mixture) -> list[float]:
    return [a.probability for a in mixture.assumptions]


def test_a_measurement_weighs_assumptions_by_density() -> None:
    error = math.sqrt(1.0 + 3.0)
    low = 0.25 * NormalDist(0.0, error).pdf(1.0)
    high = 0.75 * NormalDist(4.0, error).pdf(1.0)
    measured = either().measured(0, 1.0, variance=3.0)
    assert probabilities(measured) == pytest.approx([low / (low + high), high / (low + high)])
    assert measured.assumptions[0].numbers == LOW.measured(0, 1.0, variance=3.0)


def test_what_both_expect_alike_weighs_nothing() -> None:
    assert probabilities(either().measured(1, 7.0, variance=1.0)) == pytest.approx([0.25, 0.75])


def test_what_none_expects_is_still_weighed() -> None:
    """Both densities are too small for a float; their ratio is not."""
    assert probabilities(either().measured(0, -900.0, variance=0.0)) == pytest.approx([1.0, 0.0])


def test_deviations_count_what_assumptions_differ_in() -> None:
    assert either().means == pytest.approx([3.0, 1.0])
    between = 0.25 * 9 + 0.75 * 1
    assert either().deviation(0) == pytest.approx(math.sqrt(1 + between))
    assert either().deviation(1) == pytest.approx(math.sqrt(2))


def test_a_single_assumption_is_the_gaussian() -> None:
    alone = Mixture(assumptions=[Assumption(probability=1.0, numbers=LOW)])
    measured, gaussian = alone.measured(0, 2.0, variance=1.0), LOW.measured(0, 2.0, variance=1.0)
    assert measured.means == pytest.approx(gaussian.means)
    assert measured.deviation(1) == pytest.approx(gaussian.deviation(1))


def test_a_probability_is_at_most_1() -> None:
    """Shares of a sum can add up to more than 1 by rounding."""
    halves = (0.5, 0.5 + 2**-52)
    mixture = Mixture(
        assumptions=[
            Assumption(probability=each, numbers=numbers)
            for each, numbers in zip(halves, (LOW, HIGH), strict=True)
        ]
    )
    assert mixture.expected(lambda _: 1.0) > 1
    assert mixture.probability(lambda _: 1.0) == 1


def test_what_is_ruled_out_stays_ruled_out() -> None:
    """An assumption without probability has by far the highest density."""
    measured = either(low=0.0).measured(0, -900.0, variance=0.0)
    assert probabilities(measured) == [0.0, 1.0]
