"""A cost ratio that is not steady yet in the rounds after the servers' start decides nothing."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from benchmarks.planted import BASELINE, LOADS, VARIANT, Cell, planted_blocks
from draftworth.analysis.doubts import NotSteadyYet
from draftworth.analysis.first_rounds import change_after_start
from draftworth.analysis.pairing import Pair, Traffic, counting, paired
from draftworth.decision.verdict import compare
from draftworth.records.judgement import Judgement
from draftworth.report.reason_sentences import reason_words
from draftworth.report.sentences import rare_sentences

RUNS = 40
CELL = Cell(cost_ratio=0.8, cases=4, spread=0.05)
WARMS_UP = replace(CELL, warm_up=0.3)
TRAFFIC = Traffic(weights=CELL.traffic, load=LOADS[0])


def pairs(cell: Cell, *, rounds: int = 4, seed: int = 0) -> tuple[Pair, ...]:
    blocks = planted_blocks(cell, rounds=rounds, seed=seed)
    return counting(paired(blocks, TRAFFIC, variant=VARIANT, baseline=BASELINE))


def not_steady_yet(of_run: Sequence[Pair]) -> NotSteadyYet | None:
    return change_after_start(of_run).doubt


@pytest.mark.parametrize("rounds", [4, 8])
def test_a_server_that_warms_up_is_seen(rounds: int) -> None:
    changes = [not_steady_yet(pairs(WARMS_UP, rounds=rounds, seed=seed)) for seed in range(RUNS)]
    assert sum(change is not None for change in changes) >= RUNS - 1


def test_servers_that_do_not_are_believed() -> None:
    """1% of such runs seem unsteady: of 40, more than 3 do in fewer than one of 10,000 tests."""
    changes = [not_steady_yet(pairs(CELL, seed=seed)) for seed in range(RUNS)]
    assert sum(change is not None for change in changes) <= 3


def test_the_planted_change_is_the_reported_one() -> None:
    change = not_steady_yet(pairs(WARMS_UP, rounds=8))
    assert change is not None
    assert change.first_times == pytest.approx(1 / 1.3, rel=0.08)


def test_rounds_of_different_prompts_are_compared() -> None:
    """Of 32 prompts in rounds of 8, the first four rounds have no prompt in common."""
    large = replace(WARMS_UP, cases=2, prompts=32)
    assert not_steady_yet(pairs(large, rounds=8)) is not None
    assert not_steady_yet(pairs(replace(large, warm_up=0.0), rounds=8)) is None


def test_two_rounds_of_one_case_show_nothing() -> None:
    assert not_steady_yet(pairs(replace(WARMS_UP, cases=1), rounds=2)) is None


def test_a_small_change_is_believed() -> None:
    """2% more in the first round is within what counts as equal, however clearly it is seen."""
    blocks = planted_blocks(replace(CELL, block_error=0.0, warm_up=0.02), rounds=8, seed=0)
    small = counting(paired(blocks, TRAFFIC, variant=VARIANT, baseline=BASELINE))
    assert not_steady_yet(small) is None


def test_pairs_without_tokens_are_left_out() -> None:
    untold = [
        replace(pair, plain=replace(pair.plain, number_output_tokens=None))
        for pair in pairs(WARMS_UP)
    ]
    assert not_steady_yet(untold) is None


def test_no_verdict_while_the_ratio_is_unsteady() -> None:
    blocks = planted_blocks(WARMS_UP, rounds=4, seed=0)
    comparison = compare(blocks, TRAFFIC, variant=VARIANT, baseline=BASELINE)
    assert comparison.judgement == Judgement.INCONCLUSIVE
    assert isinstance(comparison.reason, NotSteadyYet)
    assert "a server still warmed up; in the first round the cost ratio is" in reason_words(
        comparison
    )
    steady = planted_blocks(CELL, rounds=4, seed=0)
    believed = compare(steady, TRAFFIC, variant=VARIANT, baseline=BASELINE)
    assert believed.judgement == Judgement.CHEAPER


@pytest.mark.parametrize(
    ("cell", "rounds", "is_enough"),
    [(CELL, 4, True), (CELL, 2, True), (replace(CELL, cases=1), 2, False), (CELL, 1, False)],
)
def test_too_few_rounds_show_no_warm_up(cell: Cell, rounds: int, is_enough: bool) -> None:
    """The decision says so: no doubt then does not mean that none was there."""
    cheap = replace(cell, cost_ratio=0.2)
    assert change_after_start(pairs(cheap, rounds=rounds)).shows_warm_ups is is_enough
    blocks = planted_blocks(cheap, rounds=rounds, seed=0)
    comparison = compare(blocks, TRAFFIC, variant=VARIANT, baseline=BASELINE)
    sentence = "do not show whether a server warms up"
    assert (sentence in rare_sentences(comparison)) is not is_enough
