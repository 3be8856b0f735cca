"""Computes how the cost ratio depends on the share of each class in the traffic and on prices.

Nothing is measured for it: the pairs of requests that the verdict is about count with other
weights, or with another ratio of prices. Limits and the noise floor are not looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from draftworth.analysis.pairing import Pair, Traffic, paired
from draftworth.analysis.ratios import log_cost_ratio, share_ratio
from draftworth.analysis.statistics import Estimate
from draftworth.records.run_folder import Run

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


def costs_by_share(
    run: Run, traffic: Traffic, *, variant: str, baseline: str
) -> tuple[CostByShare, ...]:
    """Return the cost ratio of a variant by the share of each class in a traffic; of two classes
    the first alone, and empty with one class or without a cost per token."""
    classes = [*traffic.weights]
    if len(classes) < 2:
        return ()
    pairs = paired(run.blocks, traffic, variant=variant, baseline=baseline)
    factor = share_ratio(run.result.price, variant, baseline)
    judged = _cost_ratio(pairs, traffic, factor)
    # What one of two classes gains, the other loses: the other's curve is this one, mirrored.
    drawn = classes if len(classes) > 2 else classes[:1]
    curves = []
    for name in drawn:
        ratios = {
            share: ratio
            for share in SHARES
            if (ratio := _cost_ratio(pairs, _with_share(traffic, name, share), factor))
        }
        if judged and len(ratios) == len(SHARES):
            curve = CostByShare(
                traffic=traffic,
                variant=variant,
                prompt_class=name,
                judged=judged,
                ratios=ratios,
                equal=_equal_cost(ratios),
            )
            curves.append(curve)
    return tuple(curves)


def cost_by_price(
    traffic: Traffic, ratio: Estimate, *, variant: str, price_ratio: float
) -> CostByPrice:
    """Return the cost ratio of a traffic by the price ratio. ratio: at `price_ratio`."""
    ends = ratio.interval
    return CostByPrice(
        traffic=traffic,
        variant=variant,
        judged_price_ratio=price_ratio,
        ratio=ratio,
        equal=EqualCost(
            value=price_ratio / ratio.value,
            low=price_ratio / ends[1] if ends else None,
            high=price_ratio / ends[0] if ends else None,
        ),
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
