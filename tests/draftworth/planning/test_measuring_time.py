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


FIVE_SECONDS = "first_token_seconds 2 + 600 tokens x baseline_ms_per_token 5 / 1000"


def five_second_requests(load: Load, *requests: int) -> Bounds:
    """On a server that decodes four at once."""
    assumed = BY_HAND.replaced(["first_token_seconds=2", "baseline_ms_per_token=5"])
    assert (QWEN.spec.workload.output_tokens, QWEN.spec.serving.max_num_seqs) == (600, 4)
    return sending_seconds(QWEN, QWEN.variants[0], load, assumed, requests)


@pytest.mark.parametrize(
    ("requests", "in_flight", "waves"),
    [(8, 4, 2), (9, 4, 3), (1, 4, 1), (8, 8, 2), (8, 1, 8), (0, 4, 0)],
)
def test_requests_come_in_waves_of_what_is_in_flight_and_decoded_at_once(
    requests: int, in_flight: int, waves: int
) -> None:
    sending = five_second_requests(ConcurrencyLoad(concurrency=in_flight), requests)

    assert sending == exactly(waves * 5)
    assert sending.how == f"{waves} waves x ({FIVE_SECONDS})"


@pytest.mark.parametrize(
    ("rate", "requests", "expected"),
    [
        (0.5, 8, 8 / 0.5 + 5),  # they arrive in 16 s, and the last one takes 5
        (100.0, 8, 2 * 5),  # at once: two waves of four
        (1.0, 0, 0),
    ],
)
def test_requests_at_random_times_take_their_arrival_or_their_decoding(
    rate: float, requests: int, expected: float
) -> None:
    assert five_second_requests(PoissonLoad(requests_per_second=rate), requests) == exactly(
        expected
    )


def test_counts_are_sent_one_after_the_other() -> None:
    assert five_second_requests(ConcurrencyLoad(concurrency=4), 4, 8) == exactly(5 + 10)


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
