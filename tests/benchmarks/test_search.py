"""A part of the simulated study, small enough for every day; docs/search.md has all of it."""

from statistics import fmean

import pytest

from benchmarks import search as study
from benchmarks.search import KINDS, SCENARIOS, WITHIN, SearchOutcome, planted_search
from draftworth.searching import policy
from draftworth.searching.yields import Yield

# Every so many, so that texts, devices and ways to count are all among them.
EVERY = 7


def part(kind: str) -> list[SearchOutcome]:
    own = [n for n, scenario in enumerate(SCENARIOS) if scenario.kind.name == kind]
    return [planted_search(SCENARIOS[n], n) for n in own[::EVERY]]


def right(outcomes: list[SearchOutcome]) -> float:
    return fmean(outcome.regret <= WITHIN for outcome in outcomes)


def test_there_are_scenarios_of_every_kind() -> None:
    assert len(SCENARIOS) >= 60
    assert {s.kind.name for s in SCENARIOS} == {kind.name for kind in KINDS}
    assert {s.unchecked for s in SCENARIOS} == {0, 1}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_it_finds_the_best_and_measures_few(kind: study.Kind) -> None:
    found = part(kind.name)
    assert len(found) >= 10
    assert right(found) >= 0.9
    measured = fmean(outcome.measured for outcome in found)
    assert measured / found[0].candidates <= kind.share * 1.2


def test_published_step_costs_alone_often_name_the_wrong_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The tests above can fail: here a search ends with the first that it measured."""
    monkeypatch.setattr(policy, "LEAST_CHANCE", 1.0)
    found = part("one draft model, with a forecast")
    assert {outcome.measured for outcome in found} == {1}
    assert right(found) < 0.5


def test_what_a_draft_yields_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    """With yields that are of no text, what is named is no better than a guess."""
    flat = Yield(tokens=dict.fromkeys(study.WEIGHTS, 3.0))
    monkeypatch.setattr(study, "_yields", lambda candidates, _: dict.fromkeys(candidates, flat))
    assert right(part("two draft models")) < 0.9


def test_every_draw_has_a_seed() -> None:
    assert planted_search(SCENARIOS[0], 5) == planted_search(SCENARIOS[0], 5)
