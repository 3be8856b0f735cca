"""Pocock's levels, against the published table, and what they do in drawn measurements."""

import math
import random
from statistics import NormalDist

import pytest

from draftworth.analysis.repeated_looks import confidence_at_each_look

NORMAL = NormalDist()


def critical_value(looks: int, *, confidence: float = 0.95) -> float:
    return NORMAL.inv_cdf(0.5 + confidence_at_each_look(looks, confidence) / 2)


# Jennison and Turnbull (2000), "Group Sequential Methods", table 2.1: C_P(K, alpha).
@pytest.mark.parametrize(
    ("looks", "confidence", "published"),
    [
        (1, 0.95, 1.960),
        (2, 0.95, 2.178),
        (3, 0.95, 2.289),
        (5, 0.95, 2.413),
        (8, 0.95, 2.512),
        (10, 0.95, 2.555),
        (20, 0.95, 2.672),
        (5, 0.90, 2.122),
        (5, 0.99, 2.986),
    ],
)
def test_levels_are_those_of_the_published_table(
    looks: int, confidence: float, published: float
) -> None:
    assert critical_value(looks, confidence=confidence) == pytest.approx(published, abs=1e-3)


def test_one_look_needs_no_wider_interval() -> None:
    assert confidence_at_each_look(1, 0.99) == 0.99


def test_each_further_look_widens_less_than_bonferroni() -> None:
    levels = [confidence_at_each_look(looks) for looks in (1, 2, 4, 8)]
    assert levels == sorted(levels)
    assert levels[-1] < 1 - 0.05 / 8


def missed(width: float, *, looks: int, trials: int) -> int:
    """Return how many of the trials leave an interval of this half-width at some look."""
    generator = random.Random(0)
    count = 0
    for _ in range(trials):
        total, is_outside = 0.0, False
        for look in range(1, looks + 1):
            total += generator.gauss()
            is_outside |= abs(total) > width * math.sqrt(look)
        count += is_outside
    return count


def test_all_looks_hold_together_in_drawn_measurements() -> None:
    assert 200 < missed(critical_value(7), looks=7, trials=5_000) < 300


def test_one_level_for_each_look_would_not() -> None:
    """17% of runs leave a 95% interval at one of seven looks."""
    assert missed(critical_value(1), looks=7, trials=5_000) > 750
