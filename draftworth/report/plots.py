"""The plots of one prompt class at one load, and over the requests at a time, with captions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from draftworth.analysis.statistics import quantile
from draftworth.analysis.summary import VariantSummary
from draftworth.decision.facts import GroupFacts, RunFacts, VariantFacts
from draftworth.decision.ladder import Ladder
from draftworth.metrics import definitions
from draftworth.metrics.definitions import INTER_TOKEN_LATENCY, Metric
from draftworth.records.results import values_of
from draftworth.report.drawing import Plot, legend, look, short
from draftworth.report.sentences import in_flight_words, ladder_words
from draftworth.report.words import FINDINGS, INTERVAL, ratio

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The height of a plot with two panels, one above the other.
HEIGHT_INCHES = 5.6


def ladder_plot(ladder: Ladder, suffix: str) -> Plot:
    """Return a plot of cost and ITL over the requests in flight.

    ladder: one traffic, measured at several concurrencies. suffix: the end of the plot's name.
    """
    reaches = "; ".join(f"{short(v)} {_title(ladder, v)}" for v in ladder.speculative)
    unit = "US dollars" if ladder.has_price else "hours of a server"
    return Plot(
        name=f"over-concurrency-{suffix}",
        title=f"{short(ladder_words(ladder))}: {reaches}",
        caption=f"Above: {unit} for a million output tokens, bars: the baseline's x the ends of "
        f"the cost ratio's {INTERVAL}. Below: the median ITL of each class, weighted like its "
        "tokens. Lines join what was measured; between two loads nothing was.",
        draw=lambda axes: _draw(axes, ladder),
        height_inches=HEIGHT_INCHES,
    )


def _title(ladder: Ladder, variant: str) -> str:
    last = ladder.cheaper_up_to(variant)
    if last is None:
        return "is not shown to be cheaper at the lightest load"
    return f"is cheaper up to {in_flight_words(last.concurrency)}"


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
        _from_zero(panel)
        panel.set_ylabel(label)
    # The scale is logarithmic, because each concurrency is usually twice the one before.
    lower.set_xscale("log", base=2)
    ticks = [rung.concurrency for rung in ladder.rungs]
    lower.set_xticks(ticks, [str(tick) for tick in ticks])
    lower.minorticks_off()
    lower.set_xlabel("requests at a time")
    legend(upper, ((short(v), look(i)) for i, v in enumerate(ladder.variants)))


def _from_zero(axes: Axes) -> None:
    """Let the y axis begin at 0, and leave room above the highest point, which else is cut."""
    axes.set_ylim(bottom=0, top=1.05 * axes.get_ylim()[1])


def _draw_line(axes: Axes, index: int, points: Sequence[tuple[int, float | None]]) -> None:
    drawn = [(at, value) for at, value in points if value is not None]
    axes.plot([at for at, _ in drawn], [value for _, value in drawn], **look(index))


def _draw_intervals(axes: Axes, index: int, ladder: Ladder, variant: str) -> None:
    for rung in ladder.rungs:
        plain = rung.costs.get(ladder.variants[0])
        comparison = rung.comparisons.get(variant)
        ratio = comparison.cost_ratio if comparison else None
        if plain and ratio and ratio.low is not None and ratio.high is not None:
            ends = [plain * ratio.low, plain * ratio.high]
            bar = look(index) | {"linestyle": "-", "marker": "_"}
            axes.plot([rung.concurrency] * 2, ends, **bar)


CURVE_POINTS = 400
# For a run that is longer than this, the time axis is in minutes.
SECONDS_AXIS_LIMIT_S = 300.0


def group_plots(facts: RunFacts, number: int, group: GroupFacts) -> Iterator[Plot]:
    """Yield the plots of one prompt class at one load; `number` makes the plots' names unique."""
    suffix = f"{number:02d}-{slug(group.group.label)}"
    # Pooled runs are hours or months apart, so they have no common time axis.
    for metric in () if facts.run.is_pool else definitions.shown_latencies():
        if any(v.value(metric) is not None for v in group.variants):
            yield _over_time_plot(facts, group, metric, suffix)
    if any(v.value(INTER_TOKEN_LATENCY) is not None for v in group.variants):
        yield _itl_distribution_plot(group, suffix)
    if any(v.step_latencies_s for v in group.variants):
        yield _step_distribution_plot(group, suffix)
    if any(v.accepted_at for v in group.speculative):
        yield _acceptance_plot(group, suffix)


def sample_sentence(variants: Sequence[VariantFacts]) -> str:
    """Return a sentence on how many requests of which variants a plot shows."""
    return f"Requests: {', '.join(_counted(v.summary) for v in variants)}."


def _counted(summary: VariantSummary) -> str:
    text = f"{summary.counted} of {summary.variant}"
    if summary.counted < summary.requests:
        text += f" ({summary.failed} failed, {summary.excluded} excluded)"
    return text


def slug(label: str) -> str:
    """Return a label as a part of a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")[:60]


def _finding(group: GroupFacts) -> str:
    costs = [(c, c.cost_ratio) for v in group.speculative if (c := v.comparison)]
    best = min(((r.value, c) for c, r in costs if r), key=lambda pair: pair[0], default=None)
    if best is None:
        return f"{group.group.label}: ITL"
    _, comparison = best
    finding = f"{short(comparison.variant)}{FINDINGS[comparison.judgement]}"
    itl = ratio(comparison.itl_speedup.value if comparison.itl_speedup else None)
    return f"{group.group.label}: {finding}, ITL {itl} as fast"


def _each(group: GroupFacts, values_ms: Sequence[float | None], *, digits: int) -> str:
    return ", ".join(
        f"{value:.{digits}f} ms for {short(variant.name)}"
        for variant, value in zip(group.variants, values_ms, strict=True)
        if value is not None
    )


def _over_time_plot(facts: RunFacts, group: GroupFacts, metric: Metric, suffix: str) -> Plot:
    start = facts.run.result.started_at_unix_s
    seconds = facts.run.result.ended_at_unix_s - start
    unit, divisor = ("min", 60.0) if seconds > SECONDS_AXIS_LIMIT_S else ("s", 1.0)
    series = [[(r.started_at_unix_s, metric.of(r)) for r in v.records] for v in group.variants]
    medians = [None if (m := v.value(metric)) is None else m * 1e3 for v in group.variants]

    def draw(axes: Axes) -> None:
        for index, (points, median) in enumerate(zip(series, medians, strict=True)):
            x = [(at - start) / divisor for at, value in points if value is not None]
            y = [value for _, value in points if value is not None]
            axes.plot(x, y, **look(index) | {"linestyle": ""}, markersize=3.5, alpha=0.6)
            if median is not None:
                axes.axhline(median, **look(index) | {"marker": ""}, linewidth=1.5)
        _from_zero(axes)
        axis = f"{metric.label} ({metric.unit.name})"
        axes.set(xlabel=f"since the run started ({unit})", ylabel=axis)
        names = [
            short(v.name) + (f", median {median:.2f} ms" if median is not None else "")
            for v, median in zip(group.variants, medians, strict=True)
        ]
        legend(axes, ((name, look(i)) for i, name in enumerate(names)))

    listed = _each(group, medians, digits=1)
    better = f"; {metric.better} is better" if metric.better else ""
    return Plot(
        name=f"{slug(metric.label)}-over-time-{suffix}",
        title=_finding(group)
        if metric is INTER_TOKEN_LATENCY
        else f"{group.group.label}: median {metric.label} {listed}",
        caption=f"{metric.label} of each request over time, lines at the medians{better}. "
        f"{sample_sentence(group.variants)}",
        draw=draw,
    )


def _itl_distribution_plot(group: GroupFacts, suffix: str) -> Plot:
    curves = [
        [1e3 * s for s in values_of(v.records, INTER_TOKEN_LATENCY.field)] for v in group.variants
    ]
    slow = _each(group, [_quantile(values, 0.9) for values in curves], digits=2)
    return Plot(
        name=f"itl-distribution-{suffix}",
        title=f"{group.group.label}: nine in ten requests have an ITL below {slow}",
        caption=f"Share of requests whose ITL is at most x. {sample_sentence(group.variants)}",
        draw=lambda axes: _draw_curves(axes, group, curves, "ITL (ms per token)"),
    )


def _step_distribution_plot(group: GroupFacts, suffix: str) -> Plot:
    curves = [[s * 1e3 for s in v.step_latencies_s] for v in group.variants]
    counts = [f"{len(c):,} of {v.name}" for v, c in zip(group.variants, curves, strict=True)]
    half = _each(group, [_quantile(values, 0.5) for values in curves], digits=1)
    return Plot(
        name=f"step-latency-{suffix}",
        title=f"{group.group.label}: half of the steps take at most {half}",
        caption=f"Share of steps (times between chunks) that take at most x, up to the 99.5th "
        f"percentile. Steps: {', '.join(counts)}.",
        draw=lambda axes: _draw_curves(axes, group, curves, "step latency (ms)"),
    )


def _quantile(values: Sequence[float], share: float) -> float | None:
    return quantile(values, share) if values else None


def _draw_curves(
    axes: Axes, group: GroupFacts, curves: Sequence[Sequence[float]], unit: str
) -> None:
    right = 0.0
    for index, values in enumerate(curves):
        if not values:
            continue
        ordered = sorted(values)
        points = min(len(ordered), CURVE_POINTS)
        ranks = [math.ceil(len(ordered) * (i + 1) / points) for i in range(points)]
        x = [ordered[0], *(ordered[rank - 1] for rank in ranks)]
        y = [0.0, *(100 * rank / len(ordered) for rank in ranks)]
        axes.step(x, y, where="post", **look(index) | {"marker": ""}, linewidth=1.8)
        right = max(right, quantile(ordered, 0.995))
    axes.set_xlim(0, right * 1.05 or 1)
    axes.set_ylim(0, 101)
    axes.set(xlabel=unit, ylabel="share (%)")
    named = enumerate(group.variants)
    legend(axes, ((short(v.name), look(i) | {"marker": ""}) for i, v in named))


def _acceptance_plot(group: GroupFacts, suffix: str) -> Plot:
    drafted = [(i, v) for i, v in enumerate(group.variants) if v.accepted_at]

    def draw(axes: Axes) -> None:
        for index, variant in drafted:
            y = [100 * share for share in variant.accepted_at]
            axes.plot(range(1, len(y) + 1), y, **look(index))
        longest = max(len(v.accepted_at) for _, v in drafted)
        axes.set_xticks(range(1, longest + 1))
        axes.set_xlim(0.6, longest + 0.4)
        axes.set_ylim(0, 103)
        axes.set(xlabel="position in the draft", ylabel="accepted (% of drafts)")
        legend(axes, ((short(v.name), look(i)) for i, v in drafted))

    _, first = drafted[0]
    return Plot(
        name=f"acceptance-{suffix}",
        title=f"{group.group.label}: {short(first.name)} has {first.accepted_at[0]:.0%} of first "
        f"drafted tokens accepted, {first.accepted_at[-1]:.0%} of those at position "
        f"{len(first.accepted_at)}",
        caption="By the server's counters over all measured blocks. "
        + sample_sentence([v for _, v in drafted]),
        draw=draw,
    )
