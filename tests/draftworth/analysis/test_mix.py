"""The verdict for a traffic mix."""

from __future__ import annotations

import pytest

from draftworth.analysis.mix import MixVerdict, judge_mix
from draftworth.records.load import ConcurrencyLoad
from draftworth.records.reading import Run
from draftworth.records.results import BlockResult, Price
from tests.draftworth.report.runs import make_run_result
from tests.support.blocks import make_block, make_price, make_record

LOAD = ConcurrencyLoad(concurrency=4)


def blocks_of(prompt_class: str, *, baseline_s: float, variant_s: float) -> list[BlockResult]:
    sides = {"baseline": baseline_s, "k7": variant_s}
    return [
        make_block(
            variant=name,
            prompt_class=prompt_class,
            requests=tuple(
                make_record(i, prompt_id=f"p{i}", inter_token_latency_s=seconds) for i in range(8)
            ),
        )
        for name, seconds in sides.items()
    ]


def judged(
    blocks: list[BlockResult], weights: dict[str, float], *, price: Price | None = None
) -> MixVerdict:
    result = make_run_result(class_weights=weights, price=price)
    run = Run(result=result, blocks=tuple(blocks))
    return judge_mix(run, load=LOAD, variant="k7", baseline=result.baseline)


MIXED = [
    *blocks_of("structured", baseline_s=0.040, variant_s=0.010),
    *blocks_of("open_ended", baseline_s=0.040, variant_s=0.080),
]


@pytest.mark.parametrize(
    ("structured", "speedup", "judgement"),
    [
        # 40 ms / (0.5 x 10 ms + 0.5 x 80 ms): the mean of the speedups, 2.25, would call it a win.
        (0.5, 40 / 45, "costs"),
        (0.9, 40 / 17, "pays"),
        (1 - 3 / 7, 1.0, "does not pay"),
    ],
)
def test_the_mix_is_judged_by_the_time_of_its_tokens(
    structured: float, speedup: float, judgement: str
) -> None:
    verdict = judged(MIXED, {"structured": structured, "open_ended": 1 - structured})
    assert verdict.speedup is not None
    assert verdict.speedup.value == pytest.approx(speedup)
    assert verdict.judgement == judgement
    assert verdict.saving_share is None


def test_a_class_that_was_not_measured_leaves_the_mix_open() -> None:
    verdict = judged(MIXED, {"structured": 0.5, "mine": 0.5})
    assert verdict.speedup is None
    assert verdict.judgement == "inconclusive"


def test_too_many_excluded_samples_refuse_the_mix_too() -> None:
    blocks = blocks_of("structured", baseline_s=0.04, variant_s=0.01)
    waited = [make_record(i, prompt_id=f"w{i}", excluded="waited") for i in range(3)]
    blocks[1] = make_block(variant="k7", requests=(*blocks[1].requests, *waited))
    verdict = judged(blocks, {"structured": 1.0})
    assert verdict.judgement == "inconclusive"
    assert "excluded" in verdict.reason


def test_the_saving_is_the_part_of_the_baselines_cost() -> None:
    price = make_price(usd_per_node_hour=8.6, node_shares={"baseline": 0.5, "k7": 0.5})
    blocks = blocks_of("structured", baseline_s=0.04, variant_s=0.01)
    blocks[1] = make_block(
        variant="k7",
        requests=tuple(
            make_record(i, prompt_id=f"p{i}", number_output_tokens=200) for i in range(8)
        ),
    )
    verdict = judged(blocks, {"structured": 1.0}, price=price)
    # Twice the tokens in the same time at the same price.
    assert verdict.saving_share == pytest.approx(0.5)
