"""Variances of sums of clusters, compared with values worked out by hand."""

import pytest

from draftworth.analysis.clustering import clusters_of, merged, part_of
from tests.support.samples import samples


@pytest.mark.parametrize(
    ("weights", "degrees"),
    [
        ([[1.0] * 8, [1.0] * 8], 14.0),
        # With a for the square of a prompt's weight in a case, the degrees of freedom are
        # (sum of a)^2 / (sum of a^2 / 7) over both cases.
        ([[20.0] * 8, [1.0] * 8], (20**2 + 1) ** 2 / (20**4 + 1) * 7),
        # One prompt has nearly all the weight: little more is known than from two prompts.
        ([[1000.0, *[1.0] * 7]], 1.2),
        ([[1.0, 0.0, 0.0]], 1.0),
        ([[0.0] * 6], 1.0),
    ],
)
def test_degrees_of_freedom_are_those_of_what_weighs(
    weights: list[list[float]], degrees: float
) -> None:
    rows = [
        sample._replace(stratum=str(number), weight=weight)
        for number, case_weights in enumerate(weights)
        for sample, weight in zip(
            samples([[(-1) ** i] for i in range(len(case_weights))]), case_weights, strict=True
        )
    ]
    by_prompt = part_of(merged(clusters_of((s.stratum, s.prompt, s) for s in rows)))
    assert by_prompt.degrees_of_freedom == pytest.approx(degrees, rel=0.02)
