"""The simulated server of rates: its queue, and how low TTFT reads after a short warm-up."""

import math
import random
from itertools import islice
from statistics import fmean

import pytest

from benchmarks.rate_warmup import (
    DECODING_SPREAD,
    PREFILL_S,
    measured_p95_s,
    rises_within,
    run_of,
    served,
    true_p95_s,
)


def test_a_queue_is_as_long_as_theory_says() -> None:
    """The mean wait of one seat follows from the mean square of the service (Pollaczek 1930)."""
    use = 0.5
    requests = islice(served(random.Random(1), per_second=use, seats=1), 200_000)
    waits_s = [ttft_s - PREFILL_S for ttft_s, _ in requests]
    mean_square = math.exp(DECODING_SPREAD**2)
    assert fmean(waits_s) == pytest.approx(use * mean_square / (2 * (1 - use)), rel=0.05)


@pytest.mark.parametrize(("warmup", "low", "high"), [(1, 0.25, 0.45), (32, 0.88, 1.1)])
def test_ttft_is_low_after_a_short_warm_up(warmup: int, low: float, high: float) -> None:
    measured_s = measured_p95_s(use=0.5, seats=4, warmup=warmup, requests=8)
    assert low < measured_s / true_p95_s(use=0.5, seats=4) < high


@pytest.mark.parametrize(("warmup", "rises"), [(1, True), (32, False)])
def test_ttft_rises_within_blocks_that_begin_idle(warmup: int, *, rises: bool) -> None:
    blocks = run_of(0, seats=4, warmup=warmup, requests=8)
    at_70_percent = [b for b in blocks if b.load.arrivals_per_second == 0.7 * 4]
    assert rises_within(at_70_percent) is rises
