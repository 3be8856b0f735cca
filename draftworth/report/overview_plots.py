"""The plots that compare groups: costs of a token, over concurrency, and tokens per step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from draftworth.analysis.checks import BreakEven
from draftworth.analysis.pairing import Traffic
from draftworth.analysis.statistics import Estimate
from draftworth.decision.facts import RunFacts, VariantFacts
from draftworth.decision.verdict import INDIFFERENCE, Comparison
from draftworth.errors import counted
from draftworth.records.results import AS_SHIPPED
from draftworth.report.drawing import Plot, legend, mark_equal_cost, short, themed
from draftworth.report.first_screen import at_load, is_decided_by
from draftworth.report.percent import says_nothing
from draftworth.report.plots import ladder_plot, slug
from draftworth.report.sentences import ladder_words
from draftworth.report.words import INTERVAL, change, cost_phrase

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW_INCHES = 0.55
# Of this many rows a caption says how much was measured; tables have all of them.
MOST_COUNTED = 3


def overview_plots(facts: RunFacts) -> Iterator[Plot]:
    """Yield the plots that compare groups; a group is one prompt class at one load."""
    compared = [c for c in facts.comparisons if AS_SHIPPED not in (c.variant, c.baseline)]
    compared.sort(key=lambda c: not is_decided_by(facts, c.traffic, c.variant))
    if costs := [(c, c.cost_ratio) for c in compared if c.cost_ratio]:
        yield _cost_plot(facts, costs)
    for ladder in facts.ladders:
        if len(ladder.rungs) > 1:
            yield ladder_plot(ladder, slug(ladder_words(ladder)))
    if predicted := [(v, b) for v in facts.speculative if (b := v.break_even)]:
        yield _tokens_per_step_plot(predicted)


def _rows_axis(axes: Axes, rows: Sequence[tuple[Traffic, str]]) -> None:
    """Name the rows of a plot: the traffic, and the load and the variant if there are several."""
    several_loads = len({traffic.load for traffic, _ in rows}) > 1
    several_variants = len({variant for _, variant in rows}) > 1
    labels = [
        "\n".join(
            [
                short(traffic.name),
                *([traffic.load.cell] if several_loads else []),
                *([short(variant)] if several_variants else []),
            ]
        )
        for traffic, variant in rows
    ]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", labelcolor=themed("text.color"))
    axes.grid(visible=False, axis="y")


def _cost_plot(facts: RunFacts, rows: Sequence[tuple[Comparison, Estimate]]) -> Plot:
    return Plot(
        name="cost",
        title=_cost_title(facts, *rows[0]),
        caption=f"Variant / baseline - 1, with its {INTERVAL}; in the band around 0, up to "
        f"{INDIFFERENCE:.0%} either way, a difference counts as none. "
        f"Measured: {_counts(rows)}.",
        draw=lambda axes: _draw_costs(axes, rows),
        height_inches=1.6 + ROW_INCHES * len(rows),
    )


def _cost_title(facts: RunFacts, first: Comparison, ratio: Estimate) -> str:
    """Return what the plot shows, as the decision above it says."""
    split = facts.decision.by_class
    if facts.decision.serves_by_class and split:
        classes = " and ".join(map(short, split.classes))
        variant = short(split.comparison.variant)
        return f"{variant} is proven cheaper for {classes} alone"
    cost = cost_phrase(ratio.value, ratio.low, ratio.high)
    traffic = f"{short(first.traffic.name)}{at_load(facts, first.traffic)}"
    unproven = "" if first.judgement.is_decided else ", not proven"
    return f"{traffic}: {short(first.variant)} {cost}{unproven}"


def _counts(rows: Sequence[tuple[Comparison, Estimate]]) -> str:
    """Return how many pairs and prompts the first rows have; equal rows are mentioned once.

    The prompts of a ratio without an interval were not counted.
    """
    counts = (
        f"{short(c.traffic.name)} {counted(r.samples, 'pair')} of requests"
        + (f" with {counted(r.prompts, 'prompt')}" if r.prompts else "")
        for c, r in rows[:MOST_COUNTED]
    )
    return ", ".join(dict.fromkeys(counts))


def _draw_costs(axes: Axes, rows: Sequence[tuple[Comparison, Estimate]]) -> None:
    mark_equal_cost(axes, "x")
    axes.set_xlabel("cost of a token, compared with the baseline (%)")
    for row, (_, cost_ratio) in enumerate(rows):
        _interval(axes, row, cost_ratio)
    _rows_axis(axes, [(c.traffic, c.name) for c, _ in rows])
    axes.margins(x=0.12)


def _interval(axes: Axes, row: int, ratio: Estimate) -> None:
    if ratio.interval and says_nothing(*ratio.interval):
        axes.text(0, row, "  nothing is known yet", va="center")
        return
    if ratio.low is not None and ratio.high is not None:
        ends = [100 * (end - 1) for end in (ratio.low, ratio.high)]
        axes.plot(ends, [row, row], color="C1", linewidth=2.5)
    axes.plot([100 * (ratio.value - 1)], [row], "o", color="C1", markersize=7)
    axes.annotate(
        change(ratio),
        (100 * (ratio.value - 1), row),
        xytext=(0, 7),
        textcoords="offset points",
        ha="center",
        # The line at 0 would run through a figure beside it.
        bbox={"facecolor": themed("axes.facecolor"), "edgecolor": "none", "pad": 0.5},
    )


def _tokens_per_step_plot(rows: Sequence[tuple[VariantFacts, BreakEven]]) -> Plot:
    above = sum(prediction.predicted_speedup > 1 for _, prediction in rows)
    requests = sum(v.summary.counted for v, _ in rows)

    def draw(axes: Axes) -> None:
        muted = themed("axes.labelcolor")
        for row, (_, figures) in enumerate(rows):
            ends = [figures.needed, figures.tokens_per_step]
            axes.plot(ends, [row, row], color=themed("grid.color"), linewidth=3, zorder=1)
            axes.plot([figures.needed], [row], "D", color="C2", markersize=7)
            axes.plot([figures.tokens_per_step], [row], "o", color="C1", markersize=8)
            if figures.most is not None:
                axes.plot([figures.most], [row], "|", color=muted, markersize=14)
        _rows_axis(axes, [(Traffic.of(v.summary.group), v.name) for v, _ in rows])
        axes.set_xlim(left=0)
        axes.set_xlabel("output tokens per step")
        marks = (("measured", "o", "C1"), ("break-even", "D", "C2"), ("most possible", "|", muted))
        legend(axes, ((n, {"color": c, "marker": m, "linestyle": ""}) for n, m, c in marks))

    return Plot(
        name="tokens-per-step",
        title=f"Tokens per step are above break-even in {above} of {len(rows)} comparisons",
        caption="Break-even: step latency of the variant / ITL of the baseline, medians over "
        "requests, times the ratio of prices; right of it decoding is cheaper. "
        f"Measured: {counted(requests, 'request')} of variants.",
        draw=draw,
        height_inches=2.0 + ROW_INCHES * len(rows),
    )
