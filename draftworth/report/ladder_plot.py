"""The plot of cost and latency over concurrency, for the baseline and every variant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from draftworth.analysis.ladder import Ladder
from draftworth.report.drawing import Plot, legend, look, short
from draftworth.report.words import INTERVAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Of two panels, one above the other.
HEIGHT_INCHES = 5.6


def ladder_plot(ladder: Ladder, suffix: str) -> Plot:
    """Cost above, latency below, both over the requests in flight."""
    reaches = "; ".join(f"{short(v)} {_title(ladder, v)}" for v in ladder.speculative)
    unit = "US dollars" if ladder.has_price else "hours of a server"
    return Plot(
        name=f"over-concurrency-{suffix}",
        title=f"{short(ladder.label)}: {reaches}",
        caption=f"Above: {unit} for a million output tokens, bars: the baseline's x the ends of "
        f"the cost ratio's {INTERVAL}. Below: the median ITL of each class, weighted like its "
        "tokens. Lines join what was measured; between two loads nothing was.",
        draw=lambda axes: _draw(axes, ladder),
        height_inches=HEIGHT_INCHES,
    )


def _title(ladder: Ladder, variant: str) -> str:
    last = ladder.cheaper_up_to(variant)
    if last is None:
        return "is not shown to be cheaper at the lowest concurrency"
    return f"is cheaper up to concurrency {last.concurrency}"


def _draw(axes: Axes, ladder: Ladder) -> None:
    figure = axes.figure
    axes.remove()
    upper, lower = figure.subplots(2, 1, sharex=True)
    for index, variant in enumerate(ladder.variants):
        _draw_line(upper, index, [(r.concurrency, r.costs.get(variant)) for r in ladder.rungs])
        itls = [(r.concurrency, r.itls_s.get(variant)) for r in ladder.rungs]
        _draw_line(lower, index, [(at, s and s * 1e3) for at, s in itls])
        _draw_intervals(upper, index, ladder, variant)
    named = "USD" if ladder.has_price else "server hours"
    for panel, label in ((upper, f"{named} / million tokens"), (lower, "ITL (ms per token)")):
        panel.set_ylim(bottom=0)
        panel.set_ylabel(label)
    # Concurrencies double from rung to rung.
    lower.set_xscale("log", base=2)
    ticks = [rung.concurrency for rung in ladder.rungs]
    lower.set_xticks(ticks, [str(tick) for tick in ticks])
    lower.minorticks_off()
    lower.set_xlabel("requests in flight")
    legend(upper, ((short(v), look(i)) for i, v in enumerate(ladder.variants)))


def _draw_line(axes: Axes, index: int, points: Sequence[tuple[int, float | None]]) -> None:
    known = [(at, value) for at, value in points if value is not None]
    axes.plot([at for at, _ in known], [value for _, value in known], **look(index))


def _draw_intervals(axes: Axes, index: int, ladder: Ladder, variant: str) -> None:
    for rung in ladder.rungs:
        plain = rung.costs.get(ladder.variants[0])
        comparison = rung.comparisons.get(variant)
        ratio = comparison.cost_ratio if comparison else None
        if plain and ratio and ratio.low is not None and ratio.high is not None:
            ends = [plain * ratio.low, plain * ratio.high]
            bar = look(index) | {"linestyle": "-", "marker": "_"}
            axes.plot([rung.concurrency] * 2, ends, **bar)
