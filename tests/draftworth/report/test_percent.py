"""Intervals in words; one in which half and twice the cost lie says that nothing is known."""

import pytest

from draftworth.analysis.statistics import Estimate
from draftworth.decision.reasons import CostDecides, CostPlace
from draftworth.records.findings import Finding
from draftworth.records.judgement import Judgement
from draftworth.report.answer_of_run import answer_of
from draftworth.report.brief import answer_lines
from draftworth.report.percent import says_nothing, spoken_changes
from draftworth.report.reason_sentences import words_of
from draftworth.report.words import change_interval, cost_phrase
from tests.draftworth.report.states import facts_of_state

WIDE = (0.03, 241.58)


def estimate(low: float, high: float) -> Estimate:
    return Estimate(value=0.9, low=low, high=high, prompts=8, blocks=8, samples=8)


@pytest.mark.parametrize(
    ("ends", "nothing"),
    [(WIDE, True), ((0.49, 2.01), True), ((0.5, 2.1), False), ((0.4, 2.0), False)],
)
def test_half_and_twice_in_one_interval_say_nothing(
    ends: tuple[float, float], nothing: bool
) -> None:
    assert says_nothing(*ends) == nothing
    reason = CostDecides(low=ends[0], high=ends[1], place=CostPlace.AROUND_ONE, repetitions=1)
    texts = (
        spoken_changes(ends),
        cost_phrase(0.9, *ends),
        change_interval(estimate(*ends)),
        words_of(reason),
    )
    for text in texts:
        assert ("half or twice" in text) == nothing
        assert any(sign.isdigit() for sign in text) != nothing


def test_the_terminal_gives_such_a_row_no_figures() -> None:
    answer = answer_of(facts_of_state("no difference"))
    finding = Finding(
        **{
            **vars(answer.findings[0]),
            "judgement": Judgement.INCONCLUSIVE,
            "cost_ratio_low": WIDE[0],
            "cost_ratio_high": WIDE[1],
        }
    )
    made = type(answer)(**{**vars(answer), "findings": (finding,)})
    lines = answer_lines(made, next_commands=["next"], files="files")
    assert "  traffic mix  may cost half or twice as much per token: nothing is known yet" in lines
