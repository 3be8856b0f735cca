"""Which side takes the higher request rate per dollar within the latency limits, if any does."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest

from draftworth.analysis.limits import RateBounds
from draftworth.decision.decide import decide
from draftworth.decision.rates import (
    RateComparison,
    highest_rates_of,
    rate_comparisons,
    served_by_rates,
)
from draftworth.decision.run_decision import Missing, NextStep
from draftworth.records.load_shapes import PoissonLoad
from draftworth.records.results import Limits
from draftworth.records.run_folder import Run
from tests.draftworth.report import decision_rows, runs, states

BASELINE, VARIANT = runs.BASELINE, runs.VARIANT
# (the highest rate that keeps the limits, the lowest that breaks them), in requests per second.
Range = tuple[float | None, float | None]


def bounds(variant: str, ends: Range, *, input_tokens: int | None = None) -> RateBounds:
    kept, broken = (
        None if rate is None else PoissonLoad(requests_per_second=rate, input_tokens=input_tokens)
        for rate in ends
    )
    return RateBounds(variant=variant, input_tokens=input_tokens, kept=kept, broken=broken)


def compared(
    variant: Range, baseline: Range, *, name: str = VARIANT, price_ratio: float = 1.0
) -> RateComparison:
    return RateComparison(
        variant=bounds(name, variant),
        baseline=bounds(BASELINE, baseline),
        price_ratio=price_ratio,
        at_equal_rates=(),
    )


@pytest.mark.parametrize(
    ("variant", "baseline", "price_ratio", "is_higher"),
    [
        ((4.0, 8.0), (2.0, 4.0), 1.0, True),
        ((2.0, 4.0), (4.0, 8.0), 1.0, False),
        ((2.0, 4.0), (2.0, 4.0), 1.0, None),
        ((4.0, None), (2.0, 4.0), 1.0, True),
        # The baseline broke its limits at no measured rate, so its highest rate is not known.
        ((4.0, None), (2.0, None), 1.0, None),
        ((None, 2.0), (2.0, None), 1.0, False),
        ((None, 2.0), (None, 2.0), 1.0, None),
        # The variant's server costs half as much, so half the rate per server is enough.
        ((2.0, 4.0), (2.0, 4.0), 0.5, True),
        # The variant's server costs twice as much, so it has to take twice the rate.
        ((4.0, 8.0), (2.0, 4.0), 2.0, None),
        ((8.0, None), (2.0, 4.0), 2.0, True),
        ((2.0, 4.0), (2.0, 4.0), 2.0, False),
    ],
)
def test_ranges_that_do_not_overlap_decide(
    variant: Range, baseline: Range, price_ratio: float, is_higher: bool | None
) -> None:
    assert compared(variant, baseline, price_ratio=price_ratio).is_higher is is_higher


LOW, HIGH, HIGHER = (2.0, 4.0), (4.0, 8.0), (8.0, 16.0)


@pytest.mark.parametrize(
    ("comparisons", "served"),
    [
        ([compared(HIGH, LOW)], VARIANT),
        ([compared(LOW, HIGH)], BASELINE),
        ([compared(LOW, LOW)], None),
        ([], None),
        ([compared(HIGH, LOW), compared(HIGHER, LOW, name="k3")], "k3"),
        ([compared(LOW, HIGH), compared(HIGH, HIGH, name="k3")], None),
        # With prompts of a second length, nothing is shown.
        ([compared(HIGH, LOW), compared(LOW, LOW)], None),
    ],
)
def test_what_is_served_takes_more_at_every_length(
    comparisons: Sequence[RateComparison], served: str | None
) -> None:
    assert served_by_rates(comparisons) == served


def with_slow_requests(count: int, *variants: str) -> Run:
    """Return a run of 12 blocks of 128 requests at 2 per second, `count` of them above the limit.

    Each variant has `count` requests whose TTFT is above the limit, spread over its blocks.
    """
    (first, *_) = states.many_prompts().blocks
    load = PoissonLoad(requests_per_second=2.0)
    blocks = []
    for name, number in product((BASELINE, *variants), range(12)):
        slow = count // 12 + (number < count % 12)
        requests = tuple(
            replace(r, ttft_s=(0.6 if place < slow else 0.2) + place / 1000)
            for place, r in enumerate(first.requests)
        )
        block = replace(first, variant=name, load=load, requests=requests, warmup_requests=32)
        blocks.append(replace(block, round=number + 1, block=number + 1))
    return runs.make_run(
        blocks=tuple(blocks),
        variants=(BASELINE, *variants),
        limits=Limits(ttft_p95_s=0.5),
        class_weights={"structured": 1.0},
    )


def is_kept(count: int, *variants: str) -> bool:
    sides = highest_rates_of(with_slow_requests(count, *variants), {"structured": 1.0})
    return next(side for side in sides if side.variant == VARIANT).kept is not None


def test_several_variants_need_a_wider_interval() -> None:
    """56 of 1,536 requests are slow: with an interval of 95%, the limit allows up to 59."""
    assert is_kept(56, VARIANT)
    assert not is_kept(56, VARIANT, "k3", "k4", "k5")
    assert is_kept(45, VARIANT, "k3", "k4", "k5")


def test_unequal_failures_at_a_kept_rate_decide_nothing() -> None:
    run = decision_rows.higher_rate()
    assert runs.make_facts(run).decision.serve == VARIANT
    failing = runs.make_facts(decision_rows.with_failures(run, allowed_share=0.1))
    assert failing.decision.serve is None
    (comparison,) = failing.decision.rates
    assert comparison.failed_unequally is failing.decision.comparison
    assert comparison.is_higher is True


def test_an_open_rate_is_not_a_kept_rate() -> None:
    """The side that is not shown to keep its limits at the highest rate needs more requests."""
    facts = runs.make_facts(decision_rows.higher_rate())
    sides = [bounds(BASELINE, (2.0, None)), bounds(VARIANT, (4.0, None))]
    made = decide(facts.run, mixes=facts.mixes, of_classes=(), highest_rates=sides)
    assert made.missing == (Missing.OTHER_RATES,)
    assert made.next_step is NextStep.MEASURE_RATES_BETWEEN


def test_other_variants_are_left_out() -> None:
    facts = runs.make_facts()
    sides = [bounds(BASELINE, LOW), bounds(VARIANT, LOW), bounds("k3", HIGH)]
    made = rate_comparisons(facts.run.result, sides, facts.mixes)
    assert [c.variant.variant for c in made] == [VARIANT]
