"""Drift: a finding of many looks, not of one."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from draftworth.analysis.drift import LOOKS_NEEDED, has_drifted, mean_margin

WELL, BAD = 2.0, 0.5
# Tokens a step of single requests in a rehearsal: eight prompts of each of four kinds of text.
KINDS = (
    (5.52, 5.96, 5.52, 5.14, 4.81, 5.32, 5.14, 5.52),
    (5.96, 6.21, 5.96, 5.14, 5.52, 5.14, 5.96, 5.96),
    (2.98, 2.61, 2.61, 2.57, 2.87, 2.71, 2.61, 2.71),
    (3.92, 3.92, 4.26, 4.38, 4.38, 4.14, 3.82, 3.92),
)
EVERY = tuple(value for kind in KINDS for value in kind)
LOOKS_A_DAY = 24 * 60
DAYS = 20


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


def looks(margin: float, count: int, *, seed: int = 1, in_turn: bool = True) -> list[float]:
    """Looks of one request each, with a mean margin: of each kind in turn, as the probe asks; or
    of any kind, as the traffic of others may be."""
    drawn, mean = Random(seed), mean_margin(EVERY)
    kinds = (KINDS[n % len(KINDS)] if in_turn else EVERY for n in range(count))
    return [margin * drawn.choice(kind) / mean for kind in kinds]


def alarms(found: Sequence[float]) -> int:
    """How often drift begins."""
    drifted = [has_drifted(found[: n + 1][-LOOKS_NEEDED:]) for n in range(len(found))]
    return sum(now and not before for before, now in zip([False, *drifted], drifted, strict=False))


@pytest.mark.parametrize(
    ("margin", "in_turn", "most_a_day"),
    [(1.05, True, 0.0), (1.3, True, 0.0), (1.3, False, 1.0), (1.5, False, 0.05)],
)
def test_false_alarms_are_rare(margin: float, most_a_day: float, *, in_turn: bool) -> None:
    found = looks(margin, DAYS * LOOKS_A_DAY, in_turn=in_turn)
    assert alarms(found) <= most_a_day * DAYS


@pytest.mark.parametrize(("margin", "within"), [(0.6, 12), (0.8, 12), (0.9, 20), (0.95, 25)])
def test_drift_is_found_within_so_many_looks(margin: float, within: int) -> None:
    for seed in range(50):
        assert alarms(looks(margin, within, seed=seed)) >= 1
