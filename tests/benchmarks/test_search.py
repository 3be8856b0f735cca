"""A part of the simulated study, small enough for every day (docs/appendix/search.md)."""

import math
from dataclasses import replace
from statistics import fmean, stdev

import pytest

from benchmarks import search as study
from benchmarks.search import KINDS, SCENARIOS, WITHIN, SearchOutcome, planted_search
from draftworth.records.search_result import Candidate, Search
from draftworth.searching import next_candidate
from draftworth.searching.candidate_count import extent
from draftworth.searching.mixture import Mixture
from draftworth.searching.predicted_step_costs import step_costs_before
from draftworth.searching.predicted_tokens_per_step import Yield

# Every so many, so that texts, devices and ways to count are all among them.
EVERY = 19


def part(kind: str) -> list[SearchOutcome]:
    numbers = [n for n, scenario in enumerate(SCENARIOS) if scenario.kind.name == kind]
    return [planted_search(SCENARIOS[n], n) for n in numbers[::EVERY]]


def with_jump(*tokens: int) -> list[SearchOutcome]:
    """Return searches with a forecast on devices with a single jump, above each of `tokens`."""
    return [
        planted_search(scenario, n)
        for n, scenario in enumerate(SCENARIOS)
        if scenario.kind.name == "one draft model, with a forecast"
        and tuple(scenario.device.jump_at) in [(each,) for each in tokens]
    ]


def search_of(kind: study.Kind) -> Search:
    candidates = next(s for s in SCENARIOS if s.kind is kind).candidates
    forecast = {c.variant: {"structured": 2.0} for c in candidates if kind.has_forecast}
    return Search(
        candidates=candidates,
        drafts_read_text=kind.reads_text,
        step_cost_per_draft=kind.prior,
        within=WITHIN,
        forecast=forecast,
    )


def right(outcomes: list[SearchOutcome]) -> float:
    return fmean(outcome.regret <= WITHIN for outcome in outcomes)


def test_there_are_scenarios_of_every_kind() -> None:
    assert len(SCENARIOS) >= 60
    assert {s.kind.name for s in SCENARIOS} == {kind.name for kind in KINDS}
    assert {s.unchecked for s in SCENARIOS} == {0, 1}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_it_finds_the_best_within_the_planned_measurements(kind: study.Kind) -> None:
    searches = part(kind.name)
    assert len(searches) >= 10
    assert right(searches) >= 0.9
    counts = [outcome.measured for outcome in searches]
    measured, error = fmean(counts), stdev(counts) / math.sqrt(len(counts))
    assert measured / searches[0].candidates <= kind.share * 1.2
    planned = extent(search_of(kind), reads_outputs=False)
    assert planned.average >= measured - 2 * error
    assert min(counts) >= len(planned.certain)


def test_a_jump_at_any_number_is_found() -> None:
    searches = with_jump(3, 6)
    assert len(searches) >= 30
    assert right(searches) >= 0.9


def test_no_jump_is_found_that_nobody_assumes(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_jumps(of_search: Search) -> Mixture:
        no_jump, *_ = step_costs_before(of_search).assumptions
        return Mixture(assumptions=[replace(no_jump, probability=1.0)])

    monkeypatch.setattr(next_candidate, "step_costs_before", without_jumps)
    assert right(with_jump(3, 6)) < 0.8


def test_published_step_costs_alone_often_mislead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The tests above can fail: here a search ends with the first that it measured."""
    monkeypatch.setattr(next_candidate, "REMAINING_DOUBT", 1.0)
    searches = part("one draft model, with a forecast")
    assert {outcome.measured for outcome in searches} == {1}
    assert right(searches) < 0.5


def test_what_a_draft_yields_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search believes that every draft is accepted, and so in windows that are too long."""

    def all_accepted(scenario: study.Scenario, *_: object) -> dict[Candidate, Yield]:
        return {
            c: Yield(tokens=dict.fromkeys(study.WEIGHTS, 1.0 + c.checked))
            for c in scenario.candidates
        }

    monkeypatch.setattr(study, "_yields", all_accepted)
    assert right(part("two draft models")) < 0.9


def test_every_draw_has_a_seed() -> None:
    assert planted_search(SCENARIOS[0], 5) == planted_search(SCENARIOS[0], 5)
