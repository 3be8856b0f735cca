"""Comparisons of two runs, and runs that must not be compared."""

import re
from dataclasses import replace
from typing import Any

import pytest

from draftworth.analysis.spread import MANY_REPETITIONS
from draftworth.decision.run_comparison import NotComparedError, changes
from draftworth.records.run_folder import Run
from draftworth.report.contents import change_sentence
from draftworth.report.run_differences import not_compared_words
from tests.draftworth.report import runs, states
from tests.support.present import present


def slower(run: Run, factor: float) -> Run:
    """Return the run with the variant's times in `structured` multiplied by `factor`."""
    blocks = tuple(
        runs.slower(block, factor)
        if block.variant == "k7" and block.prompt_class == "structured"
        else block
        for block in run.blocks
    )
    return replace(run, blocks=blocks, result=replace(run.result, run_id="other"))


COUNTED_TWICE = states.with_requests(number_output_tokens=200)
MANY_STARTS = runs.with_repetitions(runs.make_run(), MANY_REPETITIONS, between=0.01)


def test_the_same_run_twice_shows_no_difference() -> None:
    for change in changes(runs.make_facts(MANY_STARTS), runs.make_facts(MANY_STARTS)):
        assert present(change.ratio).value == 1
        assert change.is_shown is False
        assert "no difference is shown" in change_sentence(change)


def test_a_tenth_is_a_change_beyond_the_starts() -> None:
    slow = runs.make_facts(slower(MANY_STARTS, 1.1))
    structured, open_ended = changes(runs.make_facts(MANY_STARTS), slow)
    assert structured.is_shown is True
    assert present(structured.ratio).value == pytest.approx(1 / 1.1)
    assert "has changed" in change_sentence(structured)
    assert open_ended.is_shown is False


def test_overlapping_intervals_can_show_a_change() -> None:
    """The ratio compares each prompt with itself, so its interval is the narrower one."""
    run = runs.make_run()
    structured, _ = changes(runs.make_facts(run), runs.make_facts(slower(run, 1.02)))
    this_ratio, other_ratio = map(present, structured.cost_ratios)
    assert present(other_ratio.low) < present(this_ratio.high)
    assert present(present(structured.ratio).high) < 1


@pytest.mark.parametrize("repetitions", [1, MANY_REPETITIONS - 1])
def test_few_starts_show_no_change(repetitions: int) -> None:
    """A tenth may be the difference between two starts of one server."""
    run = runs.make_run()
    if repetitions > 1:
        run = runs.with_repetitions(run, repetitions, between=0.0)
    structured, _ = changes(runs.make_facts(run), runs.make_facts(slower(run, 1.1)))
    assert structured.is_shown is None
    assert present(present(structured.ratio).high) < 1
    assert "between these starts" in change_sentence(structured)
    assert "has changed" not in change_sentence(structured)


def test_without_an_interval_nothing_has_changed() -> None:
    blocks = (runs.make_plain_block(1, "structured"), runs.make_drafted_block(2, "structured"))
    facts = runs.make_facts(runs.make_run(blocks=blocks))
    (change,) = changes(facts, facts)
    assert change.is_shown is None
    assert "no interval" in change_sentence(change)


def test_a_variant_of_one_run_is_not_compared() -> None:
    run = runs.make_run(variants=("baseline", "k7", "k3"))
    assert {c.label for c in changes(runs.make_facts(run), runs.make_facts())} == {
        "structured at 4 requests at a time, k7",
        "open_ended at 4 requests at a time, k7",
    }


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ({"experiment": "other"}, "experiment 'built' and 'other'"),
        ({"variants": ("plain", "k7"), "baseline": "plain"}, "baseline 'baseline' and 'plain'"),
        ({"temperature": 0.7}, "temperature 0 and 0.7"),
        ({"prompt_cache": "warm"}, "prompts new to the servers True and False"),
        ({"variants": ("baseline", "k3")}, "no speculative variant in both"),
        (
            {"blocks": runs.two_rounds(runs.make_plain_block(1, "structured"))},
            "only in the first open_ended/count at 4 requests at a time, only in the second n",
        ),
        (
            {"blocks": tuple(replace(b, case="other") for b in runs.make_run().blocks)},
            r"only in the second .*/other at 4 requests at a time",
        ),
    ],
)
def test_runs_of_different_things_are_refused(overrides: dict[str, Any], reason: str) -> None:
    other = runs.make_facts(runs.make_run(**overrides))
    with pytest.raises(NotComparedError) as refused:
        changes(runs.make_facts(), other)
    assert re.search(reason, not_compared_words(refused.value))


def test_a_doubted_run_shows_no_change() -> None:
    """The other run's variant counts twice as many tokens in the same texts."""
    believed, doubted = runs.make_facts(runs.make_run()), runs.make_facts(COUNTED_TWICE)
    change, *_ = changes(believed, doubted)
    assert change.is_shown is None
    assert "what has changed is open: the servers count tokens differently" in change_sentence(
        change
    )
    same, *_ = changes(believed, believed)
    assert same.doubt is None
