"""What is computed from the blocks of a search, against sums by hand."""

from dataclasses import replace

import pytest

from draftworth.analysis.clustering import Sample
from draftworth.analysis.pairing import Traffic
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.results import BlockResult, SpeculationCounters
from draftworth.searching.measurements import (
    class_times,
    deviation_between_rounds,
    longer_than,
    measured_of,
    step_means,
)
from tests.support.blocks import make_block, make_record
from tests.support.present import present

LOAD = ConcurrencyLoad(concurrency=1)
TRAFFIC = Traffic(weights={"structured": 0.75, "open_ended": 0.25}, load=LOAD)


def block(prompt_class: str, variant: str, number: int, *, seconds: float) -> BlockResult:
    """Return a block: eight requests with 100 tokens, the first one after a tenth of `seconds`."""
    times = {"end_to_end_latency_s": seconds, "ttft_s": seconds / 10}
    records = tuple(make_record(i, **times) for i in range(8))
    return make_block(
        requests=records, prompt_class=prompt_class, variant=variant, round=number, load=LOAD
    )


def blocks(**drafted: float) -> list[BlockResult]:
    """Return two rounds. A request takes 2 s on the baseline, `drafted[class]` s on the variant."""
    return [
        made
        for number in (1, 2)
        for name in TRAFFIC.weights
        for made in (
            block(name, "baseline", number, seconds=2.0),
            block(name, "k7", number, seconds=drafted[name]),
        )
    ]


def test_the_baselines_time_splits_at_its_first_token() -> None:
    times = class_times(blocks(structured=1.0, open_ended=4.0), TRAFFIC, "baseline")
    assert times.keys() == TRAFFIC.weights.keys()
    assert times["structured"].weight == 0.75
    assert times["structured"].first_s == pytest.approx(0.2 / 100)
    assert times["structured"].decoding_s == pytest.approx(1.8 / 100)


def test_a_cost_is_weighted_with_its_first_tokens() -> None:
    measured = present(
        measured_of(
            blocks(structured=1.0, open_ended=4.0), TRAFFIC, variant="k7", baseline="baseline"
        )
    )
    assert measured.cost == pytest.approx((0.75 * 1.0 + 0.25 * 4.0) / 2.0)
    assert measured.first == pytest.approx(measured.cost / 10)
    assert 0 < measured.deviation < 0.01


def test_rounds_that_differ_mean_error_prompts_do_not() -> None:
    unsteady = [
        block(name, variant, number, seconds=2.0 * (1.2 if number == 2 and variant == "k7" else 1))
        for number in (1, 2, 3, 4)
        for name in TRAFFIC.weights
        for variant in ("baseline", "k7")
    ]
    measured = present(measured_of(unsteady, TRAFFIC, variant="k7", baseline="baseline"))
    assert measured.deviation > 0.02


def test_a_variant_not_measured_has_no_cost() -> None:
    assert (
        measured_of(blocks(structured=1, open_ended=1), TRAFFIC, variant="k3", baseline="baseline")
        is None
    )


def test_steps_are_known_by_the_servers_counters() -> None:
    counted = SpeculationCounters(
        drafts=100, draft_tokens=700, accepted_tokens=140, accepted_per_position=(80, 40, 20)
    )
    counted_blocks = [replace(b, speculation=counted) for b in blocks(structured=1, open_ended=1)]
    longer = longer_than(counted_blocks, TRAFFIC, variant="k7", checked=7)
    assert longer["structured"] == [0.8, 0.4, 0.2]


def test_without_counters_chunks_give_the_mean() -> None:
    """100 tokens in 30 chunks, 1 of them in the first chunk: 99 / 29 tokens per step."""
    plain_blocks = blocks(structured=1, open_ended=1)
    assert longer_than(plain_blocks, TRAFFIC, variant="k7", checked=7) == {}
    step_mean = step_means(plain_blocks, TRAFFIC, variant="k7")
    assert step_mean == pytest.approx(dict.fromkeys(TRAFFIC.weights, 99 / 29))


def samples(*values: tuple[str, str, float]) -> list[Sample]:
    return [Sample(stratum="s", prompt=p, block=b, value=value) for p, b, value in values]


def test_few_prompts_suffice_for_deviation_between_blocks() -> None:
    """The sums of the two blocks are 0.02 and -0.02; differences between prompts do not count."""
    repeated = samples(("a", "1", 1.01), ("b", "1", -0.99), ("a", "2", 0.99), ("b", "2", -1.01))
    assert deviation_between_rounds(repeated) == pytest.approx(0.04)


def test_without_repeated_prompts_their_differences_count() -> None:
    once = samples(("a", "1", 0.3), ("b", "1", 0.1), ("c", "2", -0.1), ("d", "2", -0.3))
    assert deviation_between_rounds(once) == pytest.approx(0.8)
