"""The speed of a server in a mix: each class takes its part of the tokens."""

import pytest

from draftworth.analysis.pairing import Traffic
from draftworth.analysis.speeds import Speed, speed_of
from draftworth.records.load_shapes import ConcurrencyLoad
from tests.support.blocks import make_block, make_record

LOAD = ConcurrencyLoad(concurrency=1)


def speed(weights: dict[str, float]) -> Speed:
    """Return the speed of a server with 100 tokens/s in one class and 50 tokens/s in the other."""
    blocks = [
        make_block(
            block=number,
            prompt_class=name,
            variant="k7",
            load=LOAD,
            requests=(make_record(end_to_end_latency_s=s, inter_token_latency_s=s / 100),),
        )
        for number, (name, s) in enumerate({"fast": 1.0, "slow": 2.0}.items())
    ]
    return speed_of(blocks, Traffic(weights=weights, load=LOAD), "k7")


def test_the_slow_class_holds_the_server_longer() -> None:
    mixed = speed({"fast": 0.5, "slow": 0.5})
    # 50 tokens in 0.5 s and 50 tokens in 1 s.
    assert mixed.output_throughput_token_per_s == pytest.approx(100 / 1.5)
    assert mixed.inter_token_latency_s == pytest.approx(0.015)


def test_a_class_that_was_not_measured_leaves_none() -> None:
    missing = Speed(inter_token_latency_s=None, output_throughput_token_per_s=None)
    assert speed({"fast": 0.5, "absent": 0.5}) == missing
