"""The answer of a run in ten lines, and as a record."""

from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

import pytest

from draftworth.decision.judged_anew import ChosenValue
from draftworth.decision.winner import NoWinnerError
from draftworth.records.codec import dump_record, load_record
from draftworth.records.findings import Finding
from draftworth.records.run_folder import Run
from draftworth.report.answer import (
    Answer,
    ByClassCosts,
    EqualPrice,
    EqualShare,
    ServerFigures,
    StepTokens,
)
from draftworth.report.answer_of_run import answer_of
from draftworth.report.brief import MOST_LINES, answer_lines
from draftworth.report.sentences import winner_to_export
from tests.conftest import ROOT
from tests.draftworth.report import runs
from tests.draftworth.report.states import STATES, at_loads, facts_of_state, faster_server
from tests.support.snapshot import assert_snapshot

SNAPSHOTS = Path(__file__).with_name("snapshots")
# The states up to this one differ in what a token costs, and in whether that is believed.
LAST_OF_COSTS = "inconclusive"
CUT = [*STATES].index(LAST_OF_COSTS) + 1
STATES_OF = {"costs": [*STATES][:CUT], "runs": [*STATES][CUT:]}


def answer(run: Run) -> Answer:
    return answer_of(runs.make_facts(run))


def lines(made: Answer) -> list[str]:
    return answer_lines(
        made, next_commands=["draftworth report runs/built --out"], files="runs/built"
    )


@pytest.mark.parametrize("kind", STATES_OF)
def test_the_answer_of_every_kind_of_run(kind: str) -> None:
    answers = {name: lines(answer_of(facts_of_state(name))) for name in STATES_OF[kind]}
    parts = ("\n".join([f"# {name}", *state_lines]) for name, state_lines in answers.items())
    assert_snapshot("\n\n".join(parts) + "\n", SNAPSHOTS / f"brief-{kind}.txt")
    for state_lines in answers.values():
        assert len(state_lines) <= MOST_LINES
        assert max(map(len, state_lines)) <= 80


@pytest.mark.parametrize(
    ("chunks", "words"),
    [
        (100, "Cheaper, and not by speculation"),
        (96, "Cheaper, and not by speculation"),  # a few merged chunks
        (92, "Speculation pays"),  # 1.09 tokens per step
    ],
)
def test_a_gain_without_accepted_drafts_is_not_speculation(chunks: int, words: str) -> None:
    made = answer(faster_server(chunks=chunks))
    assert made.decision == f"Decision: serve {runs.VARIANT}. {words}."
    assert made.headline.startswith(f"{words}: ")


def test_more_figures_than_fit_are_counted() -> None:
    many = lines(answer(at_loads(*[0.6] * 7)))
    assert len(many) == MOST_LINES
    assert "  and 18 more figures: --verbose" in many


def test_a_full_answer_has_ten_lines() -> None:
    """A run in doubt at several loads, judged with other weights, with something in each line."""
    made = replace(
        answer(at_loads(*[0.6] * 3)),
        judged_with=(ChosenValue(of="weight", name="structured", value=0.5, instead_of=0.7),),
        notes=("up to 4 requests at a time",),
        cached_shares={runs.VARIANT: 0.75},
        attention=("one.", "two."),
        cure="salt each request",
    )
    commands = ["draftworth compare --again runs/built", "draftworth estimate X --answers Y"]
    full = answer_lines(made, next_commands=commands, files="runs/built")
    assert len(full) == MOST_LINES
    assert full[3].endswith("more figures: --verbose")
    assert full[-4:-1] == ["Cure:  salt each request", *(f"Next:  {c}" for c in commands)]


RECORDS = (Answer, ByClassCosts, EqualPrice, EqualShare, Finding, ServerFigures, StepTokens)


def test_every_key_of_the_record_is_documented() -> None:
    page = (ROOT / "docs" / "json.md").read_text()
    for record in RECORDS:
        for field in fields(record):
            assert f"`{field.name}`" in page


@pytest.mark.parametrize("name", STATES)
def test_all_forms_of_an_answer_serve_the_same(name: str) -> None:
    """The forms: the ten lines, the record, the handover and the winner that is exported."""
    facts = facts_of_state(name)
    made, baseline = answer_of(facts), facts.run.result.baseline
    winner = None
    with suppress(NoWinnerError):
        winner = winner_to_export(facts)
    assert made.decision.startswith("Decision: serve ") == (winner is not None)
    assert made.missing == () if winner else made.missing
    assert bool(made.next_step) == (winner is None or facts.run.search is not None)
    if made.serve_by_class:
        served = {c for c, name in made.serve_by_class.items() if name != baseline}
        assert winner is not None
        assert (winner.speculates, {*winner.classes}) == (True, served)
        assert not made.decision.startswith("Decision: serve without")
    else:
        assert made.serve == (winner.variant if winner else None)
        is_baseline = made.decision.startswith("Decision: serve without")
        assert is_baseline == (made.serve == baseline)


@pytest.mark.parametrize("name", STATES)
def test_the_record_reads_back(name: str) -> None:
    run_answer = answer_of(facts_of_state(name))
    assert load_record(Answer, dump_record(run_answer)) == run_answer
