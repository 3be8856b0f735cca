"""The sentences on a search: they never say more than it shows."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from draftworth.decision.next_step import step_after_search
from draftworth.records.search_result import Candidate, CostInterval, SearchResult
from draftworth.report.search_sentences import course, search_answer
from draftworth.report.sentences import headline, step_words, verdict_of
from tests.draftworth.report import searches
from tests.draftworth.report.runs import make_facts
from tests.support.snapshot import assert_snapshot

DEFAULT_RESULT = searches.make_search_result()


def with_best(low: float, high: float, **overrides: Any) -> SearchResult:
    """Return a search's result in which the best candidate's cost has this interval."""
    cost = CostInterval(value=(low + high) / 2, low=low, high=high)
    results = (searches.make_candidate_result("a-k6", cost=cost), DEFAULT_RESULT.result("a-k8"))
    return searches.make_search_result(results=results, **overrides)


NOTHING: dict[str, Any] = {"results": (), "order": (), "best": "", "expected_to_pay": False}


def all_measured() -> SearchResult:
    measured_candidates = tuple(
        c for c in DEFAULT_RESULT.search.candidates if c.variant in DEFAULT_RESULT.order
    )
    results = tuple(r for r in DEFAULT_RESULT.results if r.measured)
    return replace(
        DEFAULT_RESULT, results=results, search=searches.make_search(candidates=measured_candidates)
    )


def with_an_unknown_one() -> SearchResult:
    head = Candidate(variant="c-k1", draft="hub/c", window=1, checked=1)
    search = searches.make_search(candidates=(*searches.make_search().candidates, head))
    return searches.make_search_result(search=search)


SEARCHES = {
    "the whole interval pays": with_best(0.58, 0.62),
    "a part of it pays": with_best(0.90, 1.02),
    "a part of it does not": with_best(0.98, 1.10, expected_to_pay=False),
    "nothing of it pays": with_best(1.02, 1.10, expected_to_pay=False),
    "as sure as can be": searches.make_search_result(sureness=1.0),
    "hardly sure": searches.make_search_result(sureness=0.009),
    "not expected to pay": searches.make_search_result(expected_to_pay=False),
    "all are measured": all_measured(),
    "nothing is known of one": with_an_unknown_one(),
    "nothing was measured": searches.make_search_result(**NOTHING, ended="it cost too much"),
    "the run was over": searches.make_search_result(ended=""),
}


def test_what_each_search_says_of_itself() -> None:
    text = ""
    for name, result in SEARCHES.items():
        step = step_after_search(result, serves_baseline=name == "nothing of it pays")
        lines = (search_answer(result), *course(result), f"Next: {step_words(step, result)}.")
        text += "\n".join([name, *(f"  {line}" for line in lines), "\n"])
    assert_snapshot(text, Path(__file__).parent / "snapshots" / "searches.txt")


def test_the_headline_is_the_answer_and_best_verdict() -> None:
    facts = make_facts(searches.make_search_run())

    assert headline(facts) == (
        f"{search_answer(DEFAULT_RESULT)} Speculation pays: traffic mix at 4 requests at a time, "
        "a-k6: a token costs at least 40% less in this run. A run of this size may have missed "
        "what happens in fewer than 1 of 10 requests or 3 of 4 blocks or 3 of 16 prompts. So few "
        "rounds do not show whether a server warms up."
    )
    assert verdict_of(facts).headline == headline(facts)
    assert headline(replace(facts, run=replace(facts.run, search=None))).startswith(
        "Speculation pays: traffic mix at 4 requests at a time, a-k"
    )
