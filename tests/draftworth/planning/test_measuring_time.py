"""How long requests take: hand-computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftworth.planning.assumptions import assumption_data
from draftworth.planning.bounds import Bounds, exactly
from draftworth.planning.measuring_time import round_counts, round_minutes, sending_seconds
from draftworth.planning.resolved import ResolvedNeuron, load_neuron
from draftworth.records.load import ConcurrencyLoad, Load, PoissonLoad
from tests.support.experiments import Edit, both, put, write_experiment
from tests.support.timelines import BY_HAND, QWEN


def experiment(folder: Path, *edits: Edit) -> ResolvedNeuron:
    return load_neuron(write_experiment(folder, both(*edits)))


@pytest.mark.parametrize(
    ("load", "expected", "sent"),
    [
        # 2 s + 600 x 5 ms = 5 s a request, four decoded at once: one wave, then two.
        (ConcurrencyLoad(concurrency=4), 5 + 10, "1 + 2 waves x"),
        # They arrive in 2 s and 4 s; the last one of each takes 5 s more, eight take two waves.
        (
            PoissonLoad(requests_per_second=2),
            7 + 10,
            "4 + 8 requests at 2 a second, 4 decoded at once, each",
        ),
    ],
)
def test_requests_are_sent_count_after_count(load: Load, expected: float, sent: str) -> None:
    assumed = BY_HAND.replaced(["first_token_seconds=2", "baseline_ms_per_token=5"])
    assert (QWEN.spec.workload.output_tokens, QWEN.spec.serving.max_num_seqs) == (600, 4)
    seconds = sending_seconds(QWEN, QWEN.variants[0], load, assumed, (4, 8))

    assert seconds == exactly(expected)
    one = "(first_token_seconds 2 + 600 tokens x baseline_ms_per_token 5 / 1000)"
    assert seconds.how == f"{sent} {one}"


@pytest.mark.parametrize(
    ("per_round", "least", "most", "expected"),
    [
        (8, 16, 64, Bounds(2, 8)),
        (8, 17, 64, Bounds(3, 8)),
        (8, 8, 8, Bounds(1, 1)),
        (5, 12, 12, Bounds(2, 2)),  # the runner has room for two rounds of five
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
        ConcurrencyLoad(concurrency=4),
        assumed,
    )

    assert minutes.best == pytest.approx(expected)
