"""Quantiles of Student's t distribution, compared with printed tables."""

import pytest

from draftworth.analysis.student_t import student_t


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


def test_t_between_whole_degrees_is_slightly_too_large() -> None:
    assert student_t(0.975, 2.5) == pytest.approx(3.574, rel=0.02)
    assert student_t(0.975, 2.5) > 3.574
