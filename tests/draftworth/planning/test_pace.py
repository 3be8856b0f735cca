"""How long requests take: hand-computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftworth.planning.assumptions import Bounds, assumption_data
from draftworth.planning.pace import Pace, round_counts, round_minutes, waves
from draftworth.planning.resolved import ResolvedNeuron, load_neuron
from draftworth.records.results import Load
from tests.support.experiments import Edit, both, put, write_experiment

# 0.5 s + 100 x 45 ms = 5 s a request in both estimates.
FIVE_SECONDS = Pace(
    variant="v",
    first_token_seconds=Bounds(low=0.5, high=0.5),
    ms_per_token=Bounds(low=45, high=45),
    output_tokens=100,
)


def concurrency(in_flight: int) -> Load:
    return Load(kind="concurrency", concurrency=in_flight, requests_per_second=None)


def poisson(rate: float) -> Load:
    return Load(kind="poisson", concurrency=0, requests_per_second=rate)


def experiment(folder: Path, *edits: Edit) -> ResolvedNeuron:
    return load_neuron(write_experiment(folder, both(*edits)))


@pytest.mark.parametrize(
    ("requests", "in_flight", "seats", "expected"),
    [(8, 4, 4, 2), (9, 4, 4, 3), (1, 4, 4, 1), (8, 8, 4, 2), (8, 1, 4, 8)],
)
def test_requests_come_in_waves_of_what_is_in_flight_and_decoded_at_once(
    requests: int, in_flight: int, seats: int, expected: int
) -> None:
    assert waves(requests, concurrency(in_flight), seats) == expected


def test_a_wave_takes_as_long_as_one_request() -> None:
    assert FIVE_SECONDS.sending_seconds("low", requests=8, load=concurrency(4), seats=4) == 10


def test_no_requests_take_no_time() -> None:
    assert FIVE_SECONDS.sending_seconds("low", requests=0, load=concurrency(4), seats=4) == 0
    assert FIVE_SECONDS.sending_seconds("low", requests=0, load=poisson(1), seats=4) == 0


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (0.5, 8 / 0.5 + 5),  # they arrive in 16 s, and the last one takes 5
        (100.0, 2 * 5),  # at once: two waves of four
    ],
)
def test_requests_at_random_times_take_their_arrival_or_their_decoding(
    rate: float, expected: float
) -> None:
    assert FIVE_SECONDS.sending_seconds("high", requests=8, load=poisson(rate), seats=4) == expected


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
        concurrency(4),
        bound="low",
    )

    assert minutes == pytest.approx(expected)
