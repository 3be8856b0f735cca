"""Computes what it costs if the variant serves some prompt classes, and the baseline the others.

Speculation may cut the cost of a token to a third in one class, and double it in another. Then
neither the variant alone nor the baseline alone is the cheapest.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from draftworth.analysis.pairing import Pair, paired
from draftworth.analysis.ratios import log_cost_ratio_by_class, share_ratio
from draftworth.analysis.statistics import Estimate
from draftworth.decision.best_of_many import confidence_of_each
from draftworth.decision.verdict import INDIFFERENCE, Comparison
from draftworth.records.judgement import Judgement
from draftworth.records.run_folder import Run


@dataclass(frozen=True, kw_only=True)
class ByClass:
    """The traffic mix at one load, if the variant serves some classes and the baseline the rest.

    classes: the classes that the variant serves. other_classes: those that the baseline serves,
        because the variant does not pay in them, or is not shown to.
    cost_ratio: the cost of a token of the mix when served by class / by the baseline alone.
    alone: the name of the variant or of the baseline: the cheaper one, if one of them alone serves
        the whole mix.
    ratio_to_alone: the cost of a token of the mix when served by class / by `alone`.
    servers: how many servers of `alone` the mix must need at least, so that two pools, one of the
        variant's servers and one of the baseline's, cost no more although both are rounded up to
        whole servers; None: nothing is shown to be saved.
    """

    comparison: Comparison
    classes: tuple[str, ...]
    other_classes: tuple[str, ...]
    cost_ratio: Estimate
    alone: str
    ratio_to_alone: Estimate
    servers: int | None

    @property
    def is_shown_to_be_cheaper(self) -> bool:
        """Whether serving by class is shown to cost less than `alone`, by however little."""
        return self.servers is not None

    @property
    def is_shown_to_save(self) -> bool:
        """Whether serving by class is shown to cost less than `alone`, by a factor above 1.05."""
        high = self.ratio_to_alone.high
        return high is not None and high < 1 / (1 + INDIFFERENCE)

    @property
    def judgement(self) -> Judgement:
        """The verdict on serving by class, compared with `alone`."""
        return Judgement.CHEAPER if self.is_shown_to_save else Judgement.INCONCLUSIVE


def by_class_of(
    run: Run, mix: Comparison, of_classes: Sequence[Comparison], *, count: int = 1
) -> ByClass | None:
    """Return what it costs if the variant serves only the classes in which it is shown to pay.

    None unless the variant is shown to pay in one class of the mix, and not to pay in another.

    mix: a comparison in the traffic mix. of_classes: the comparisons of its classes at the same
        load. count: how many comparisons `mix` was chosen from as the best; intervals are made
        wider for that (`best_of_many`).
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
    confidence = confidence_of_each(count, looks=run.result.looks)
    ratios = {
        name: log_ratio.estimate(confidence=confidence)
        for name, log_ratio in beside.items()
        if log_ratio
    }
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


def _loses(comparison: Comparison) -> bool:
    judgement = comparison.judgement
    return judgement in (Judgement.MORE_EXPENSIVE, Judgement.OUTSIDE_LIMITS)


def _served(pair: Pair, paying: Collection[str]) -> Pair:
    return pair if pair.prompt_class in paying else replace(pair, drafted=pair.plain)


def _servers(ratio_to_alone: Estimate, other_price: float) -> int | None:
    """Return how many servers of `alone` there must be, so that two pools of servers cost no more.

    `alone` is the variant or the baseline, when it serves the whole mix with n servers. The two
    pools do the same work at the price of n x ratio such servers. Then each pool is rounded up to
    whole servers, which adds less than one server per pool. With equal prices, the pools have fewer
    than n x ratio + 2 servers. If n x (1 - ratio) is at least 1, that is fewer than n + 1, so at
    most n. With different prices, n x (1 - ratio) must be at least 1 + `other_price`, the price of
    one more server in each pool.
    None if two pools are not shown to cost less per token.
    ratio_to_alone: the cost of a token with two pools / with `alone`, called `ratio` above.
    other_price: the price of a server of the other pool / of a server of `alone`.
    """
    high = ratio_to_alone.high
    if high is None or high >= 1:
        return None
    rounding = 1.0 if math.isclose(other_price, 1) else 1.0 + other_price
    return max(2, math.ceil(rounding / (1 - high)))
