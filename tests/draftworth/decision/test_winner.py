"""The winner of a run: which server is to be kept, as in the headline, and its figures."""

from typing import Any

import pytest

from draftworth.decision.facts import RunFacts
from draftworth.decision.winner import NoWinnerError, Winner, WinnerFigures
from draftworth.records.load_shapes import ConcurrencyLoad, PoissonLoad
from draftworth.report.sentences import winner_to_export
from tests.draftworth.decision.loads import blocks_at, facts_at, in_flight
from tests.draftworth.report import runs
from tests.support.present import present


def mixed() -> RunFacts:
    """Return a run's figures where `structured` has so much traffic that the variant wins."""
    return runs.make_facts(runs.make_run(class_weights={"structured": 0.9, "open_ended": 0.1}))


def costlier() -> RunFacts:
    return runs.make_facts(runs.make_run(class_weights={"structured": 0.0, "open_ended": 1.0}))


def at(winner: Winner, traffic: str, load: str = "c4") -> WinnerFigures:
    (figures,) = [f for f in winner.figures if f.label == f"{traffic} at {load}"]
    return figures


def test_a_cheaper_variant_wins_with_all_figures() -> None:
    winner = winner_to_export(mixed())
    assert (winner.variant, winner.baseline) == (runs.VARIANT, runs.BASELINE)
    assert winner.speculates
    assert [f.traffic for f in winner.figures] == ["traffic mix", "structured", "open_ended"]
    structured, mix = at(winner, "structured"), at(winner, "traffic mix")
    assert structured.itl_s == pytest.approx(runs.STEP_S / 6, rel=0.05)
    assert structured.tokens_per_step == pytest.approx(6.0, rel=0.05)
    assert present(structured.itl_speedup).value == pytest.approx(2.0, rel=0.1)
    assert structured.judgement == "cheaper per token"
    assert at(winner, "open_ended").judgement == "more expensive"
    # 90% of the tokens come at six tokens per step, and 10% at two tokens per step.
    assert mix.tokens_per_step == pytest.approx(1 / (0.9 / 6 + 0.1 / 2), rel=0.03)
    assert present(present(mix.cost_ratio).high) < 1
    assert winner.longest_context_tokens == 64 + runs.TOKENS


def test_without_a_cheaper_variant_the_baseline_wins() -> None:
    winner = winner_to_export(costlier())
    assert (winner.variant, winner.speculates, winner.cheaper_up_to) == (runs.BASELINE, False, {})
    figures = at(winner, "traffic mix")
    assert (figures.judgement, figures.cost_ratio) == (None, None)
    assert figures.break_even_tokens_per_step is None
    assert figures.itl_s == pytest.approx(runs.PLAIN_ITL_S, rel=0.1)
    assert figures.tokens_per_step == pytest.approx(1.0)
    assert [c.judgement for c in winner.judged] == ["more expensive"]


ONE_ROUND = (runs.make_plain_block(1, "structured"), runs.make_drafted_block(2, "structured"))
ALONE = runs.two_rounds(runs.make_plain_block(1, "structured"))


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ({"blocks": ONE_ROUND}, "No answer yet: .*next: measure more"),
        ({"status": "failed", "reason": "no disk"}, "failed: no disk"),
        ({"blocks": ALONE, "variants": (runs.BASELINE,)}, "no verdict"),
        ({"blocks": blocks_at(PoissonLoad(requests_per_second=1.0))}, "kept full"),
    ],
    ids=["undecided", "failed", "the baseline alone", "arrivals at a rate"],
)
def test_an_undecided_run_has_no_winner_but_reasons(overrides: dict[str, Any], reason: str) -> None:
    run = runs.make_run(class_weights={"structured": 1.0}, **overrides)
    with pytest.raises(NoWinnerError, match=reason) as refused:
        winner_to_export(runs.make_facts(run))
    assert refused.value.exit_code == 1


def test_it_names_the_highest_load_that_is_cheaper() -> None:
    facts = facts_at(1, 2, 4)
    winner = winner_to_export(facts)
    (ladder,) = facts.ladders
    last = present(ladder.cheaper_up_to(runs.VARIANT))
    assert last.concurrency < 4, "the ladder must end somewhere for this to prove anything"
    assert winner.cheaper_up_to == {None: last.concurrency}
    assert last.concurrency in {getattr(load, "concurrency", 0) for load in winner.cheaper_at}
    assert ConcurrencyLoad(concurrency=4) not in winner.cheaper_at
    assert [f.load for f in winner.decisive] == list(in_flight(1, 2, 4))
