"""A doubt about a traffic mix holds for its classes, its prices and its next step too."""

from dataclasses import replace

from benchmarks.planted import BASELINE, VARIANT, Cell, planted_blocks
from draftworth.decision.facts import RunFacts, facts_of
from draftworth.decision.run_decision import Decision, Missing, NextStep
from draftworth.records.run_folder import Run
from draftworth.report.sentences import missing_sentences
from tests.draftworth.report import runs, states
from tests.support.blocks import make_run
from tests.support.present import present

CELL = Cell(cost_ratio=0.8, cases=2, spread=0.05, weights=(0.5, 0.5))
WARMS_UP = replace(CELL, warm_up=0.6)


def facts(cell: Cell) -> RunFacts:
    result = make_run(variants=(BASELINE, VARIANT), class_weights=cell.traffic)
    blocks = tuple(planted_blocks(cell, rounds=6, seed=2))
    return facts_of(Run(result=result, blocks=blocks), {})


def decision(cell: Cell) -> Decision:
    return facts(cell).decision


def test_a_doubted_mix_decides_nothing() -> None:
    doubted = decision(WARMS_UP)
    assert doubted.missing == (Missing.WARM_SERVERS,)
    assert doubted.next_step is NextStep.MEASURE_WARM_SERVERS
    assert (doubted.serve, doubted.by_class, doubted.by_share, doubted.by_price) == (
        None,
        None,
        (),
        None,
    )
    assert not doubted.more


def test_what_a_doubted_mix_misses_is_said() -> None:
    (missing,) = missing_sentences(facts(WARMS_UP))
    assert missing == "servers that have warmed up"
    counted_twice = runs.make_facts(states.with_requests(number_output_tokens=200))
    assert [*missing_sentences(counted_twice)] == ["servers that do the same work"]


def test_no_shortfall_is_printed_beside_a_doubt() -> None:
    for cell, is_printed in ((CELL, True), (WARMS_UP, False)):
        of_variants = facts(cell).speculative
        assert {present(v.comparison).doubt is None for v in of_variants} == {is_printed}
        assert any(v.shortfall for v in of_variants) is is_printed


def test_a_mix_of_steady_servers_decides() -> None:
    steady = decision(CELL)
    assert steady.serve == VARIANT
    assert steady.missing == ()
    assert steady.by_share
    assert steady.by_price
