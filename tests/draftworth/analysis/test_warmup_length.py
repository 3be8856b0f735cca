"""How many warm-up requests a request rate takes, by the requests in flight and those that wait."""

from dataclasses import replace

import pytest

from draftworth.analysis.summary import Group
from draftworth.analysis.warmup_length import short_warmup
from draftworth.records.load_shapes import ConcurrencyLoad, Load, PoissonLoad
from draftworth.records.results import BlockResult
from tests.support.blocks import make_block, make_failed_record, make_record

TWO_PER_SECOND = PoissonLoad(requests_per_second=2.0)


def measured(
    *waits_s: float, took_s: float = 1.0, warmup: int = 32, load: Load = TWO_PER_SECOND
) -> BlockResult:
    """Return a block of one prompt, whose requests have a TTFT of 0.1 s beside what they wait."""
    records = (
        make_record(n, prompt_id="p", ttft_s=0.1 + wait_s, end_to_end_latency_s=took_s)
        for n, wait_s in enumerate(waits_s)
    )
    return make_block(variant="k7", load=load, warmup_requests=warmup, requests=tuple(records))


def needed(*blocks: BlockResult, load: Load = TWO_PER_SECOND) -> int | None:
    """Return how many warm-up requests are needed; None: there are enough."""
    short = short_warmup(blocks, Group(prompt_class="structured", load=load), "k7")
    return short.needed if short else None


def test_a_rate_takes_32_requests_in_any_case() -> None:
    assert needed(measured(0.0, 0.0)) is None
    assert needed(measured(0.0, 0.0), measured(0.0, 0.0, warmup=31)) == 32


def test_seats_fill_within_three_requests() -> None:
    """At two per second, requests of 6 s are 12 in flight, those of 5 s 10."""
    assert needed(measured(0.0, 0.0, took_s=6.0)) == 36
    assert needed(measured(0.0, 0.0, took_s=6.0, warmup=36)) is None
    assert needed(measured(0.0, 0.0, took_s=5.0)) is None


def test_a_queue_takes_its_square() -> None:
    """At two per second, a wait of 3 s is a queue of 6: it takes 1.5 x 36 requests."""
    waiting = [0.0] * 3 + [3.0] * 97
    assert needed(measured(*waiting)) == 54
    assert needed(measured(*waiting, warmup=54)) is None
    assert needed(measured(*[0.0] * 96, *[3.0] * 4)) is None


def test_a_prompt_waits_least_at_its_lowest_rate() -> None:
    """A prompt's own prefill is no wait, which only a rate without a queue shows."""
    lowest = PoissonLoad(requests_per_second=0.1)
    assert needed(measured(3.0, 3.0)) is None
    assert needed(measured(3.0, 3.0), measured(0.0, load=lowest)) == 54
    longer = replace(lowest, input_tokens=8000)
    assert needed(measured(3.0, 3.0), measured(0.0, load=longer)) is None


def test_prompts_sent_once_are_compared_within_their_case() -> None:
    """Each request is another prompt: its own TTFT does not tell whether it waited."""
    block = measured(*[0.0] * 3, *[3.0] * 97)
    each_its_own = [replace(r, prompt_id=f"p{n}") for n, r in enumerate(block.requests)]
    assert needed(replace(block, requests=tuple(each_its_own))) == 54
    four_each = [replace(r, prompt_id=f"p{n // 4}") for n, r in enumerate(block.requests)]
    assert needed(replace(block, requests=tuple(four_each))) is None


def test_a_time_out_is_a_wait() -> None:
    late = make_failed_record(prompt_id="p", timed_out_after_s=3.1)
    block = measured(0.0)
    assert needed(replace(block, requests=(*block.requests, *[late] * 99))) == 54


@pytest.mark.parametrize("load", [ConcurrencyLoad(concurrency=4), TWO_PER_SECOND])
def test_only_rates_have_a_queue_to_build(load: Load) -> None:
    block = measured(0.0, 9.0, warmup=0, load=load)
    assert (needed(block, load=load) is None) is (load != TWO_PER_SECOND)
    assert needed(load=load) is None
