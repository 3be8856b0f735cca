"""Which side takes the higher request rate per dollar within the latency limits, if any does."""

from collections.abc import Sequence

import pytest

from draftworth.analysis.limits import RateBounds
from draftworth.decision.rates import RateComparison, rate_comparisons, served_by_rates
from draftworth.records.load_shapes import PoissonLoad
from tests.draftworth.report import runs

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


def test_other_variants_are_left_out() -> None:
    facts = runs.make_facts()
    sides = [bounds(BASELINE, LOW), bounds(VARIANT, LOW), bounds("k3", HIGH)]
    made = rate_comparisons(facts.run.result, sides, facts.mixes)
    assert [c.variant.variant for c in made] == [VARIANT]
