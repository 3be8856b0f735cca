"""How long requests take: hand-computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftworth.planning.assumptions import assumption_data
from draftworth.planning.measuring_time import RoundCounts, block_seconds, round_minutes
from draftworth.planning.resolved import ResolvedNeuron, load_neuron
from draftworth.records.load import ConcurrencyLoad, Load, PoissonLoad
from tests.support.experiments import Edit, both, put, write_experiment
from tests.support.timelines import BY_HAND, QWEN


def experiment(folder: Path, *edits: Edit) -> ResolvedNeuron:
    return load_neuron(write_experiment(folder, both(*edits)))


@pytest.mark.parametrize(
    ("load", "expected", "sent"),
    [
        # 2 s + 600 x 5 ms = 5 s a request; four streams of 1 warm-up and 2 measured ones each.
        (ConcurrencyLoad(concurrency=4), 15, "(4 warm-up + 8) / 4 at once x"),
        # They arrive in 6 s, twelve take three waves.
        (
            PoissonLoad(requests_per_second=2),
            15,
            "4 warm-up + 8 requests at 2 a second, 4 decoded at once, each",
        ),
    ],
)
def test_a_block_is_its_warm_up_its_requests_and_what_is_done_between_blocks(
    load: Load, expected: float, sent: str
) -> None:
    assumed = BY_HAND.replaced(
        ["first_token_seconds=2", "baseline_ms_per_token=5", "block_overhead_seconds=1"]
    )
    work = QWEN.spec.workload
    assert (work.output_tokens, work.warmup_requests, work.requests_per_round) == (600, 4, 8)
    seconds = block_seconds(QWEN, QWEN.variants[0], load, assumed)

    assert (seconds.best, seconds.worst) == (expected + 1, expected + 1)
    one = "(first_token_seconds 2 + 600 tokens x baseline_ms_per_token 5 / 1000)"
    assert seconds.how == f"{sent} {one} + block_overhead_seconds 1"


@pytest.mark.parametrize(
    ("per_round", "least", "most", "expected"),
    [(8, 16, 64, (2, 6)), (8, 17, 64, (3, 5)), (8, 8, 8, (1, 0)), (5, 8, 12, (2, 0))],
)
def test_rounds_go_from_the_least_requests_to_the_most(
    tmp_path: Path, per_round: int, least: int, most: int, expected: tuple[int, int]
) -> None:
    counts = RoundCounts.of(
        experiment(
            tmp_path,
            put("workload", "requests_per_round", value=per_round),
            put("workload", "min_requests", value=least),
            put("workload", "max_requests", value=most),
        )
    )

    assert (counts.all_least, counts.all_further) == expected


@pytest.mark.parametrize(
    ("parallel", "expected"),
    [
        # Three requests a stream, of 30 s and of 15 s, 6 s on top: 96 + 51 s, 8 cases.
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
        ConcurrencyLoad(concurrency=4),
        assumed,
    )

    assert minutes.best == pytest.approx(expected)
