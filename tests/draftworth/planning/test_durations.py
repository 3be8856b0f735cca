"""How long transfers, blocks and rounds last, computed by hand."""

from pathlib import Path

import pytest

from draftworth.planning.assumptions import CASES, Assumptions, Case, assumption_data, replaced
from draftworth.planning.durations import GBIT_PER_GIB, Durations
from draftworth.planning.resolved import ResolvedNeuron, load_neuron
from draftworth.records.load_shapes import ConcurrencyLoad, Load, PoissonLoad
from tests.support.experiments import Edit, both, put, write_experiment
from tests.support.timelines import BY_HAND, QWEN


def experiment(folder: Path, *edits: Edit) -> ResolvedNeuron:
    return load_neuron(write_experiment(folder, both(*edits)))


def durations(assumed: Assumptions, of: ResolvedNeuron = QWEN, case: Case = "best") -> Durations:
    return Durations(experiment=of, assumed=assumed, case=case)


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        # A request takes 2 s + 600 x 5 ms = 5 s. Each of the four streams sends 1 warm-up request
        # and 2 measured ones, so 15 s.
        (ConcurrencyLoad(concurrency=4), 15),
        # The 32 warm-up requests and 8 measured ones arrive in 20 s, but only 4 run at once: ten
        # waves of 5 s.
        (PoissonLoad(requests_per_second=2), 50),
    ],
)
def test_a_block_is_warm_up_requests_and_overhead(load: Load, expected: float) -> None:
    assumed = replaced(
        BY_HAND, ["first_token_seconds=2", "baseline_ms_per_token=5", "block_overhead_seconds=1..9"]
    )
    work = QWEN.spec.workload
    assert (work.output_tokens, work.warmup_requests, work.requests_per_round) == (600, 4, 8)

    best, worst = durations(assumed), durations(assumed, case="worst")
    assert best.block_seconds(QWEN.baseline, load) == expected + 1
    assert worst.block_seconds(QWEN.baseline, load) == expected + 9


def test_a_checkpoint_outside_the_catalogue_has_assumed_size() -> None:
    unknown = QWEN.spec.target.model_copy(update={"model": "someone/else"})
    assumed = replaced(BY_HAND, ["unknown_checkpoint_gib=6..60", f"hub_gbit_per_s={GBIT_PER_GIB}"])

    for case, gib in zip(CASES, (6, 60), strict=True):
        link = durations(assumed, case=case)
        assert link.transfer_minutes([unknown], "hub_gbit_per_s") == pytest.approx(gib / 60)
        minutes = link.transfer_minutes([QWEN.spec.target], "hub_gbit_per_s")
        assert minutes == pytest.approx(61.0 / 60)


@pytest.mark.parametrize(
    ("parallel", "expected"),
    [
        # Each stream sends three requests, of 30 s (baseline) or 15 s. With 6 s of overhead the
        # blocks of a case take 96 s + 51 s. There are 8 cases.
        (False, 8 * (96 + 51) / 60),
        (True, 8 * 96 / 60),
    ],
)
def test_a_round_is_every_case_against_every_variant(
    tmp_path: Path, *, parallel: bool, expected: float
) -> None:
    assumed = replaced(
        assumption_data().assumptions,
        [
            "baseline_ms_per_token=50",
            "speculative_ms_per_token=25",
            "first_token_seconds=0",
            "block_overhead_seconds=6",
        ],
    )
    of = experiment(tmp_path, put("workload", "parallel", value=parallel))
    minutes = durations(assumed, of).round_minutes(ConcurrencyLoad(concurrency=4))

    assert minutes == pytest.approx(expected)
