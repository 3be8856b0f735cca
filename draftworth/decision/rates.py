"""Compares the highest request rates at which variants keep the latency limits.

If requests arrive at a rate, a server is idle at times, so a token has no cost. Instead, the cost
of a request is the server's price / the highest rate that the server can take. That rate is between
two measured rates: the highest that keeps the limits, and the lowest that breaks them. If these
ranges of variant and baseline overlap, nothing is decided.

The best of several variants looks better than it is. So with several variants, a limit counts as
kept or broken only if a wider interval of the latency shows it (`confidence_of_each`).

After a warm-up that is too short for a rate, latencies read too low (`analysis/warmup_length.py`):
then a limit may count as broken, but not as kept.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from draftworth.analysis.doubts import FailedUnequally
from draftworth.analysis.limits import RateBounds, rate_bounds
from draftworth.analysis.ratios import share_ratio
from draftworth.decision.best_of_many import confidence_of_each
from draftworth.decision.verdict import Comparison
from draftworth.records.load_shapes import Load
from draftworth.records.results import AS_SHIPPED, RunResult
from draftworth.records.run_folder import Run


@dataclass(frozen=True, kw_only=True)
class RateComparison:
    """The highest request rates that a variant and the baseline take, with prompts of one length.

    price_ratio: what the variant's server costs per hour / what the baseline's costs.
    at_equal_rates: the comparisons of variant and baseline at each rate at which both keep the
        latency limits.
    """

    variant: RateBounds
    baseline: RateBounds
    price_ratio: float
    at_equal_rates: tuple[Comparison, ...]

    @property
    def failed_unequally(self) -> Comparison | None:
        """The comparison at a rate at which both keep the limits, and one side fails more requests.

        None if there is none. A server that answers fewer requests has less to do, so its highest
        rate cannot be compared. At rates at which one side breaks the limits, it may fail more.
        """
        unequal = (c for c in self.at_equal_rates if isinstance(c.reason, FailedUnequally))
        return next(unequal, None)

    @property
    def is_higher(self) -> bool | None:
        """Whether the variant takes more requests per dollar than the baseline.

        None if this is not shown, because the ranges of their highest rates overlap.
        """
        if _reaches(self.variant.kept, self.baseline.broken, self.price_ratio):
            return True
        if _reaches(self.baseline.kept, self.variant.broken, 1 / self.price_ratio):
            return False
        return None


def _reaches(kept: Load | None, broken: Load | None, price_ratio: float) -> bool:
    """Return whether one side keeps the limits at a rate per dollar at which the other breaks them.

    kept: the highest measured rate at which this side keeps the latency limits. broken: the lowest
    at which the other side breaks them. price_ratio: this side's price / the other side's.
    """
    if kept is None or broken is None:
        return False
    return _rate(kept) >= _rate(broken) * price_ratio


def highest_rates_of(run: Run, weights: Mapping[str, float]) -> Iterator[RateBounds]:
    """Yield between which request rates each variant ceases to keep the latency limits.

    There is one for each variant, the baseline included, and each prompt length; none without
    limits on latencies, or if no requests arrive at rates. weights: each class's share (0 to 1) of
    the output tokens.
    """
    result = run.result
    loads = [block.load for block in run.blocks if not block.load.has_cost_per_token]
    speculative = [v for v in result.variants if v not in (result.baseline, AS_SHIPPED)]
    for variant in result.variants if result.limits.are_on_latencies else ():
        for length in dict.fromkeys(load.input_tokens for load in loads):
            yield rate_bounds(
                run.blocks,
                weights,
                result.limits,
                variant=variant,
                input_tokens=length,
                confidence=confidence_of_each(max(1, len(speculative)), looks=result.looks),
            )


def rate_comparisons(
    result: RunResult, bounds: Sequence[RateBounds], comparisons: Sequence[Comparison]
) -> tuple[RateComparison, ...]:
    """Compare each variant's highest request rate with the baseline's, for each prompt length.

    bounds: between which rates the baseline and each variant cease to keep the latency limits, for
    each prompt length. comparisons: the comparisons with the baseline on which the decision
    may rest, at all loads; variants that are in none of them are left out.
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
    """Return the name of the variant or baseline that takes the most requests per dollar.

    A variant is returned if it takes more than the baseline at every measured prompt length. Of
    several such variants, it is the one whose lowest rate per dollar, over the prompt lengths, is
    the highest. The baseline is returned if it takes more than every variant at every length. None
    is returned if neither is shown.
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
