"""Compares the highest request rates at which variants keep the latency limits.

Arrivals at a rate leave a server idle at times, so a token has no cost there. What a server costs
per request is its price / the highest rate that it can take. That rate lies between two measured
ones: the highest that keeps the limits, and the lowest that breaks them. Where these ranges of two
variants overlap, nothing is decided.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from draftworth.analysis.limits import RateBounds
from draftworth.analysis.ratios import share_ratio
from draftworth.decision.verdict import Comparison
from draftworth.records.load_shapes import Load
from draftworth.records.results import AS_SHIPPED, RunResult


@dataclass(frozen=True, kw_only=True)
class RateComparison:
    """The highest rates of a variant and of the baseline, with prompts of one length.

    price_ratio: variant / baseline of what a server costs per hour.
    at_equal_rates: the comparisons of latencies at the rates that both keep.
    """

    variant: RateBounds
    baseline: RateBounds
    price_ratio: float
    at_equal_rates: tuple[Comparison, ...]

    @property
    def is_higher(self) -> bool | None:
        """Whether the variant takes more requests per dollar; None: the ranges overlap."""
        if _reaches(self.variant.kept, self.baseline.broken, self.price_ratio):
            return True
        if _reaches(self.baseline.kept, self.variant.broken, 1 / self.price_ratio):
            return False
        return None


def _reaches(kept: Load | None, broken: Load | None, price_ratio: float) -> bool:
    """Return whether a rate that is kept, per price, is at least one that the other side breaks."""
    if kept is None or broken is None:
        return False
    return _rate(kept) >= _rate(broken) * price_ratio


def rate_comparisons(
    result: RunResult, bounds: Sequence[RateBounds], comparisons: Sequence[Comparison]
) -> tuple[RateComparison, ...]:
    """Return a comparison for each variant and prompt length.

    bounds: of the baseline and of each variant. comparisons: those that may decide, at all loads,
    with the baseline; other variants are left out.
    """
    plain = {side.input_tokens: side for side in bounds if side.variant == result.baseline}
    return tuple(
        RateComparison(
            variant=side,
            baseline=baseline,
            price_ratio=share_ratio(result.price, side.variant, result.baseline),
            at_equal_rates=tuple(
                c
                for c in comparisons
                if c.variant == side.variant and _is_kept_by_both(c.traffic.load, side, baseline)
            ),
        )
        for side in bounds
        if side.variant in {c.variant for c in comparisons} - {AS_SHIPPED}
        and (baseline := plain.get(side.input_tokens))
    )


def _is_kept_by_both(load: Load, *bounds: RateBounds) -> bool:
    return all(
        load.input_tokens == side.input_tokens and 0 < _rate(load) <= _rate(side.kept)
        for side in bounds
    )


def _rate(load: Load | None) -> float:
    return (load.arrivals_per_second or 0.0) if load else 0.0


def served_by_rates(compared: Sequence[RateComparison]) -> str | None:
    """Return the variant to serve, or the baseline; None: rates decide nothing.

    A variant has to take more per dollar with prompts of every length, the baseline more than every
    variant. Of several variants, the one with the highest rates is served.
    """
    by_variant: dict[str, list[RateComparison]] = {}
    for comparison in compared:
        by_variant.setdefault(comparison.variant.variant, []).append(comparison)
    higher = [name for name, of in by_variant.items() if all(c.is_higher for c in of)]
    if higher:
        return max(higher, key=lambda name: min(_per_price(c) for c in by_variant[name]))
    if compared and all(c.is_higher is False for c in compared):
        return compared[0].baseline.variant
    return None


def _per_price(compared: RateComparison) -> float:
    return _rate(compared.variant.kept) / compared.price_ratio
