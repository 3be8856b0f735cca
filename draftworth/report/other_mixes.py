"""Shows what a token would cost in other mixes of the prompt classes, and at other prices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from draftworth.analysis.sensitivity import CostByPrice, CostByShare, EqualCost
from draftworth.decision.facts import RunFacts
from draftworth.decision.verdict import INDIFFERENCE
from draftworth.report.break_even_sentences import price_sentence, share_words
from draftworth.report.document import Section
from draftworth.report.drawing import Plot, legend, mark_equal_cost, short
from draftworth.report.words import ABOUT, INTERVAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE = "Other mixes and other prices"
# A point of a plot: a share or a price ratio, the cost ratio there, and the cost ratio's interval;
# None: it has none.
_Point = tuple[float, float, tuple[float, float] | None]
_MARKS = (
    "Circle: as judged; diamond: where costs are equal, with its interval; band around 0: up to "
    f"{INDIFFERENCE:.0%} either way, which counts as no difference."
)


def other_mixes_sections(facts: RunFacts) -> Iterator[Section]:
    """Yield a section with plots of a token's cost ratio over shares of classes and over prices.

    Nothing is yielded if the run compares no costs of a token.
    """
    by_price = facts.decision.by_price
    if by_price is None:
        return
    curves = enumerate(facts.decision.by_share, start=1)
    of_shares = (_share_plot(curve, number) for number, curve in curves)
    plots = (*of_shares, _price_plot(by_price))
    yield Section(
        title=TITLE,
        paragraphs=(*(f"{plot.title}." for plot in plots), ABOUT["other_mixes"]),
        plots=plots,
    )


def _share_plot(curve: CostByShare, number: int) -> Plot:
    """Return the plot of a token's cost ratio over one class's share of the output tokens.

    number: the last part of the plot's name, which must differ from the names of other plots.
    """
    points = [(100 * share, r.value, r.interval) for share, r in curve.ratios.items()]
    judged = curve.judged
    return Plot(
        name=f"cost-by-share-{number}",
        title=share_words(curve),
        caption=f"Cost of a token, variant / baseline - 1, by the share of {curve.prompt_class} in "
        f"the output tokens, the other classes in proportion; shaded: its {INTERVAL}, from the "
        f"same {judged.samples} pairs. {_MARKS}",
        draw=lambda axes: _draw(
            axes,
            points,
            judged=(100 * curve.judged_share, judged.value),
            equal=curve.equal and _in_percent(curve.equal),
            label=f"{short(curve.prompt_class)} (% of output tokens)",
        ),
    )


def _price_plot(cost: CostByPrice) -> Plot:
    judged = cost.judged_price_ratio
    right = 1.5 * max(judged, cost.equal.high or cost.equal.value)
    points = [(at, *cost.at(at)) for at in (0.0, judged, right)]
    return Plot(
        name="cost-by-price",
        title=price_sentence(cost).rstrip("."),
        caption="Cost of a token, variant / baseline - 1, by the price of the variant's server / "
        f"the baseline's, to which it is proportional; shaded: its {INTERVAL}. {_MARKS}",
        draw=lambda axes: _draw(
            axes,
            points,
            judged=(judged, cost.ratio.value),
            equal=cost.equal,
            label="price of the variant's server / the baseline's",
        ),
    )


def _in_percent(equal: EqualCost) -> EqualCost:
    low, high = (None if end is None else 100 * end for end in (equal.low, equal.high))
    return EqualCost(value=100 * equal.value, low=low, high=high)


def _draw(
    axes: Axes,
    points: Sequence[_Point],
    *,
    judged: tuple[float, float],
    equal: EqualCost | None,
    label: str,
) -> None:
    mark_equal_cost(axes, "y")
    ends = [(x, interval) for x, _, interval in points if interval]
    lows, highs = ([_percent_more(interval[end]) for _, interval in ends] for end in (0, 1))
    axes.fill_between([x for x, _ in ends], lows, highs, color="C1", alpha=0.25, linewidth=0)
    axes.plot([x for x, _, _ in points], [_percent_more(y) for _, y, _ in points], color="C1")
    axes.plot([judged[0]], [_percent_more(judged[1])], "o", color="C1", markersize=8)
    if equal is not None:
        if equal.low is not None and equal.high is not None:
            axes.plot([equal.low, equal.high], [0, 0], color="C2", linewidth=2.5)
        axes.plot([equal.value], [0], "D", color="C2", markersize=7)
    axes.set_xlim(points[0][0], points[-1][0])
    axes.set(xlabel=label, ylabel="cost of a token (%)")
    marks = (("as judged", "o", "C1"), ("costs are equal", "D", "C2"))
    legend(axes, ((n, {"color": c, "marker": m, "linestyle": ""}) for n, m, c in marks))


def _percent_more(ratio: float) -> float:
    return 100 * (ratio - 1)
