"""Drift: a finding of many looks, not of one."""

from __future__ import annotations

import pytest

from draftworth.analysis.drift import LOOKS_NEEDED, has_drifted, mean_margin

WELL, BAD = 2.0, 0.5


def test_a_mean_below_break_even_that_stays_there_is_drift() -> None:
    assert has_drifted([BAD] * LOOKS_NEEDED)


def test_above_break_even_there_is_none() -> None:
    assert not has_drifted([WELL] * LOOKS_NEEDED)


def test_before_there_are_enough_looks_there_is_no_finding() -> None:
    assert not has_drifted([BAD] * (LOOKS_NEEDED - 1))
    assert not has_drifted([])


def test_single_looks_below_break_even_are_the_scatter_between_prompts() -> None:
    assert not has_drifted([WELL, WELL, BAD] * LOOKS_NEEDED)


def test_a_mean_that_has_just_come_below_is_no_drift_yet() -> None:
    """Ten looks together are below break-even once and not three times in a row."""
    margins = [1.2] * 2 + [1.0] * 9 + [0.95]
    assert len(margins) == LOOKS_NEEDED
    assert mean_margin(margins[-10:]) < 1 <= mean_margin(margins[-11:-1])
    assert not has_drifted(margins)


def test_only_the_last_looks_count() -> None:
    assert has_drifted([WELL] * 100 + [BAD] * LOOKS_NEEDED)
    assert not has_drifted([BAD] * 100 + [WELL] * LOOKS_NEEDED)


def test_looks_are_put_together_by_their_steps() -> None:
    """Of two looks with four tokens each, at four and at one a step: eight tokens in five steps."""
    assert mean_margin([4.0, 1.0]) == pytest.approx(8 / 5)
