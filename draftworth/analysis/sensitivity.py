"""Computes how the cost ratio depends on the share of each class in the traffic and on prices.

Nothing is measured for it: the pairs of requests that the verdict is about count with other
weights, or with another ratio of prices. Limits and the noise floor are not looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from draftworth.analysis.answer import best_of, choices_of
from draftworth.analysis.facts import RunFacts
from draftworth.analysis.pairing import Pair, Traffic, paired
from draftworth.analysis.ratios import log_cost_ratio, share_ratio
from draftworth.analysis.statistics import Estimate
from draftworth.analysis.verdict import Comparison

# From 0 to 100% in steps of 5%, between which the cost ratio is nearly straight.
SHARES = tuple(step / 20 for step in range(21))


@dataclass(frozen=True, kw_only=True)
class EqualCost:
    """Where a token costs as much with the variant as with the baseline: the break-even.

    low, high: the ends of the part in which the cost ratio's interval contains 1; None: the cost
        ratio has no interval.
    """

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class CostByShare:
    """The cost ratio of a traffic mix by the share of one class, the others in proportion.

    traffic: the mix that was judged. judged: the cost ratio there.
    ratios: cost ratios by the class's share of the output tokens (0 to 1).
    equal: the share at which costs are equal; None: at no share.
    """

    traffic: Traffic
    variant: str
    prompt_class: str
    judged: Estimate
    ratios: Mapping[float, Estimate]
    equal: EqualCost | None

    @property
    def judged_share(self) -> float:
        return self.traffic.weights[self.prompt_class]

    @property
    def falls(self) -> bool:
        """Whether the variant costs the less, the more of the class is in the traffic."""
        return self.ratios[SHARES[-1]].value < self.ratios[SHARES[0]].value


@dataclass(frozen=True, kw_only=True)
class CostByPrice:
    """A traffic's cost ratio, which is proportional to the price ratio.

    judged_price_ratio: what the variant's server costs / the baseline's. ratio: the cost ratio
        there.
    equal: the price ratio at which costs are equal.
    """

    traffic: Traffic
    variant: str
    judged_price_ratio: float
    ratio: Estimate
    equal: EqualCost

    def at(self, price_ratio: float) -> tuple[float, tuple[float, float] | None]:
        """Return the cost ratio at a price ratio, and its interval; None: it has none."""
        factor, ends = price_ratio / self.judged_price_ratio, self.ratio.interval
        return self.ratio.value * factor, ends and (ends[0] * factor, ends[1] * factor)


def costs_by_share(facts: RunFacts) -> tuple[CostByShare, ...]:
    """Return the cost ratio by the share of each class, of the variant and load that the answer is
    about; of two classes the first alone, and empty with one class or without a cost per token."""
    judged = _judged(facts)
    if judged is None or len(judged.traffic.weights) < 2:
        return ()
    classes = [*judged.traffic.weights]
    # What one of two classes gains, the other loses: the other's curve is this one, mirrored.
    drawn = classes if len(classes) > 2 else classes[:1]
    curves = (_cost_by_share(facts, judged, name) for name in drawn)
    return tuple(curve for curve in curves if curve)


def cost_by_price(facts: RunFacts) -> CostByPrice | None:
    """Return the cost ratio by the price ratio, of the variant, load and traffic that the answer is
    about; None without a cost per token."""
    judged = _judged(facts)
    if judged is None or judged.cost_ratio is None:
        return None
    price_ratio = share_ratio(facts.run.result.price, judged.variant, judged.baseline)
    ratio = judged.cost_ratio
    ends = ratio.interval
    return CostByPrice(
        traffic=judged.traffic,
        variant=judged.variant,
        judged_price_ratio=price_ratio,
        ratio=ratio,
        equal=EqualCost(
            value=price_ratio / ratio.value,
            low=price_ratio / ends[1] if ends else None,
            high=price_ratio / ends[0] if ends else None,
        ),
    )


def _judged(facts: RunFacts) -> Comparison | None:
    """Return the comparison that the answer is about, with its own interval and not a wider one
    for the best of many."""
    choices = choices_of(facts)
    if not choices:
        return None
    best = best_of(choices)
    return next(c for c in choices if (c.traffic, c.variant) == (best.traffic, best.variant))


def _cost_by_share(facts: RunFacts, judged: Comparison, prompt_class: str) -> CostByShare | None:
    traffic, variant, baseline = judged.traffic, judged.variant, judged.baseline
    pairs = paired(facts.run.blocks, traffic, variant=variant, baseline=baseline)
    factor = share_ratio(facts.run.result.price, variant, baseline)
    ratios = {
        share: ratio
        for share in SHARES
        if (ratio := _cost_ratio(pairs, _with_share(traffic, prompt_class, share), factor))
    }
    if len(ratios) < len(SHARES) or judged.cost_ratio is None:
        return None
    return CostByShare(
        traffic=traffic,
        variant=variant,
        prompt_class=prompt_class,
        judged=judged.cost_ratio,
        ratios=ratios,
        equal=_equal_cost(ratios),
    )


def _with_share(traffic: Traffic, prompt_class: str, share: float) -> Traffic:
    """Return the traffic with another share of one class; classes without a share are left out."""
    rest = {name: w for name, w in traffic.weights.items() if name != prompt_class}
    total = sum(rest.values())
    parts = {name: w / total if total else 1 / len(rest) for name, w in rest.items()}
    weights = {prompt_class: share} | {name: (1 - share) * part for name, part in parts.items()}
    return Traffic(weights={n: w for n, w in weights.items() if w > 0}, load=traffic.load)


def _cost_ratio(pairs: Sequence[Pair], traffic: Traffic, factor: float) -> Estimate | None:
    of_traffic = [pair for pair in pairs if pair.prompt_class in traffic.weights]
    log_ratio = log_cost_ratio(of_traffic, traffic, factor=factor)
    return log_ratio.estimate() if log_ratio else None


def _equal_cost(ratios: Mapping[float, Estimate]) -> EqualCost | None:
    value = _crossing({share: ratio.value for share, ratio in ratios.items()})
    if value is None:
        return None
    intervals = {share: i for share, ratio in ratios.items() if (i := ratio.interval)}
    ends = [_crossing({s: interval[end] for s, interval in intervals.items()}) for end in (0, 1)]
    # An end that does not pass 1 reaches to where there are no further shares.
    low = next((end for end in ends if end is not None and end <= value), SHARES[0])
    high = next((end for end in ends if end is not None and end > value), SHARES[-1])
    return EqualCost(value=value, low=low if intervals else None, high=high if intervals else None)


def _crossing(ratios: Mapping[float, float]) -> float | None:
    """Return the share at which a ratio passes 1, between two shares on a straight line; None: it
    does not."""
    points = [*ratios.items()]
    for (share, ratio), (next_share, next_ratio) in pairwise(points):
        if (ratio < 1) != (next_ratio < 1):
            return share + (next_share - share) * (1 - ratio) / (next_ratio - ratio)
    return None
