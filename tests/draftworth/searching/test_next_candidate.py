"""Which candidate is measured next, when a search ends, and what it predicts of candidates."""

from dataclasses import replace

import pytest

from draftworth.searching.next_candidate import REMAINING_DOUBT, SearchState, first_candidate
from tests.draftworth.searching.candidates import candidate, cost, search, seen, state, tokens
from tests.support.present import present

# The cheapest window of 2 to 12, if 80% of drafted tokens are accepted and each costs a fifth of a
# baseline step.
BEST = min(range(2, 13), key=cost)


def searched(at_first: SearchState, **overrides: float) -> SearchState:
    """Measure the next candidate until the search ends; return the state at the end."""
    search_state = at_first
    while due := search_state.next:
        measured = {**search_state.measured, due: seen(due.window, **overrides)}
        search_state = state(*(c.window for c in measured), of=search_state.search, **overrides)
        search_state = replace(search_state, measured=measured)
    return search_state


def test_it_names_the_best_window_measuring_few() -> None:
    search_state = searched(state())
    assert cost(search_state.best.window) <= 1.03 * cost(BEST)
    assert 2 <= len(search_state.measured) <= 4
    assert search_state.pays
    assert search_state.sureness > 0.5


def test_an_expensive_draft_pays_at_no_window() -> None:
    search_state = searched(state(), per_drafted=1.5)
    assert not search_state.pays
    assert all(search_state.forecasts[c].cost.value > 1 for c in search_state.measured)
    assert len(search_state.measured) <= 4


def test_measured_candidates_lie_where_they_were_measured() -> None:
    search_state = state(7, 4)
    for measured in search_state.measured:
        forecast = search_state.forecasts[measured]
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
    chances = {c: f.chance for c, f in after.forecasts.items()}
    assert after.next == max(chances, key=lambda c: chances[c])
    assert sum(chances.values()) > REMAINING_DOUBT


def test_small_chances_of_many_are_measured() -> None:
    """A search goes on while no candidate alone, but all together may well be cheaper."""
    after = state(7, 3)
    chances = [f.chance for f in after.forecasts.values()]
    assert max(chances) < REMAINING_DOUBT < 1 - after.sureness
    assert after.next


def test_at_its_end_little_doubt_remains() -> None:
    ended = searched(state())
    assert ended.next is None
    open_ones = [f.chance for c, f in ended.forecasts.items() if c not in ended.measured]
    assert max(open_ones) <= REMAINING_DOUBT
    assert 1 - sum(open_ones) <= ended.sureness + REMAINING_DOUBT <= 1 + REMAINING_DOUBT


def test_a_requested_candidate_is_measured_in_any_case() -> None:
    dear = candidate(12, "dear", is_asked_for=True)
    planned = search(*search().candidates, dear)
    due = state(5, 4, of=planned).next
    assert due == dear


def test_a_head_not_measured_cannot_be_skipped() -> None:
    other = tuple(candidate(window, "other") for window in range(2, 13))
    planned = search(*search().candidates, *other, drafts_read_text=False)
    before = state(3, 4, 5, 9)
    search_state = SearchState(
        search=planned,
        candidates=planned.candidates,
        baseline=before.baseline,
        measured=before.measured,
        yields=before.yields,
    )
    assert search_state.next == candidate(7, "other")


def test_nothing_is_known_before_the_first() -> None:
    search_state = state()
    assert search_state.forecasts == {}
    assert search_state.next == candidate(7)
    with pytest.raises(ValueError, match="empty"):
        _ = search_state.best


def test_each_class_has_its_own_cost() -> None:
    search_state = state(7)
    lucky = {
        c: replace(y, tokens={**y.tokens, "open_ended": 1.0})
        for c, y in search_state.yields.items()
    }
    seven = replace(search_state, yields=lucky).forecasts[candidate(7)]
    plain, lucky_cost = seven.cost_by_class["open_ended"], seven.cost_by_class["structured"]
    assert (plain - 0.1) / (lucky_cost - 0.1) == pytest.approx(tokens(7)["structured"], rel=0.01)
    assert (plain + lucky_cost) / 2 == pytest.approx(seven.cost.value)


def test_the_longest_window_of_eight_tokens_leads() -> None:
    assert first_candidate(search().candidates).window == 7
    nxdi = [candidate(window, checked=window - 1) for window in range(3, 16)]
    assert first_candidate(nxdi).window == 8
    assert first_candidate([candidate(w) for w in (15, 11, 9)]).window == 9
    by_hand = candidate(3, "other", is_asked_for=True)
    assert first_candidate([*nxdi, by_hand]) == by_hand
