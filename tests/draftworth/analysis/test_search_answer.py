"""What a search says of itself: never more than it shows."""

from dataclasses import replace
from typing import Any

import pytest

from draftworth.analysis.answer import course, headline, next_step, search_answer, verdict_of
from draftworth.records.search import Candidate, CostInterval, SearchResult
from tests.draftworth.report import searches
from tests.draftworth.report.runs import make_facts

SURE = (
    "at least 93% sure that no other candidate is cheaper by more than 3% for the prompts measured"
)


def with_best(low: float, high: float, **overrides: Any) -> SearchResult:
    """The best one costs so much."""
    cost = CostInterval(value=(low + high) / 2, low=low, high=high)
    found = searches.make_search_result()
    results = (searches.make_candidate_result("a-k6", cost=cost), found.result("a-k8"))
    return searches.make_search_result(results=results, **overrides)


MEASURE = "Next: measure window 6 of hub/a against the baseline in an experiment of"
NOT_SHOWN = "No measured candidate is shown to pay: with the best, window 6 of hub/a, "
LESS = "a token costs 4.0% less than without a draft (10.0% less to 2.0% more)"
MORE = "a token costs 6.0% more than without a draft (2.0% to 10.0%)"


@pytest.mark.parametrize(
    ("low", "high", "pays", "said", "step"),
    [
        (0.58, 0.62, True, "Window 6 of hub/a: a token costs 40.0% less than without a", MEASURE),
        (0.90, 1.02, True, f"{NOT_SHOWN}{LESS}", MEASURE),
        (
            0.98,
            1.10,
            False,
            f"{NOT_SHOWN}a token costs 4.0% more than without a draft (2.0% less",
            MEASURE,
        ),
        (
            *(1.02, 1.10, False),
            f"No measured candidate pays: with the best, window 6 of hub/a, {MORE}",
            "Next: try other drafts",
        ),
    ],
)
def test_a_candidate_is_named_as_paying_where_its_whole_interval_does(
    low: float, high: float, pays: bool, said: str, step: str
) -> None:
    found = with_best(low, high, expected_to_pay=pays)
    assert search_answer(found).startswith(said)
    assert next_step(found).startswith(step)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({}, SURE),
        ({"sureness": 1.0}, SURE.replace("93", "99")),
        ({"sureness": 0.009}, "another candidate may be cheaper by more than 3%"),
        ({"expected_to_pay": False}, "than no draft by more than 3% for the prompts measured"),
    ],
)
def test_it_is_never_surer_than_it_was_found(overrides: dict[str, Any], words: str) -> None:
    assert search_answer(searches.make_search_result(**overrides)).endswith(f"{words}.")


def test_where_all_are_measured_it_says_so_and_no_chance() -> None:
    found = searches.make_search_result()
    all_measured = tuple(r for r in found.results if r.measured)
    known = tuple(c for c in found.search.candidates if c.variant in found.order)
    whole = replace(found, results=all_measured, search=searches.make_search(candidates=known))

    assert search_answer(whole).endswith("; every candidate that could be is measured.")


def test_what_nothing_is_known_of_is_in_no_sureness_and_told() -> None:
    head = Candidate(variant="c-k1", draft="hub/c", window=1, checked=1)
    search = searches.make_search(candidates=(*searches.make_search().candidates, head))
    found = searches.make_search_result(search=search)

    assert f"{SURE} and 1 candidate could be neither measured nor" in search_answer(found)
    assert "Neither measured nor predicted: c-k1." in [*course(found)]


def test_a_search_that_measured_nothing_names_no_candidate() -> None:
    none = searches.make_search_result(results=(), order=(), best="", expected_to_pay=False)

    assert "no draft and no window can be named" in search_answer(none)
    assert next_step(none) == "Next: put right what is said here and measure once more."
    assert "0 of 5 candidates were measured at c4." in [*course(none)]


def test_the_course_says_what_was_measured_why_no_more_and_what_was_left_out() -> None:
    assert [*course(searches.make_search_result())] == [
        "3 of 5 candidates were measured at c4, in this order: a-k6, a-k4, b-k4.",
        "No further one was: no other candidate is likely to be cheaper by more than 3%.",
        "b-k8 is left out: its server was not ready in 600 s.",
    ]


def test_one_that_was_cut_off_says_so() -> None:
    said = [*course(searches.make_search_result(ended=""))]

    assert "No further one was: the run was over before the search was." in said


def test_the_headline_is_the_answer_and_the_verdict_on_the_best_alone() -> None:
    facts = make_facts(searches.make_search_run())
    answer = search_answer(searches.make_search_result())

    assert headline(facts) == (
        f"{answer} Speculation pays: traffic mix at c4, a-k6: a token costs at least 40% less in "
        "this run. A run of this size may miss an event in fewer than 1 of 10 requests."
    )
    assert verdict_of(facts).headline == headline(facts)
    assert headline(replace(facts, run=replace(facts.run, search=None))).startswith(
        "Speculation pays: traffic mix at c4, a-k"
    )
