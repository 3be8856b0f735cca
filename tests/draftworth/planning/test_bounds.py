"""Quantities in two cases: values by hand, and words that say the same arithmetic."""

from __future__ import annotations

import pytest

from draftworth.planning.bounds import Bounds, exactly, longest, total

TWO_TO_FIVE = Bounds(2, 5).called("a", digits=None)
FOUR_TO_ONE = Bounds(4, 1).called("b", digits=None)


@pytest.mark.parametrize(
    ("quantity", "expected", "how"),
    [
        (TWO_TO_FIVE + FOUR_TO_ONE, Bounds(6, 6), "a 2 to 5 + b 4 to 1"),
        (TWO_TO_FIVE * FOUR_TO_ONE, Bounds(8, 5), "a 2 to 5 x b 4 to 1"),
        (TWO_TO_FIVE / FOUR_TO_ONE, Bounds(0.5, 5), "a 2 to 5 / b 4 to 1"),
        (TWO_TO_FIVE * 3 / 2, Bounds(3, 7.5), "a 2 to 5 x 3 / 2"),
        (longest([TWO_TO_FIVE, FOUR_TO_ONE]), Bounds(4, 5), "max(a 2 to 5, b 4 to 1)"),
        (total([TWO_TO_FIVE]), TWO_TO_FIVE, "a 2 to 5"),
        (
            exactly(2, "2 cases") * (TWO_TO_FIVE + FOUR_TO_ONE) / 60 + TWO_TO_FIVE,
            Bounds(2.2, 5.2),
            "2 cases x (a 2 to 5 + b 4 to 1) / 60 + a 2 to 5",
        ),
    ],
)
def test_both_cases_are_computed_and_told(quantity: Bounds, expected: Bounds, how: str) -> None:
    assert (quantity.best, quantity.worst) == pytest.approx((expected.best, expected.worst))
    assert quantity.how == how


@pytest.mark.parametrize(
    ("quantity", "digits", "text"),
    [
        (Bounds(2, 5), None, "2 to 5"),
        (Bounds(0.25, 0.25), None, "0.25"),
        (Bounds(1.25, 2), 1, "1.2 to 2.0"),
        (Bounds(1.01, 1.02), 1, "1.0"),
    ],
)
def test_a_range_is_one_number_where_both_read_alike(
    quantity: Bounds, digits: int | None, text: str
) -> None:
    assert quantity.text(digits=digits) == text
