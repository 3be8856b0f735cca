"""How long requests take: hand-computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftworth.planning.assumptions import Bounds, assumption_data
from draftworth.planning.pace import round_counts, round_minutes
from draftworth.planning.resolved import ResolvedNeuron, load_neuron
from draftworth.records.load import ConcurrencyLoad
from tests.support.experiments import Edit, both, put, write_experiment


def experiment(folder: Path, *edits: Edit) -> ResolvedNeuron:
    return load_neuron(write_experiment(folder, both(*edits)))


@pytest.mark.parametrize(
    ("per_round", "least", "most", "expected"),
    [
        (8, 16, 64, Bounds(low=2, high=8)),
        (8, 17, 64, Bounds(low=3, high=8)),
        (8, 8, 8, Bounds(low=1, high=1)),
        (5, 12, 12, Bounds(low=2, high=2)),  # the runner has room for two rounds of five
    ],
)
def test_rounds_go_from_the_least_requests_to_the_most(
    tmp_path: Path, per_round: int, least: int, most: int, expected: Bounds
) -> None:
    work = experiment(
        tmp_path,
        put("workload", "requests_per_round", value=per_round),
        put("workload", "min_requests", value=least),
        put("workload", "max_requests", value=most),
    ).spec.workload

    assert round_counts(work) == expected


@pytest.mark.parametrize(
    ("parallel", "expected"),
    [
        # 3 waves of 30 s, then 3 of 15 s, 6 s on top of each: 96 + 51 s, 8 cases.
        (False, 8 * (96 + 51) / 60),
        (True, 8 * 96 / 60),
    ],
)
def test_a_round_is_every_case_against_every_variant(
    tmp_path: Path, *, parallel: bool, expected: float
) -> None:
    assumed = assumption_data().assumptions.replaced(
        [
            "baseline_ms_per_token=50",
            "speculative_ms_per_token=25",
            "first_token_seconds=0",
            "block_overhead_seconds=6",
        ]
    )
    minutes = round_minutes(
        experiment(tmp_path, put("workload", "parallel", value=parallel)),
        assumed,
        ConcurrencyLoad(concurrency=4),
        bound="low",
    )

    assert minutes == pytest.approx(expected)
