"""Computes how the cost ratio depends on the share of each class in the traffic and on prices.

Nothing is measured for this: the pairs of requests that the verdict is about get other weights, or
another ratio of prices. Latency limits and the noise floor are not looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from draftworth.analysis.pairing import Pair, Traffic, paired
from draftworth.analysis.ratios import log_cost_ratio, share_ratio
from draftworth.analysis.statistics import CONFIDENCE, Estimate
from draftworth.records.run_folder import Run

# The shares of a class for which the cost ratio is computed: 0 to 1 in steps of 0.1. From one share
# to the next, the cost ratio is nearly a straight line.
SHARES = tuple(step / 10 for step in range(11))


@dataclass(frozen=True, kw_only=True)
class EqualCost:
    """The class share or price ratio at which variant and baseline cost the same per token.

    value: the share (0 to 1) or price ratio at which the cost ratio is 1. low, high: the ends of
    the range in which the interval of the cost ratio contains 1; None: it has no interval.
    """

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class CostByShare:
    """The cost ratio of a traffic mix as a function of one class's share of the output tokens.

    The other classes share the rest in the proportions that they have in the mix.

    traffic: the mix that the verdict is about. judged: its cost ratio.
    ratios: by the class's share (0 to 1), the cost ratio.
    equal: the share at which variant and baseline cost the same per token; None: there is none.
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
        """Whether the cost ratio falls as the class's share of the traffic rises."""
        return self.ratios[SHARES[-1]].value < self.ratios[SHARES[0]].value

    @property
    def starts_cheaper(self) -> bool:
        """Whether the variant costs less than the baseline at the class's smallest share.

        If there is no share at which both cost the same (`equal`), it then costs less at every one.
        """
        return self.ratios[SHARES[0]].value < 1

    @property
    def is_shown_at_every_share(self) -> bool:
        """Whether, at each share of the class, the whole interval of the cost ratio is off 1.

        At some shares it may be below 1, and at others above.
        """
        ends = [ratio.interval for ratio in self.ratios.values()]
        return all(i and (i[0] < 1) == (i[1] < 1) for i in ends)


@dataclass(frozen=True, kw_only=True)
class CostByPrice:
    """A traffic's cost ratio as a function of the ratio of the servers' prices.

    The cost ratio is proportional to the price ratio: the variant's server / the baseline's.

    judged_price_ratio: the price ratio of the verdict. ratio: the cost ratio at that price ratio.
    equal: the price ratio at which variant and baseline cost the same per token.
    """

    traffic: Traffic
    variant: str
    judged_price_ratio: float
    ratio: Estimate
    equal: EqualCost

    def at(self, price_ratio: float) -> tuple[float, tuple[float, float] | None]:
        """Return (cost ratio, its interval or None) at a price ratio (variant's / baseline's)."""
        factor, ends = price_ratio / self.judged_price_ratio, self.ratio.interval
        return self.ratio.value * factor, ends and (ends[0] * factor, ends[1] * factor)


def costs_by_share(
    run: Run,
    traffic: Traffic,
    *,
    variant: str,
    baseline: str,
    confidence: float = CONFIDENCE,
) -> tuple[CostByShare, ...]:
    """Return the cost ratio of a traffic mix as a function of each class's share.

    With two classes, only the function of the first's share is returned, because the second's
    follows from it. Empty if there is one class, or if a token's cost is not known. confidence:
    that of the intervals (0 to 1).
    """
    classes = [*traffic.weights]
    if len(classes) < 2:
        return ()
    pairs = paired(run.blocks, traffic, variant=variant, baseline=baseline)
    factor = share_ratio(run.result.price, variant, baseline)
    cost_ratio = partial(_cost_ratio, pairs, factor=factor, confidence=confidence)
    judged = cost_ratio(traffic)
    # With two classes, the second's share is 1 - the first's share, so its curve is the first's
    # curve mirrored, and is left out.
    drawn = classes if len(classes) > 2 else classes[:1]
    curves = []
    for name in drawn:
        ratios = {
            share: ratio
            for share in SHARES
            if (ratio := cost_ratio(_with_share(traffic, name, share)))
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
    """Return the cost ratio of a traffic as a function of the price ratio (variant / baseline).

    ratio: the cost ratio at the price ratio `price_ratio`.
    """
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
    """Return the traffic with `share` (0 to 1) as the share of one class.

    The other classes share the rest in their proportions. Classes with a share of 0 are left out.
    """
    rest = {name: w for name, w in traffic.weights.items() if name != prompt_class}
    total = sum(rest.values())
    parts = {name: w / total if total else 1 / len(rest) for name, w in rest.items()}
    weights = {prompt_class: share} | {name: (1 - share) * part for name, part in parts.items()}
    return Traffic(weights={n: w for n, w in weights.items() if w > 0}, load=traffic.load)


def _cost_ratio(
    pairs: Sequence[Pair], traffic: Traffic, *, factor: float, confidence: float
) -> Estimate | None:
    of_traffic = [pair for pair in pairs if pair.prompt_class in traffic.weights]
    log_ratio = log_cost_ratio(of_traffic, traffic, factor=factor)
    return log_ratio.estimate(confidence=confidence) if log_ratio else None


def _equal_cost(ratios: Mapping[float, Estimate]) -> EqualCost | None:
    value = _crossing({share: ratio.value for share, ratio in ratios.items()})
    if value is None:
        return None
    intervals = {share: i for share, ratio in ratios.items() if (i := ratio.interval)}
    ends = [_crossing({s: interval[end] for s, interval in intervals.items()}) for end in (0, 1)]
    # `ends` has the shares at which the low and the high end of the cost ratio's interval pass 1.
    # If an end never passes 1, the range of shares in which the interval contains 1 extends to the
    # lowest or the highest share.
    low = next((end for end in ends if end is not None and end <= value), SHARES[0])
    high = next((end for end in ends if end is not None and end > value), SHARES[-1])
    return EqualCost(value=value, low=low if intervals else None, high=high if intervals else None)


def _crossing(ratios: Mapping[float, float]) -> float | None:
    """Return the share at which a ratio passes 1; None if it does not.

    Between two of the shares in `ratios` (ratio by share), the ratio is taken as a straight line.
    """
    points = [*ratios.items()]
    for (share, ratio), (next_share, next_ratio) in pairwise(points):
        if (ratio < 1) != (next_ratio < 1):
            return share + (next_share - share) * (1 - ratio) / (next_ratio - ratio)
    return None
