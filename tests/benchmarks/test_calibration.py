"""A cell of the calibration, small enough for every day (docs/appendix/calibration.md)."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from benchmarks.calibration import JudgedRun, outcomes
from benchmarks.planted import BASELINE, BOUNDARY, LOADS, SAMPLING, VARIANT, Cell, planted_blocks
from draftworth.analysis import clustering
from draftworth.analysis.clustering import Sample
from draftworth.analysis.pairing import Pair, Traffic
from draftworth.analysis.statistics import interval_of
from draftworth.decision import verdict
from draftworth.measuring.decided import Decided
from draftworth.records.judgement import Judgement
from tests.support.covering import least_covering

RUNS = 60
# What prompts have in common is most of the error here, and drift the rest.
CELL = Cell(cost_ratio=BOUNDARY, spread=0.2, drift=0.3)
# Starts differ by more than anything else here.
STARTS = Cell(cost_ratio=BOUNDARY, cases=4, spread=0.05, repetitions=4, between=0.12)


def covering(judged_runs: Sequence[JudgedRun]) -> int:
    return sum(outcome.covers(BOUNDARY) is True for outcome in judged_runs)


@pytest.fixture(scope="module")
def judged() -> list[JudgedRun]:
    return outcomes(CELL, RUNS)


def test_intervals_cover_the_truth_when_runs_stop(judged: list[JudgedRun]) -> None:
    assert covering(judged) >= least_covering(RUNS)


def test_without_clustering_it_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request taken as a prompt and a block of its own: the test above can fail."""
    numbers = iter(range(10_000_000))

    def alone(pair: Pair, value: float, *, weight: float = 1.0) -> Sample:
        number = str(next(numbers))
        return Sample(
            weight=weight, stratum=pair.place.stratum, prompt=number, block=number, value=value
        )

    monkeypatch.setattr(Pair, "sample", alone)
    assert covering(outcomes(CELL, 40)) < least_covering(40) - 4


def test_cheaper_is_rarely_said_of_what_is_not(judged: list[JudgedRun]) -> None:
    """At the boundary, 2.5% of verdicts are nominally false: at most 6 of 60 runs may be.

    1% of runs are withheld because a server seems to warm up.
    """
    assert [o.comparison.judgement for o in judged].count(Judgement.CHEAPER) <= 6
    cheap = [o.comparison.judgement for o in outcomes(replace(CELL, cost_ratio=0.5), 20)]
    assert cheap.count(Judgement.CHEAPER) >= 18


def test_runs_stop_by_the_deployed_rule() -> None:
    """Narrow where prompts are alike, and not to the end where only prompts would help."""
    alike = outcomes(replace(CELL, spread=0.02, cases=4), 10)
    assert max(outcome.rounds for outcome in alike) < CELL.rounds
    differing = outcomes(replace(CELL, spread=0.4, drift=0.0), 10)
    assert min(outcome.rounds for outcome in differing) < CELL.rounds


def test_many_repetitions_cover_the_truth_of_any() -> None:
    assert covering(outcomes(STARTS, 25)) >= least_covering(25)


def test_without_clustering_by_repetition_they_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: all of them taken for one, about half of the intervals cover."""
    with_repetition = Pair.sample

    def alone(pair: Pair, value: float, *, weight: float = 1.0) -> Sample:
        return with_repetition(pair, value, weight=weight)._replace(repetition="")

    monkeypatch.setattr(Pair, "sample", alone)
    assert covering(outcomes(STARTS, 20)) < least_covering(20) - 2


def test_few_repetitions_cover_only_what_they_show() -> None:
    judged_runs = outcomes(replace(STARTS, repetitions=2), 25)
    assert sum(o.covers(o.truth) is True for o in judged_runs) >= least_covering(25)
    assert covering(judged_runs) < least_covering(25) - 4


# Blocks are most of the error. The run looks at its verdict after rounds 4 to 10.
LOOKS = Cell(
    cost_ratio=BOUNDARY,
    cases=2,
    prompts=4,
    spread=0.02,
    block_error=0.04,
    stop="decided",
    sampling=replace(SAMPLING, requests_per_round=4, min_requests=8, max_requests=40),
)


def missed_and_false(judged_runs: Sequence[JudgedRun]) -> tuple[int, int]:
    """Return how many intervals do not hold the truth, and how many verdicts are false.

    At the boundary the variant is not cheaper by enough, so "cheaper" is false.
    """
    judgements = [outcome.comparison.judgement for outcome in judged_runs]
    return len(judged_runs) - covering(judged_runs), judgements.count(Judgement.CHEAPER)


def test_intervals_cover_whenever_a_verdict_ends_runs() -> None:
    """Nominally 5% are missed, 3 of 60, and half of these are false."""
    missed_runs, false = missed_and_false(outcomes(LOOKS, RUNS))
    assert missed_runs <= 3
    assert false <= 1


def test_intervals_of_one_look_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: with 95% at each look, a verdict is false more than once."""
    monkeypatch.setattr(Decided, "looks", staticmethod(lambda _: 1))
    missed_runs, false = missed_and_false(outcomes(LOOKS, RUNS))
    assert missed_runs > 3
    assert false > 2


def test_a_clear_verdict_ends_runs_early() -> None:
    far = replace(LOOKS, cost_ratio=0.5)
    decided, precise = (
        sum(outcome.rounds for outcome in outcomes(cell, 10))
        for cell in (far, replace(far, stop="precise"))
    )
    assert decided < 0.7 * precise


# A block that follows the variant's costs 10% more, most of it in its first requests.
CARRIED = Cell(cost_ratio=BOUNDARY, cases=4, spread=0.05, carry_over=0.25, carry_over_half_life=2.0)


def test_a_warm_up_outlasts_what_a_block_leaves() -> None:
    assert covering(outcomes(replace(CARRIED, warmup_requests=8), 40)) >= least_covering(40)


def test_one_request_of_warm_up_does_not() -> None:
    """The test above can fail: the warm-up that `compare` has unless more is asked for."""
    assert covering(outcomes(replace(CARRIED, warmup_requests=1), 40)) < least_covering(40)


def test_no_warm_up_outlasts_what_stays() -> None:
    stays = replace(CARRIED, carry_over=0.1, carry_over_half_life=math.inf, warmup_requests=8)
    assert covering(outcomes(stays, 40)) < least_covering(40)


# A case of two prompts decides nearly alone what a token costs.
HEAVY = Cell(
    cost_ratio=1.0,
    cases=4,
    prompts_of=(2, 16, 16, 16),
    tokens_of=(50.0, 1.0, 1.0, 1.0),
    block_error=0.005,
)


def missed(runs: int) -> int:
    """Return how many intervals after eight rounds do not hold the planted truth."""
    ratios = [
        verdict.compare(
            planted_blocks(HEAVY, rounds=8, seed=seed),
            Traffic(weights=HEAVY.traffic, load=LOADS[0]),
            variant=VARIANT,
            baseline=BASELINE,
        ).cost_ratio
        for seed in range(runs)
    ]
    intervals = [ends for ratio in ratios if (ends := interval_of(ratio))]
    return sum(not low <= 1.0 <= high for low, high in intervals)


def test_two_heaviest_prompts_are_as_uncertain_as_two() -> None:
    assert missed(25) <= 2


def test_counting_prompts_equally_would_miss_the_truth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def counted(strata: Sequence[Sequence[object]]) -> float:
        return float(sum(len(stratum) - 1 for stratum in strata))

    monkeypatch.setattr(clustering, "_degrees_of_freedom", counted)
    assert missed(25) > 4


def test_a_control_takes_back_what_a_slot_does() -> None:
    """Two slots that differ by 10% or more make a variant cheaper that is not; the control sees it.

    It has no part in a gain that is one.
    """
    planted = Cell(cost_ratio=1.0, cases=4, spread=0.05, slots=0.15)
    shares = {
        control: [o.comparison.judgement for o in outcomes(replace(planted, control=control), 25)]
        for control in (False, True)
    }
    assert shares[False].count(Judgement.CHEAPER) > 3
    assert shares[True].count(Judgement.CHEAPER) <= 1
    gain = outcomes(replace(planted, cost_ratio=0.7, slots=0.0, control=True), 20)
    assert all(o.comparison.clears_floor for o in gain)
