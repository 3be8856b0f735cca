"""What is measured next, when it ends, and what is said of the candidates."""

from dataclasses import replace

import pytest

from draftworth.searching.next_candidate import SearchState, first_candidate, least_chance
from tests.draftworth.searching.candidates import candidate, cost, search, seen, state, tokens
from tests.support.present import present

# Of 2 to 12, with a draft that is right in 80% and costs a fifth of a step.
BEST = min(range(2, 13), key=cost)


def searched(at_first: SearchState, **overrides: float) -> SearchState:
    """Measure what is due until nothing is."""
    found = at_first
    while due := found.next:
        measured = {**found.measured, due: seen(due.window, **overrides)}
        found = state(*(c.window for c in measured), of=found.search, **overrides)
        found = replace(found, measured=measured)
    return found


def test_it_names_the_best_window_measuring_few() -> None:
    found = searched(state())
    assert cost(found.best.window) <= 1.03 * cost(BEST)
    assert 2 <= len(found.measured) <= 4
    assert found.pays
    assert found.sureness > 0.5


def test_an_expensive_draft_pays_at_no_window() -> None:
    found = searched(state(), per_drafted=1.5)
    assert not found.pays
    assert all(found.forecasts[c].cost.value > 1 for c in found.measured)
    assert len(found.measured) <= 4


def test_measured_candidates_lie_where_they_were_measured() -> None:
    found = state(7, 4)
    for measured in found.measured:
        forecast = found.forecasts[measured]
        assert forecast.cost.value == pytest.approx(cost(measured.window), rel=0.01)
        assert forecast.step_cost == pytest.approx(1 + 0.2 * measured.window, rel=0.02)
        assert forecast.chance == 0


def test_predictions_come_near_what_would_have_been_measured() -> None:
    for expected, forecast in state(7, 3).forecasts.items():
        if 3 <= expected.window <= 7:
            assert forecast.cost.low <= cost(expected.window) <= forecast.cost.high


def test_one_measured_window_leaves_others_possible() -> None:
    after = state(12)
    assert present(after.next).window < 12
    assert max(f.chance for f in after.forecasts.values()) > least_chance(11)


def test_a_requested_candidate_is_measured_in_any_case() -> None:
    dear = candidate(12, "dear", is_asked_for=True)
    asked = search(*search().candidates, dear)
    due = state(5, 4, of=asked).next
    assert due == dear


def test_a_head_not_measured_cannot_be_skipped() -> None:
    other = tuple(candidate(window, "other") for window in range(2, 13))
    asked = search(*search().candidates, *other, drafts_read_text=False)
    known = state(3, 4, 5, 9)
    found = SearchState(
        search=asked,
        candidates=asked.candidates,
        baseline=known.baseline,
        measured=known.measured,
        yields=known.yields,
    )
    assert found.next == candidate(7, "other")


def test_nothing_is_known_before_the_first() -> None:
    found = state()
    assert found.forecasts == {}
    assert found.next == candidate(7)
    with pytest.raises(ValueError, match="empty"):
        _ = found.best


def test_each_class_has_its_own_cost() -> None:
    found = state(7)
    lucky = {c: replace(y, tokens={**y.tokens, "open_ended": 1.0}) for c, y in found.yields.items()}
    seven = replace(found, yields=lucky).forecasts[candidate(7)]
    plain, lucky_cost = seven.cost_by_class["open_ended"], seven.cost_by_class["structured"]
    assert (plain - 0.1) / (lucky_cost - 0.1) == pytest.approx(tokens(7)["structured"], rel=0.01)
    assert (plain + lucky_cost) / 2 == pytest.approx(seven.cost.value)


def test_first_comes_the_longest_window_with_eight_tokens_a_step() -> None:
    assert first_candidate(search().candidates).window == 7
    nxdi = [candidate(window, checked=window - 1) for window in range(3, 16)]
    assert first_candidate(nxdi).window == 8
    assert first_candidate([candidate(w) for w in (15, 11, 9)]).window == 9
    by_hand = candidate(3, "other", is_asked_for=True)
    assert first_candidate([*nxdi, by_hand]) == by_hand
