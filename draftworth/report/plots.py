"""The plots of a run: what each one shows and what its title says."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from draftworth.analysis.facts import GroupFacts, RunFacts, VariantFacts
from draftworth.analysis.statistics import Estimate, quantile
from draftworth.analysis.verdict import INDIFFERENCE, Comparison
from draftworth.records.results import RequestRecord
from draftworth.report.drawing import Plot, Theme, label_axes, legend, look, place_legend, short

CURVE_POINTS = 400
ROW_INCHES = 0.55
# Above this many minutes a run's axis is in minutes.
SECONDS_AXIS_LIMIT_S = 300.0
_JUDGEMENTS = {
    "pays": "{name} pays, ITL {speedup:.2f}x as fast",
    "costs": "{name} costs, ITL {speedup:.2f}x as fast",
    "does not pay": "{name} changes nothing, ITL {speedup:.2f}x as fast",
    "inconclusive": "{name}: inconclusive, ITL {speedup:.2f}x as fast",
}


def overview_plots(facts: RunFacts) -> Iterator[Plot]:
    """The plots that put all groups side by side."""
    rows = [v for v in facts.speculative if v.comparison and v.comparison.itl_speedup]
    if rows:
        yield _speedup_plot(rows)
    rows = [v for v in facts.speculative if v.break_even]
    if rows:
        yield _tokens_per_step_plot(rows)


def group_plots(facts: RunFacts, number: int, group: GroupFacts) -> Iterator[Plot]:
    """The plots of one group; `number` makes their names unique."""
    suffix = f"{number:02d}-{_slug(group.group.label)}"
    for latency in _LATENCIES:
        if any(latency.of(variant) for variant in group.variants):
            yield _over_time_plot(facts, group, latency, f"{latency.slug}-over-time-{suffix}")
    if any(v.summary.inter_token_latency_s for v in group.variants):
        yield _itl_distribution_plot(group, f"itl-distribution-{suffix}")
    if any(v.step_latencies_s for v in group.variants):
        yield _step_distribution_plot(group, f"step-latency-{suffix}")
    if any(v.accepted_at for v in group.speculative):
        yield _acceptance_plot(group, f"acceptance-{suffix}")


def sample(variants: Sequence[VariantFacts]) -> str:
    """How many requests of which variants a plot shows."""
    counts = ", ".join(
        f"{v.summary.counted} of {v.name}"
        + (f" ({v.summary.failed} failed, {v.summary.excluded} excluded)" * (not _is_clean(v)))
        for v in variants
    )
    return f"Requests: {counts}."


def _is_clean(variant: VariantFacts) -> bool:
    return variant.summary.counted == variant.summary.requests


def _slug(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")[:60]


def _finding(group: GroupFacts) -> str:
    told = [v.comparison for v in group.speculative if v.comparison and v.comparison.itl_speedup]
    if not told:
        return f"{group.group.label}: ITL"
    best = max(told, key=_speedup_value)
    words = _JUDGEMENTS[best.judgement].format(
        name=short(best.variant), speedup=_speedup_value(best)
    )
    return f"{group.group.label}: {words}"


def _speedup_value(comparison: Comparison) -> float:
    return comparison.itl_speedup.value if comparison.itl_speedup else 0.0


@dataclass(frozen=True, kw_only=True)
class _Latency:
    """A latency of a request: what it is called, where it is, and how it is shown."""

    slug: str
    name: str
    field: str
    unit: str

    def of(self, variant: VariantFacts) -> list[tuple[float, float]]:
        """(start, milliseconds) of each request that counts."""
        values = ((r, getattr(r, self.field)) for r in variant.records if r.counts)
        return [(r.started_at_unix_s, v * 1e3) for r, v in values if v is not None]


_LATENCIES = (
    _Latency(slug="itl", name="ITL", field="inter_token_latency_s", unit="ms a token"),
    _Latency(slug="ttft", name="TTFT", field="ttft_s", unit="ms"),
    _Latency(slug="e2e", name="E2E", field="end_to_end_latency_s", unit="ms"),
)


def _over_time_plot(facts: RunFacts, group: GroupFacts, latency: _Latency, name: str) -> Plot:
    start = facts.run.result.started_at_unix_s
    seconds = facts.run.result.ended_at_unix_s - start
    unit, divisor = ("min", 60.0) if seconds > SECONDS_AXIS_LIMIT_S else ("s", 1.0)
    found = [latency.of(variant) for variant in group.variants]
    medians = [quantile([y for _, y in points], 0.5) if points else None for points in found]

    def draw(axes: Axes, theme: Theme) -> None:
        for index, (points, median) in enumerate(zip(found, medians, strict=True)):
            own = look(theme, index)
            x, y = [(at - start) / divisor for at, _ in points], [value for _, value in points]
            axes.plot(x, y, own.marker, color=own.colour, markersize=3.5, alpha=0.6)
            if median is not None:
                axes.axhline(median, color=own.colour, linestyle=own.line, linewidth=1.5)
        axes.set_ylim(bottom=0)
        label_axes(
            axes,
            theme,
            x=f"since the run started ({unit})",
            y=f"{latency.name} ({latency.unit})",
        )
        names = [
            short(v.name) + (f", median {median:.2f} ms" if median is not None else "")
            for v, median in zip(group.variants, medians, strict=True)
        ]
        legend(axes, theme, names, [look(theme, i) for i in range(len(names))])

    return Plot(
        name=name,
        title=_finding(group) if latency.slug == "itl" else _medians(group, latency, medians),
        caption=f"{latency.name} of each request over time, lines at the medians. "
        f"{sample(group.variants)}",
        draw=draw,
    )


def _medians(group: GroupFacts, latency: _Latency, medians: Sequence[float | None]) -> str:
    parts = [
        f"{median:.1f} ms for {short(variant.name)}"
        for variant, median in zip(group.variants, medians, strict=True)
        if median is not None
    ]
    return f"{group.group.label}: median {latency.name} {', '.join(parts)}"


def _itl_ms(record: RequestRecord) -> float:
    return (record.inter_token_latency_s or 0.0) * 1e3


def _itl_distribution_plot(group: GroupFacts, name: str) -> Plot:
    curves = [
        [_itl_ms(r) for r in v.records if r.counts and r.inter_token_latency_s is not None]
        for v in group.variants
    ]
    slow = [
        f"{quantile(values, 0.9):.2f} ms for {short(v.name)}"
        for v, values in zip(group.variants, curves, strict=True)
        if values
    ]
    return Plot(
        name=name,
        title=f"{group.group.label}: nine in ten requests have an ITL below {', '.join(slow)}",
        caption=f"Share of requests whose ITL is at most x. {sample(group.variants)}",
        draw=lambda axes, theme: _draw_curves(axes, theme, group, curves, "ITL (ms a token)"),
    )


def _step_distribution_plot(group: GroupFacts, name: str) -> Plot:
    curves = [[s * 1e3 for s in v.step_latencies_s] for v in group.variants]
    counts = ", ".join(
        f"{len(values):,} of {v.name}" for v, values in zip(group.variants, curves, strict=True)
    )
    return Plot(
        name=name,
        title=f"{group.group.label}: {_step_finding(group, curves)}",
        caption=f"Share of steps (times between chunks) that take at most x, up to the 99.5th "
        f"percentile. Steps: {counts}.",
        draw=lambda axes, theme: _draw_curves(axes, theme, group, curves, "step latency (ms)"),
    )


def _step_finding(group: GroupFacts, curves: Sequence[Sequence[float]]) -> str:
    parts = [
        f"{quantile(values, 0.5):.1f} ms for {short(v.name)}"
        for v, values in zip(group.variants, curves, strict=True)
        if values
    ]
    return f"half of the steps take at most {', '.join(parts)}"


def _draw_curves(
    axes: Axes, theme: Theme, group: GroupFacts, curves: Sequence[Sequence[float]], unit: str
) -> None:
    right = 0.0
    for index, values in enumerate(curves):
        if not values:
            continue
        own, ordered = look(theme, index), sorted(values)
        points = min(len(ordered), CURVE_POINTS)
        ranks = [math.ceil(len(ordered) * (i + 1) / points) for i in range(points)]
        x = [ordered[0], *(ordered[rank - 1] for rank in ranks)]
        y = [0.0, *(100 * rank / len(ordered) for rank in ranks)]
        axes.step(x, y, where="post", color=own.colour, linestyle=own.line, linewidth=1.8)
        right = max(right, quantile(ordered, 0.995))
    axes.set_xlim(0, right * 1.05 or 1)
    axes.set_ylim(0, 101)
    label_axes(axes, theme, x=unit, y="share (%)")
    names = [short(v.name) for v in group.variants]
    legend(axes, theme, names, [look(theme, i) for i in range(len(names))], markers=False)


def _acceptance_plot(group: GroupFacts, name: str) -> Plot:
    told = [(i, v) for i, v in enumerate(group.variants) if v.accepted_at]

    def draw(axes: Axes, theme: Theme) -> None:
        for index, variant in told:
            own = look(theme, index)
            y = [100 * share for share in variant.accepted_at]
            axes.plot(
                range(1, len(y) + 1), y, color=own.colour, marker=own.marker, linestyle=own.line
            )
        longest = max(len(v.accepted_at) for _, v in told)
        axes.set_xticks(range(1, longest + 1))
        axes.set_xlim(0.6, longest + 0.4)
        axes.set_ylim(0, 103)
        label_axes(axes, theme, x="position in the draft", y="accepted (% of drafts)")
        legend(axes, theme, [short(v.name) for _, v in told], [look(theme, i) for i, _ in told])

    _, first = told[0]
    return Plot(
        name=name,
        title=f"{group.group.label}: {short(first.name)} has {first.accepted_at[0]:.0%} of first "
        f"drafted tokens accepted, {first.accepted_at[-1]:.0%} of those at position "
        f"{len(first.accepted_at)}",
        caption="By the server's counters over all measured blocks. "
        + sample([v for _, v in told]),
        draw=draw,
    )


def _rows_axis(axes: Axes, theme: Theme, rows: Sequence[VariantFacts]) -> None:
    """One row for each variant and group, the first on top."""
    labels = [f"{short(v.summary.group.label)}\n{short(v.name)}" for v in rows]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", labelcolor=theme.text)
    axes.grid(visible=False, axis="y")


def _height(rows: Sequence[VariantFacts]) -> float:
    return 1.6 + ROW_INCHES * len(rows)


def _speedup_plot(rows: Sequence[VariantFacts]) -> Plot:
    pays = sum(v.comparison is not None and v.comparison.judgement == "pays" for v in rows)

    def draw(axes: Axes, theme: Theme) -> None:
        axes.axvspan(1 - INDIFFERENCE, 1 + INDIFFERENCE, color=theme.grid, alpha=0.6, linewidth=0)
        axes.axvline(1, color=theme.muted, linewidth=1)
        for row, variant in enumerate(rows):
            speedup = variant.comparison.itl_speedup if variant.comparison else None
            if speedup:
                _interval(axes, theme, row, speedup)
        _rows_axis(axes, theme, rows)
        # Room for the figure above the last point.
        axes.set_xlim(0, 1.08 * axes.get_xlim()[1])
        label_axes(axes, theme, x="ITL speedup (baseline ITL / variant ITL)")

    return Plot(
        name="speedup",
        title=f"Speculation pays in {pays} of {len(rows)} comparisons",
        caption="Median of paired requests with its 95% interval; the band around 1 is no "
        f"difference worth a second model ({INDIFFERENCE:.0%}). {_pairs_sample(rows)}",
        draw=draw,
        height_inches=_height(rows),
    )


def _interval(axes: Axes, theme: Theme, row: int, speedup: Estimate) -> None:
    colour = theme.colours[0]
    if speedup.low is not None and speedup.high is not None:
        axes.plot([speedup.low, speedup.high], [row, row], color=colour, linewidth=2.5)
    axes.plot([speedup.value], [row], "o", color=colour, markersize=7)
    axes.annotate(
        f"{speedup.value:.2f}x",
        (speedup.value, row),
        xytext=(0, 7),
        textcoords="offset points",
        ha="center",
        color=theme.text,
    )


def _pairs_sample(rows: Sequence[VariantFacts]) -> str:
    counts = ", ".join(
        f"{v.label}: {v.comparison.itl_speedup.samples} of {v.comparison.itl_speedup.prompts} "
        "prompts"
        for v in rows
        if v.comparison and v.comparison.itl_speedup
    )
    return f"Pairs: {counts}."


def _tokens_per_step_plot(rows: Sequence[VariantFacts]) -> Plot:
    told = [(v, v.break_even) for v in rows if v.break_even]
    above = sum(b.tokens_per_step > b.needed for _, b in told)

    def draw(axes: Axes, theme: Theme) -> None:
        measured, needed = theme.colours[0], theme.colours[1]
        for row, (_, figures) in enumerate(told):
            ends = [figures.needed, figures.tokens_per_step]
            axes.plot(ends, [row, row], color=theme.grid, linewidth=3, zorder=1)
            axes.plot([figures.needed], [row], "D", color=needed, markersize=7)
            axes.plot([figures.tokens_per_step], [row], "o", color=measured, markersize=8)
            axes.plot([figures.most], [row], "|", color=theme.muted, markersize=14)
        _rows_axis(axes, theme, [v for v, _ in told])
        axes.set_xlim(left=0)
        label_axes(axes, theme, x="output tokens a step")
        _marker_legend(axes, theme)

    return Plot(
        name="tokens-per-step",
        title=f"Tokens per step are above break-even in {above} of {len(told)} comparisons",
        caption="Break-even: step latency of the variant / ITL of the baseline, medians over "
        "requests; right of it speculation is faster. Requests: "
        + ", ".join(f"{v.label}: {v.summary.counted}" for v, _ in told)
        + ".",
        draw=draw,
        height_inches=_height(rows) + 0.4,
    )


def _marker_legend(axes: Axes, theme: Theme) -> None:
    marks = (
        ("measured", "o", theme.colours[0]),
        ("break-even", "D", theme.colours[1]),
        ("most", "|", theme.muted),
    )
    handles = [Line2D([], [], linestyle="", marker=m, color=colour) for _, m, colour in marks]
    place_legend(axes, theme, handles, [name for name, _, _ in marks])
