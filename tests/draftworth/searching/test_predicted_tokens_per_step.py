"""Tokens per step of windows that were not measured, predicted from windows that were."""

import pytest

from draftworth.records.search_result import Candidate
from draftworth.searching.predicted_tokens_per_step import from_means, from_measured
from draftworth.speculation import expected_tokens_per_step
from tests.draftworth.searching.candidates import candidate
from tests.support.present import present

SEVEN, FIFTEEN = candidate(7), candidate(15)


def longer(right: float, checked: int) -> dict[str, list[float]]:
    return {"structured": [right**n for n in range(1, checked + 1)]}


def test_a_shorter_window_has_the_same_acceptance() -> None:
    predicted = present(from_measured(candidate(3), {FIFTEEN: longer(0.8, 15)}))
    assert predicted.tokens["structured"] == pytest.approx(1 + 0.8 + 0.8**2 + 0.8**3)


def test_beyond_the_longest_the_last_fall_continues() -> None:
    predicted = from_measured(FIFTEEN, {SEVEN: longer(0.8, 7)})
    within = present(from_measured(candidate(3), {SEVEN: longer(0.8, 7)}))
    assert predicted
    assert predicted.tokens["structured"] == pytest.approx(sum(0.8**n for n in range(16)))
    assert predicted.deviation > within.deviation > 0


def test_between_two_windows_it_lies_between_them() -> None:
    measured = {SEVEN: longer(0.7, 7), FIFTEEN: longer(0.8, 15)}
    predicted = present(from_measured(candidate(10), measured))
    low, high = (sum(right**n for n in range(11)) for right in (0.7, 0.8))
    assert low < predicted.tokens["structured"] < high


def test_a_measured_window_is_what_it_was() -> None:
    predicted = present(from_measured(SEVEN, {SEVEN: longer(0.7, 7), FIFTEEN: longer(0.8, 15)}))
    assert predicted.deviation == 0
    assert predicted.tokens["structured"] == pytest.approx(sum(0.7**n for n in range(8)))


def test_another_draft_says_nothing() -> None:
    assert from_measured(candidate(7, "other"), {SEVEN: longer(0.8, 7)}) is None


def test_errors_carry_over_to_longer_windows_only() -> None:
    measured = {SEVEN: longer(0.8, 7)}
    ten, twelve = (present(from_measured(candidate(w), measured)) for w in (10, 12))
    assert ten.together(twelve, same_draft=True) == pytest.approx(ten.deviation**2)
    assert ten.together(twelve, same_draft=False) == 0


def means(*windows: int, right: float, decay: float) -> dict[Candidate, dict[str, float]]:
    return {
        candidate(w): {"structured": expected_tokens_per_step(right, checked=w, decay=decay)}
        for w in windows
    }


@pytest.mark.parametrize(("right", "decay"), [(0.8, 0.95), (0.6, 1.0), (0.5, 1.05)])
def test_two_windows_means_show_how_acceptance_falls(right: float, decay: float) -> None:
    step_means = means(3, 7, right=right, decay=decay)
    for window in (3, 5, 7, 15):
        predicted = present(from_means(candidate(window), step_means))
        true = expected_tokens_per_step(right, checked=window, decay=decay)
        assert predicted.tokens["structured"] == pytest.approx(true, rel=1e-6)


def test_the_mean_steps_of_one_window_say_less() -> None:
    one, two = (means(*w, right=0.8, decay=0.9) for w in ((7,), (7, 15)))
    less, more = (present(from_means(candidate(12), step_means)) for step_means in (one, two))
    assert less.tokens["structured"] > more.tokens["structured"]
    assert less.deviation > 1.5 * more.deviation
    assert present(from_means(SEVEN, one)).deviation == 0
    assert from_means(candidate(7, "other"), one) is None


def test_near_complete_acceptance_is_not_contradicted() -> None:
    for mean in (6.0, 7.9, 8.0):
        step_means = {SEVEN: {"structured": mean}}
        tokens = [
            present(from_means(candidate(w), step_means)).tokens["structured"] for w in (6, 7, 8)
        ]
        assert tokens[1] == pytest.approx(mean, rel=1e-6)
        assert tokens == sorted(tokens)


def test_an_impossible_mean_accepts_all_or_none() -> None:
    for mean, tokens in ((20.0, 4.0), (0.5, 1.0)):
        predicted = present(from_means(candidate(3), {SEVEN: {"structured": mean}}))
        assert predicted.tokens["structured"] == pytest.approx(tokens)
