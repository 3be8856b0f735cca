"""A run that looked at its verdicts after each round: wider intervals everywhere, and why."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from draftworth.analysis.pooling import pooled
from draftworth.analysis.sensitivity import EqualCost
from draftworth.analysis.statistics import Estimate
from draftworth.decision.facts import RunFacts
from draftworth.decision.run_comparison import changes
from draftworth.records.run_folder import Run
from draftworth.report.answer_of_run import answer_of
from draftworth.report.contents import document_of
from draftworth.report.reason_sentences import looks_sentences
from draftworth.report.sentences import missing_requests, verdict_of
from tests.draftworth.report.runs import make_facts, make_run, with_control, with_repetitions
from tests.support.present import present

LOOKS = 7
# Blocks and starts differ, so that intervals have a width.
RUN = with_control(with_repetitions(make_run(), 4), factor=1.1)
ONCE = make_facts(RUN)


def with_looks(run: Run, looks: int = LOOKS) -> Run:
    return replace(run, result=replace(run.result, looks=looks))


OFTEN = make_facts(with_looks(RUN))


def ratios(facts: RunFacts) -> Iterator[Estimate | EqualCost]:
    """Yield all cost ratios whose intervals a report prints, in the order of their places."""
    for comparison in facts.comparisons:
        yield present(comparison.cost_ratio)
        yield present(comparison.floor)
        yield present(comparison.itl_speedup)
    for repetition in facts.repetitions:
        if repetition.cost_ratio and repetition.cost_ratio.interval:
            yield repetition.cost_ratio
    for share in facts.decision.by_share:
        yield present(share.equal)


def test_every_printed_interval_is_wider() -> None:
    pairs = [*zip(ratios(ONCE), ratios(OFTEN), strict=True)]
    assert len(pairs) > 10
    for once, often in pairs:
        assert often.value == once.value
        assert present(often.low) < present(once.low)
        assert present(often.high) > present(once.high)


def test_the_looks_of_runs_together_add_up() -> None:
    one, other = (
        replace(RUN, result=replace(RUN.result, run_id=name), blocks=blocks)
        for name, blocks in (("a", RUN.blocks), ("b", RUN.blocks))
    )
    assert pooled([with_looks(one), other]).result.looks == LOOKS + 1
    assert pooled([one, other]).result.looks == 1
    (once, *_), (often, *_) = (
        changes(make_facts(one), make_facts(other)),
        changes(make_facts(one), make_facts(with_looks(other))),
    )
    assert present(present(once.ratio).relative_width) < present(
        present(often.ratio).relative_width
    )


def test_the_report_says_why_intervals_are_wider() -> None:
    (sentence,) = looks_sentences(LOOKS)
    assert "up to 7 looks" in sentence
    assert "98.7%" in sentence
    assert sentence in verdict_of(OFTEN).notes
    assert sentence in answer_of(OFTEN).notes
    sections = document_of(OFTEN).sections
    assert any(sentence in section.paragraphs for section in sections)


def test_a_run_of_one_look_says_nothing() -> None:
    assert [*looks_sentences(1)] == []
    assert not any("look" in note for note in (*verdict_of(ONCE).notes, *answer_of(ONCE).notes))


@pytest.mark.parametrize(("looks", "says"), [(1, True), (LOOKS, False)])
def test_a_decided_class_lacks_no_requests(looks: int, says: bool) -> None:
    run = make_run(target_interval_width=1e-6)
    facts = make_facts(with_looks(run, looks))
    decided = [v for v in facts.speculative if v.comparison and v.comparison.judgement.is_decided]
    assert decided
    assert all(bool(missing_requests(facts, variant)) is says for variant in decided)
