"""How many Ray actors a run needs."""

import pytest

from draftworth.measuring.run_specification import RunSpec
from draftworth.records.load_shapes import (
    LEAST_WARMUP_AT_A_RATE,
    MAX_LLMPERF_IN_FLIGHT,
    ConcurrencyLoad,
    Load,
    PoissonLoad,
)
from pods.measuring.actor_count import actors_needed, too_many_for_one_machine
from tests.support.specifications import endpoint, sampling, specification

POISSON = PoissonLoad(requests_per_second=200.0)


def concurrency(count: int) -> Load:
    return ConcurrencyLoad(concurrency=count)


def spec(*loads: Load, requests: int = 8, parallel: bool = False) -> RunSpec:
    """Return a run of two servers that asks for one warm-up request per block."""
    return specification(
        (endpoint("baseline", 0), endpoint("k7", 1)),
        loads=loads,
        sampling=sampling(
            requests_per_round=requests,
            min_requests=requests,
            max_requests=requests,
            warmup_requests=1,
        ),
        parallel=parallel,
    )


@pytest.mark.parametrize(
    ("run", "address", "actors"),
    [
        (spec(concurrency(1), concurrency(4)), None, 4),
        (spec(concurrency(16), requests=8), None, 16),
        (spec(concurrency(4), parallel=True), None, 8),
        (spec(POISSON, requests=8), None, MAX_LLMPERF_IN_FLIGHT),
        (spec(POISSON, requests=8), "ray://head:10001", LEAST_WARMUP_AT_A_RATE + 8),
        (spec(POISSON, requests=500), None, MAX_LLMPERF_IN_FLIGHT),
        (spec(POISSON, requests=500, parallel=True), None, MAX_LLMPERF_IN_FLIGHT),
        (spec(POISSON, requests=500), "ray://head:10001", LEAST_WARMUP_AT_A_RATE + 500),
    ],
)
def test_there_is_an_actor_per_request_in_flight(
    run: RunSpec, address: str | None, actors: int
) -> None:
    assert actors_needed(run, address) == actors


def test_one_machine_has_a_limited_number_of_actors() -> None:
    assert too_many_for_one_machine(MAX_LLMPERF_IN_FLIGHT) == ""
    assert "--ray-address" in too_many_for_one_machine(MAX_LLMPERF_IN_FLIGHT + 1)
