"""How many candidates a search measures: what is certain, and that no search measures fewer."""

from collections.abc import Iterable

import pytest

from benchmarks.search import SCENARIOS, planted_search
from draftworth.records.search_result import Candidate
from draftworth.searching.candidate_count import Extent, extent
from tests.draftworth.searching.candidates import candidate, search


def candidates(draft: str, windows: Iterable[int], *, is_by_hand: bool = False) -> list[Candidate]:
    return [candidate(window, draft, is_asked_for=is_by_hand) for window in windows]


def extent_of(*variants: Candidate, heads: bool = False, reads: bool = True) -> Extent:
    return extent(search(*variants, drafts_read_text=not heads), reads_outputs=reads)


def names(chosen: Iterable[Candidate]) -> list[str]:
    return [one.variant for one in chosen]


ONE, TWO = candidates("one", range(3, 16)), candidates("two", range(3, 16))


def test_drafts_that_read_make_one_candidate_certain() -> None:
    extended = extent_of(*ONE, *TWO)
    assert names(extended.certain) == ["one-k7"]
    assert extended.average == pytest.approx(4.9)
    assert extended.most == 26
    assert names(extended.possible) == [name for name in names([*ONE, *TWO]) if name != "one-k7"]


@pytest.mark.parametrize(
    ("heads", "reads", "average"), [(True, True, 5.8), (True, False, 5.8), (False, False, 5.7)]
)
def test_otherwise_one_candidate_per_draft_is_certain(
    heads: bool, reads: bool, average: float
) -> None:
    extended = extent_of(*ONE, *TWO, heads=heads, reads=reads)
    assert names(extended.certain) == ["one-k7", "two-k7"]
    assert extended.average == pytest.approx(average)


def test_a_forecast_equals_reading_the_outputs() -> None:
    forecast = {c.variant: {"structured": 2.0} for c in TWO}
    some = extent(search(*ONE, *TWO, forecast=forecast), reads_outputs=False)
    assert names(some.certain) == ["one-k7"]
    assert some.average == pytest.approx(5.7)
    forecast |= {c.variant: {"structured": 2.0} for c in ONE}
    both = extent(search(*ONE, *TWO, forecast=forecast), reads_outputs=False)
    assert names(both.certain) == ["one-k7"]
    assert both.average == pytest.approx(4.9)


def test_candidates_by_hand_are_certain_for_their_draft() -> None:
    by_hand = candidates("one", [20, 21], is_by_hand=True)
    assert names(extent_of(*by_hand, *ONE).certain) == ["one-k20", "one-k21"]
    certain = extent_of(*by_hand, *ONE, *TWO, reads=False).certain
    assert names(certain) == ["one-k20", "one-k21", "two-k7"]


def test_drafts_with_one_window_are_all_measured() -> None:
    extended = extent_of(*(c for d in ("a", "b", "c") for c in candidates(d, [9])), heads=True)
    assert names(extended.certain) == ["a-k9", "b-k9", "c-k9"]
    assert extended.possible == ()
    assert extended.average == extended.most == 3


def test_average_lies_between_certain_and_all() -> None:
    assert extent_of(*candidates("one", [3, 5])).average == 2
    many = candidates("one", range(3, 9), is_by_hand=True)
    assert extent_of(*many, *ONE).average == 6


def test_some_planted_search_ends_with_what_is_certain() -> None:
    """So a second candidate of a draft is not certain to be measured."""
    seldom = [
        s
        for s in SCENARIOS
        if s.kind.name == "one draft model, with a forecast"
        and s.text.name.startswith("right seldom")
        and s.device.name == "mixture of experts"
    ]
    assert min(planted_search(scenario, 0).measured for scenario in seldom) == 1
