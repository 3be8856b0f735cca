"""Tokens a step of windows that nobody measured, from those that somebody did."""

import pytest

from draftworth.searching.yields import from_measured
from tests.draftworth.searching.candidates import candidate
from tests.support.present import present

SEVEN, FIFTEEN = candidate(7), candidate(15)


def longer(right: float, checked: int) -> dict[str, list[float]]:
    return {"structured": [right**n for n in range(1, checked + 1)]}


def test_a_shorter_window_has_the_same_acceptance_at_each_depth() -> None:
    found = present(from_measured(candidate(3), {FIFTEEN: longer(0.8, 15)}))
    assert found.tokens["structured"] == pytest.approx(1 + 0.8 + 0.8**2 + 0.8**3)


def test_beyond_the_longest_the_last_fall_goes_on_and_is_less_sure() -> None:
    found = from_measured(FIFTEEN, {SEVEN: longer(0.8, 7)})
    within = present(from_measured(candidate(3), {SEVEN: longer(0.8, 7)}))
    assert found
    assert found.tokens["structured"] == pytest.approx(sum(0.8**n for n in range(16)))
    assert found.deviation > within.deviation > 0


def test_between_two_measured_windows_it_lies_between_what_both_say() -> None:
    measured = {SEVEN: longer(0.7, 7), FIFTEEN: longer(0.8, 15)}
    found = present(from_measured(candidate(10), measured))
    low, high = (sum(right**n for n in range(11)) for right in (0.7, 0.8))
    assert low < found.tokens["structured"] < high


def test_a_measured_window_is_what_it_was() -> None:
    found = present(from_measured(SEVEN, {SEVEN: longer(0.7, 7), FIFTEEN: longer(0.8, 15)}))
    assert found.deviation == 0
    assert found.tokens["structured"] == pytest.approx(sum(0.7**n for n in range(8)))


def test_another_draft_says_nothing() -> None:
    assert from_measured(candidate(7, "other"), {SEVEN: longer(0.8, 7)}) is None


def test_what_is_off_at_one_window_is_off_at_those_beyond_it_alone() -> None:
    measured = {SEVEN: longer(0.8, 7)}
    ten, twelve = (present(from_measured(candidate(w), measured)) for w in (10, 12))
    assert ten.together(twelve, same_draft=True) == pytest.approx(ten.deviation**2)
    assert ten.together(twelve, same_draft=False) == 0
