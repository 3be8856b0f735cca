"""A world of `benchmarks/traffic.py`, small enough for every day."""

from dataclasses import replace
from statistics import fmean, median

import pytest

from benchmarks.traffic import DEPLOYED, NO_FORECAST, Outcome, World, outcomes
from draftworth.analysis.traffic_ratio import MeasuredPart
from tests.support.covering import least_covering

RUNS = 60
WORLD = World(shape="mixture", spread=0.4, chosen=32)


@pytest.fixture(scope="module")
def by_method() -> dict[str, list[Outcome]]:
    return outcomes(WORLD, RUNS)


def covering(of_method: list[Outcome]) -> int:
    return sum(outcome.covers for outcome in of_method)


def test_intervals_cover_the_cost_of_all_traffic(by_method: dict[str, list[Outcome]]) -> None:
    assert covering(by_method[DEPLOYED]) >= least_covering(RUNS)


def test_a_good_forecast_halves_the_width(by_method: dict[str, list[Outcome]]) -> None:
    widths = {name: median(o.width for o in by_method[name]) for name in (NO_FORECAST, DEPLOYED)}
    assert widths[DEPLOYED] < 0.5 * widths[NO_FORECAST]


def test_without_the_fitted_slope_it_would_not(by_method: dict[str, list[Outcome]]) -> None:
    wrong = outcomes(replace(WORLD, scale=2.0), RUNS // 2)
    fixed, fitted = (
        fmean(o.width for o in wrong[name]) for name in ("by tokens, slope 1", DEPLOYED)
    )
    assert fixed > 1.3 * fitted


def test_without_what_prompts_differ_by_it_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line taken for exact: the test of coverage can fail."""
    monkeypatch.setattr(
        MeasuredPart,
        "with_forecast",
        lambda part: replace(
            part.without(part.slope),
            parts=tuple(p._replace(value=p.value / 3) for p in part.without(part.slope).parts),
        ),
    )
    assert covering(outcomes(WORLD, RUNS)[DEPLOYED]) < least_covering(RUNS) - 4
