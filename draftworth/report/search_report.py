"""The report of a search: its answer, every candidate, the predictions and the curves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from draftworth.analysis.pairing import TRAFFIC_MIX
from draftworth.analysis.statistics import Estimate
from draftworth.decision.facts import RunFacts
from draftworth.records.search_result import CandidateResult, CostInterval, SearchResult
from draftworth.report import search_sentences, sentences, words
from draftworth.report.document import Section, Table, table
from draftworth.report.drawing import Look, Plot, legend, look, short, themed
from draftworth.report.percent import signed_percent
from draftworth.report.verdict_section import compared

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The distance on the x axis between the interval bars of two curves at one window. A hollow
# (predicted) point beside a measured one is moved by half of it.
_APART = 0.2
# High enough for a legend with long names of drafts, one below the other.
HEIGHT_INCHES = 4.2
_FEWEST_TICKS = 3
_STEPS = (0.5, 0.25, 0.1, 0.05, 0.02, 0.01)


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point of a curve: the cost of a token with `window` / its cost without a draft.

    low, high: the ends of the cost's 95% interval; None: it has none.
    """

    window: float
    cost: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The curve of one draft, whose `name` it has: the cost of a token over the windows.

    line: the points that a line joins. filled: the measured points. hollow: the predicted points.
    """

    name: str
    line: Sequence[Point]
    filled: Sequence[Point]
    hollow: Sequence[Point] = ()


def draw_curves(axes: Axes, curves: Sequence[Curve], best: Point | None = None) -> None:
    """Draw the curves, the break-even line at 1, and a star at the best point."""
    axes.axhline(1, **_PLAIN)
    apart = min(_APART, 1 / (len(curves) + 1))
    for index, curve in enumerate(curves, start=1):
        aside = apart * (index - (len(curves) + 1) / 2)
        style = look(index)
        line = style | {"marker": ""}
        axes.plot([p.window + aside for p in curve.line], [p.cost for p in curve.line], **line)
        _draw_points(axes, style, curve.filled, aside)
        measured = {point.window for point in curve.filled}
        for point in curve.hollow:
            beside = apart / 2 * (point.window in measured)
            _draw_points(axes, style | _HOLLOW, [point], aside + beside)
    if best:
        axes.plot([best.window], [best.cost], **_star(), markersize=11, zorder=4)
    _scales(axes, sorted({p.window for curve in curves for p in curve.line}))
    axes.set(xlabel="window (drafted tokens per step)", ylabel="cost of a token / baseline's")
    _draw_legend(axes, curves, has_best=best is not None)


_PLAIN: Look = look(0) | {"marker": ""}
_HOLLOW: Look = {"markerfacecolor": "none", "alpha": 0.6}


def _star() -> Look:
    return {"color": themed("text.color"), "marker": "*", "linestyle": ""}


def _draw_points(axes: Axes, style: Look, points: Sequence[Point], aside: float) -> None:
    bar = style | {"linestyle": "-", "marker": ""}
    for point in points:
        at = point.window + aside
        if point.low is not None and point.high is not None:
            axes.plot([at, at], [point.low, point.high], **bar)
        axes.plot([at], [point.cost], **style | {"linestyle": ""}, markersize=4)


def _scales(axes: Axes, windows: Sequence[float]) -> None:
    # On a logarithmic scale, half the cost and twice the cost are equally far from the line at 1.
    axes.set_yscale("log", base=2)
    ticks = _ticks(*axes.get_ylim())
    axes.set_yticks(ticks, [f"{tick:.4g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xticks(windows)


def _ticks(low: float, high: float) -> list[float]:
    """Return the ticks of a logarithmic axis: the powers of two from low to high.

    If there are fewer than three, the ticks are the multiples of the first of `_STEPS` of which
    there are at least three.
    """
    powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    ticks = [2.0**power for power in powers]
    for step in _STEPS:
        if len(ticks) >= _FEWEST_TICKS:
            break
        multiples = range(math.ceil(low / step), math.floor(high / step) + 1)
        ticks = [step * multiple for multiple in multiples]
    return ticks


def _draw_legend(axes: Axes, curves: Sequence[Curve], *, has_best: bool) -> None:
    named = [(short(curve.name), look(index)) for index, curve in enumerate(curves, start=1)]
    entries = [("no draft", _PLAIN), *named]
    if any(curve.hollow for curve in curves):
        neutral = look(1) | {"color": "C0", "linestyle": ""}
        entries.append(("predicted", neutral | _HOLLOW))
    if has_best:
        entries.append(("best measured", _star()))
    legend(axes, entries)


def search_sections(facts: RunFacts) -> Iterator[Section]:
    """Yield the section of a search; nothing for any other run."""
    search = facts.run.search
    if search is None:
        return
    about = [words.ABOUT["search"]] if search.results else []
    usd = (sentences.cost_sentence(c).strip() for c in facts.decision.choices)
    yield Section(
        title="Search",
        paragraphs=(
            *(sentences.headline(facts), *filter(None, usd), *search_sentences.course(search)),
            *(f"Next: {sentences.next_step(facts)}.", *_prediction_errors(search)),
            *about,
        ),
        tables=(*_costs(search), *_steps(search), *_predictions(search)),
        plots=tuple(_plots(facts, search)),
    )


def _classes(search: SearchResult) -> Sequence[str]:
    return list(search.results[0].cost_by_class) if search.results else []


def _if_several(classes: Sequence[str]) -> Sequence[str]:
    """Return the classes if they are several, else none.

    The cost in an only class is that of the whole traffic, which is shown anyway.
    """
    return classes if len(classes) > 1 else []


def _name_and_window(search: SearchResult, result: CandidateResult) -> tuple[str, str]:
    return result.variant, str(search.search.candidate(result.variant).window)


def _costs(search: SearchResult) -> tuple[Table, ...]:
    classes = _if_several(_classes(search))
    rows = (
        (
            *(result.variant, search.search.candidate(result.variant).draft or words.MISSING),
            *(str(search.search.candidate(result.variant).window), _order_cell(search, result)),
            *words.change_cells(result.cost),
            *(signed_percent(result.cost_by_class[name] - 1) for name in classes),
            words.MISSING if result.measured else f"{result.chance:.0%}",
        )
        for result in search.results
    )
    headings = (
        *("candidate", "draft", "window", "measured", "cost of a token", words.INTERVAL),
        *(f"cost, {name}" for name in classes),
        f"chance to be more than {100 * search.search.within:g}% cheaper",
    )
    return table(headings, rows, names=2, title="Cost of a token with each candidate")


def _order_cell(search: SearchResult, result: CandidateResult) -> str:
    if result.measured is None or result.variant not in search.order:
        return "not measured"
    best = ", best" if result.variant == search.best else ""
    return f"{search.order.index(result.variant) + 1}.{best}"


def _steps(search: SearchResult) -> tuple[Table, ...]:
    classes = _classes(search)
    rows = (
        (
            *_name_and_window(search, result),
            words.number(result.step_cost, digits=2),
            *(words.number(result.tokens_per_step[name], digits=2) for name in classes),
        )
        for result in search.results
    )
    headings = (
        *("candidate", "window", "step cost = tokens per step to break even"),
        *(f"tokens per step, {name}" for name in classes),
    )
    return table(headings, rows, names=1, title="Step costs and tokens per step")


def _predicted_and_measured(
    search: SearchResult,
) -> list[tuple[CandidateResult, CostInterval, CostInterval]]:
    return [(r, r.predicted, r.measured) for r in search.results if r.predicted and r.measured]


def _prediction_errors(search: SearchResult) -> Iterator[str]:
    if both := _predicted_and_measured(search):
        explained = sum(predicted.agrees_with(measured) for _, predicted, measured in both)
        most = max((p.value / m.value - 1 for _, p, m in both), key=abs)
        yield (
            "Before a candidate was measured its cost was predicted; the largest difference is "
            f"{signed_percent(most)}, and both intervals explain {explained} of {len(both)}."
        )


def _predictions(search: SearchResult) -> tuple[Table, ...]:
    rows = (
        (
            *_name_and_window(search, result),
            *words.change_cells(predicted),
            *words.change_cells(measured),
            signed_percent(predicted.value / measured.value - 1),
            words.yes_or_no(predicted.agrees_with(measured)),
        )
        for result, predicted, measured in _predicted_and_measured(search)
    )
    headings = (
        *("candidate", "window", "cost of a token, predicted", words.INTERVAL),
        *("measured by itself", words.INTERVAL),
        *("predicted / measured - 1", "both intervals explain it"),
    )
    return table(headings, rows, names=1, title="Costs as predicted and as measured")


def _plots(facts: RunFacts, search: SearchResult) -> Iterator[Plot]:
    if not search.best:
        return
    best, classes = search.result(search.best), _if_several(_classes(search))
    traffic = TRAFFIC_MIX if classes else "".join(_classes(search))
    window = search.search.candidate(search.best).window
    drafts = dict.fromkeys(search.search.candidate(r.variant).draft for r in search.results)
    says = f"with {search_sentences.named(search, search.best)} a token costs"
    yield _plot(
        "search",
        f"{traffic}: {says} {search_sentences.cost_words(best.cost)}",
        f"Bars: {words.INTERVAL}s; filled: measured by itself, over these prompts; hollow: "
        "predicted, of a measured one before it was.",
        [_curve(search, draft) for draft in drafts],
        Point(window=window, cost=best.cost.value),
    )
    for place, name in enumerate(classes, start=1):
        cost = best.cost_by_class[name]
        yield _plot(
            f"search-class-{place:02d}",
            f"{name}: {says} {search_sentences.apart(cost)}",
            f"Filled: measured, bars: the verdict's {words.INTERVAL}; hollow: predicted.",
            [_class_curve(facts, search, draft, name) for draft in drafts],
            Point(window=window, cost=cost),
        )


def _plot(name: str, title: str, marks: str, curves: Sequence[Curve], best: Point) -> Plot:
    return Plot(
        name=name,
        title=title,
        caption="What a token costs, in what it costs without a draft (the line at 1: there a "
        f"draft breaks even). {marks} Lines join what is known of all; star: the best of the "
        "traffic.",
        draw=lambda axes: draw_curves(axes, curves, best),
        height_inches=HEIGHT_INCHES,
    )


def _of_draft(search: SearchResult, draft: str) -> Sequence[tuple[int, CandidateResult]]:
    candidates = ((search.search.candidate(r.variant), r) for r in search.results)
    return sorted(
        ((c.window, r) for c, r in candidates if c.draft == draft), key=lambda pair: pair[0]
    )


def _point(window: float, cost: CostInterval | Estimate) -> Point:
    return Point(window=window, cost=cost.value, low=cost.low, high=cost.high)


def _curve(search: SearchResult, draft: str) -> Curve:
    by_window = _of_draft(search, draft)
    expected = ((w, r.predicted if r.measured else r.cost) for w, r in by_window)
    return Curve(
        name=draft or "no draft model",
        line=[Point(window=window, cost=result.cost.value) for window, result in by_window],
        filled=[_point(window, r.measured) for window, r in by_window if r.measured],
        hollow=[_point(window, cost) for window, cost in expected if cost],
    )


def _class_curve(facts: RunFacts, search: SearchResult, draft: str, name: str) -> Curve:
    points = [(Point(window=w, cost=r.cost_by_class[name]), r) for w, r in _of_draft(search, draft)]
    measured = {
        v.name: c.cost_ratio
        for v, c in compared(facts)
        if (v.summary.group.prompt_class, v.summary.group.load.label) == (name, search.load)
    }
    return Curve(
        name=draft or "no draft model",
        line=[point for point, _ in points],
        filled=[
            _point(point.window, ratio) for point, r in points if (ratio := measured.get(r.variant))
        ],
        hollow=[point for point, result in points if not result.measured],
    )
