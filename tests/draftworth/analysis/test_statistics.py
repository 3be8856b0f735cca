"""Intervals that hold what they promise, on data whose truth is known."""

from __future__ import annotations

import random

import pytest

from draftworth.analysis.statistics import (
    Estimate,
    equivalent,
    estimate,
    quantile,
    requests_short,
)


def covered(*, prompts: int, repetitions: int, trials: int = 200) -> float:
    """How often the interval holds the true median (1) of prompts that differ from each other."""
    generator = random.Random(3)
    hits = 0
    for _ in range(trials):
        clusters = {}
        for prompt in range(prompts):
            level = generator.lognormvariate(0, 0.5)
            clusters[f"p{prompt}"] = [
                level * generator.lognormvariate(0, 0.02) for _ in range(repetitions)
            ]
        found = estimate(clusters, resamples=300)
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 1.0 <= found.high
    return hits / trials


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    assert 0.90 <= covered(prompts=25, repetitions=1) <= 0.99


def test_repeating_the_same_prompts_does_not_fool_the_interval() -> None:
    """Resampling requests instead of prompts would cover about half as often here."""
    assert covered(prompts=25, repetitions=6) >= 0.90


def test_an_interval_is_reproducible_and_wider_with_more_confidence() -> None:
    clusters = {f"p{i}": [float(i), i + 0.5] for i in range(9)}
    assert estimate(clusters) == estimate(clusters)
    narrow = estimate(clusters, confidence=0.5)
    wide = estimate(clusters, confidence=0.99)
    assert narrow.relative_width is not None
    assert wide.relative_width is not None
    assert narrow.relative_width < wide.relative_width


def test_few_prompts_have_a_value_but_no_interval() -> None:
    found = estimate({f"p{i}": [1.0] * 50 for i in range(5)})
    assert (found.value, found.low, found.high) == (1.0, None, None)
    assert (found.prompts, found.samples) == (5, 250)


def test_no_values_are_an_error_and_not_a_zero() -> None:
    with pytest.raises(ValueError, match="no values"):
        estimate({"p": []})


@pytest.mark.parametrize(("share", "value"), [(0, 1), (0.5, 2.5), (0.25, 1.75), (1, 4)])
def test_quantiles_are_interpolated(share: float, value: float) -> None:
    assert quantile([4, 1, 3, 2], share) == pytest.approx(value)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(-1.0, 1.0, True), (-3.0, 1.0, False), (0.5, 2.5, False), (None, None, None)],
)
def test_equivalence_is_shown_only_by_an_interval_inside_the_margin(
    low: float | None, high: float | None, verdict: bool | None
) -> None:
    difference = Estimate(value=0.0, low=low, high=high, prompts=9, samples=9)
    assert equivalent(difference, margin=2.0) is verdict


def test_a_margin_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="margin must be above 0"):
        equivalent(Estimate(value=0, low=0, high=0, prompts=9, samples=9), margin=0)


def test_a_quarter_of_the_width_takes_sixteen_times_the_sample() -> None:
    now = Estimate(value=2.0, low=1.6, high=2.4, prompts=9, samples=10)
    assert requests_short(now, target_width=0.1) == 150
    assert requests_short(now, target_width=0.5) == 0
