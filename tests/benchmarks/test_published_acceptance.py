"""The search's prediction from one measured window, on published acceptance."""

from statistics import fmean

from benchmarks.published_acceptance import PredictionError, covered, curves, errors
from draftworth.searching.predicted_tokens_per_step import USUAL_FALL


def from_one_window(usual_fall: float) -> list[PredictionError]:
    known = (curve for own in curves().values() for curve in own)
    found = [e for curve in known for e in errors(curve, measured=1, usual_fall=usual_fall)]
    assert len(found) == 14 * 8 * 7
    return found


def test_one_measured_window_predicts_published_ones() -> None:
    found = from_one_window(USUAL_FALL)
    assert fmean(abs(e.error) for e in found) <= 0.04
    assert abs(fmean(e.error for e in found)) <= 0.01
    assert covered(found) >= 0.95


def test_constant_acceptance_overstates_long_windows() -> None:
    found = from_one_window(1.0)
    assert fmean(e.error for e in found if e.is_beyond) > 0.05
    assert covered(found) < 0.93
