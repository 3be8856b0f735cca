"""The search's prediction from one measured window, on published acceptance."""

from statistics import fmean

from benchmarks.published_acceptance import PredictionError, covered, curves, errors
from draftworth.searching.predicted_tokens_per_step import USUAL_DECAY


def from_one_window(usual_decay: float) -> list[PredictionError]:
    all_curves = (curve for curves_of_pair in curves().values() for curve in curves_of_pair)
    estimates = [
        e for curve in all_curves for e in errors(curve, measured=1, usual_decay=usual_decay)
    ]
    assert len(estimates) == 14 * 8 * 7
    return estimates


def test_one_measured_window_predicts_published_ones() -> None:
    estimates = from_one_window(USUAL_DECAY)
    assert fmean(abs(e.error) for e in estimates) <= 0.04
    assert abs(fmean(e.error for e in estimates)) <= 0.01
    assert covered(estimates) >= 0.95


def test_constant_acceptance_overstates_long_windows() -> None:
    estimates = from_one_window(1.0)
    assert fmean(e.error for e in estimates if e.is_beyond) > 0.05
    assert covered(estimates) < 0.93
