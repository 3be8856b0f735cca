"""The third possibility: the variant serves the classes in which it pays, the baseline the others.

Speculation is selective: it may cost a third in one class and twice as much in another.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from draftworth.analysis.clustering import spread
from draftworth.analysis.pairing import Pair, paired
from draftworth.analysis.ratios import LogRatio, log_cost_ratio_by_class, share_ratio
from draftworth.analysis.statistics import Estimate, ratio_estimate
from draftworth.decision.verdict import INDIFFERENCE, Comparison, confidence_of_each
from draftworth.records.judgement import Judgement
from draftworth.records.run_folder import Run


@dataclass(frozen=True, kw_only=True)
class ByClass:
    """The traffic mix at one load, where the variant serves some classes and the baseline the rest.

    classes: those that the variant serves. other_classes: those that the baseline serves: in which
        the variant does not pay, or is not shown to.
    cost_ratio: the cost of a token of the mix then / with the baseline alone.
    alone: of variant and baseline, the one that serves the whole mix at the lower cost.
    ratio_to_alone: the cost of a token of the mix then / with `alone`.
    servers: with at least so many servers of `alone`, two pools need no more of them together;
        None: nothing is shown to be saved.
    """

    comparison: Comparison
    classes: tuple[str, ...]
    other_classes: tuple[str, ...]
    cost_ratio: Estimate
    alone: str
    ratio_to_alone: Estimate
    servers: int | None

    @property
    def is_shown_to_save(self) -> bool:
        """Whether it is shown to cost less than `alone` by more than counts as no difference."""
        high = self.ratio_to_alone.high
        return high is not None and high < 1 / (1 + INDIFFERENCE)


def by_class_of(
    run: Run, mix: Comparison, of_classes: Sequence[Comparison], *, count: int = 1
) -> ByClass | None:
    """Return the possibility; None unless it is shown that the variant pays in one class of the
    mix and not in another.

    mix: a comparison in the traffic mix, chosen as the best of `count`, for which the intervals are
        made wider (`verdict.best_of_many`). of_classes: those of its classes at the same load.
    """
    paying = {c.traffic.name for c in of_classes if c.judgement.serves_variant}
    losing = {c.traffic.name for c in of_classes if _loses(c)}
    if not (paying and losing) or mix.cost_ratio is None:
        return None
    pairs = paired(run.blocks, mix.traffic, variant=mix.variant, baseline=mix.baseline)
    price_ratio = share_ratio(run.result.price, mix.variant, mix.baseline)
    served = [_served(pair, paying) for pair in pairs]
    beside_variant = [replace(s, plain=p.drafted) for s, p in zip(served, pairs, strict=True)]
    classes = mix.traffic.weights
    factors = {name: price_ratio if name in paying else 1.0 for name in classes}
    beside = {
        mix.baseline: log_cost_ratio_by_class(served, mix.traffic, factors),
        mix.variant: log_cost_ratio_by_class(
            beside_variant, mix.traffic, {n: f / price_ratio for n, f in factors.items()}
        ),
    }
    ratios = {name: _estimate(log_ratio, count) for name, log_ratio in beside.items() if log_ratio}
    if len(ratios) < len(beside):
        return None
    alone = max(ratios, key=lambda name: ratios[name].value)
    return ByClass(
        comparison=mix,
        classes=tuple(name for name in classes if name in paying),
        other_classes=tuple(name for name in classes if name not in paying),
        cost_ratio=ratios[mix.baseline],
        alone=alone,
        ratio_to_alone=ratios[alone],
        servers=_servers(ratios[alone], price_ratio if alone == mix.baseline else 1 / price_ratio),
    )


def _estimate(log_ratio: LogRatio, count: int) -> Estimate:
    return ratio_estimate(
        log_ratio.value,
        spread(log_ratio.parts),
        samples=len(log_ratio.parts),
        confidence=confidence_of_each(count),
    )


def _loses(comparison: Comparison) -> bool:
    judgement = comparison.judgement
    return judgement in (Judgement.MORE_EXPENSIVE, Judgement.OUTSIDE_LIMITS)


def _served(pair: Pair, paying: Collection[str]) -> Pair:
    return pair if pair.prompt_class in paying else replace(pair, drafted=pair.plain)


def _servers(ratio_to_alone: Estimate, other_price: float) -> int | None:
    """Return the number of servers from which on two pools cost no more than `alone`.

    The work of n servers of `alone` is that of n x ratio servers in two pools, each rounded up to
    whole servers. With equal prices that adds at most one server to the work rounded up, so two
    pools cost no more if n x (1 - ratio) >= 1. With different prices it adds less than one server
    of each pool. other_price: the price of a server of the other pool / of a server of `alone`.
    """
    high = ratio_to_alone.high
    if high is None or high >= 1:
        return None
    rounding = 1.0 if math.isclose(other_price, 1) else 1.0 + other_price
    return max(2, math.ceil(rounding / (1 - high)))
