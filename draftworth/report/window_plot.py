"""Curves of what a token costs over the window, beside the cost without a draft."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from draftworth.report.drawing import Look, legend, look, short, themed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Of a window's width, between the bars of two curves; half of it from a filled point to a hollow.
_APART = 0.2
# With names of drafts, which are long, below one another.
HEIGHT_INCHES = 4.2
_FEWEST_TICKS = 3
_STEPS = (0.5, 0.25, 0.1, 0.05, 0.02, 0.01)


@dataclass(frozen=True, kw_only=True)
class Point:
    """What a token costs with a window / without a draft; low, high: None where no interval is."""

    window: float
    cost: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One draft, or one kind of traffic.

    line: what joins the points. filled: measured; hollow: predicted beside measured ones.
    """

    name: str
    line: Sequence[Point]
    filled: Sequence[Point]
    hollow: Sequence[Point] = ()


def draw_curves(axes: Axes, curves: Sequence[Curve], best: Point | None = None) -> None:
    """All curves, the line at 1 where a draft breaks even, and a star at the best point."""
    axes.axhline(1, **_plain())
    apart = min(_APART, 1 / (len(curves) + 1))
    for index, curve in enumerate(curves, start=1):
        aside = apart * (index - (len(curves) + 1) / 2)
        own = look(index)
        line = own | {"marker": ""}
        axes.plot([p.window + aside for p in curve.line], [p.cost for p in curve.line], **line)
        _draw_points(axes, own, curve.filled, aside)
        measured = {point.window for point in curve.filled}
        for point in curve.hollow:
            beside = apart / 2 * (point.window in measured)
            _draw_points(axes, own | _HOLLOW, [point], aside + beside)
    if best:
        axes.plot([best.window], [best.cost], **_star(), markersize=11, zorder=4)
    _scales(axes, sorted({p.window for curve in curves for p in curve.line}))
    axes.set(xlabel="window (drafted tokens a step)", ylabel="cost of a token / baseline's")
    _name_them(axes, curves, has_best=best is not None)


_HOLLOW: Look = {"markerfacecolor": "none", "alpha": 0.6}


def _plain() -> Look:
    return look(0) | {"marker": ""}


def _star() -> Look:
    return {"color": themed("text.color"), "marker": "*", "linestyle": ""}


def _draw_points(axes: Axes, own: Look, points: Sequence[Point], aside: float) -> None:
    bar = own | {"linestyle": "-", "marker": ""}
    for point in points:
        at = point.window + aside
        if point.low is not None and point.high is not None:
            axes.plot([at, at], [point.low, point.high], **bar)
        axes.plot([at], [point.cost], **own | {"linestyle": ""}, markersize=4)


def _scales(axes: Axes, windows: Sequence[float]) -> None:
    # Half and twice the cost lie equally far from the line at 1.
    axes.set_yscale("log", base=2)
    ticks = _ticks(*axes.get_ylim())
    axes.set_yticks(ticks, [f"{tick:.4g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xticks(windows)


def _ticks(low: float, high: float) -> list[float]:
    """Powers of two; where few are in sight, whole multiples of a step."""
    powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    ticks = [2.0**power for power in powers]
    for step in _STEPS:
        if len(ticks) >= _FEWEST_TICKS:
            break
        multiples = range(math.ceil(low / step), math.floor(high / step) + 1)
        ticks = [step * multiple for multiple in multiples]
    return ticks


def _name_them(axes: Axes, curves: Sequence[Curve], *, has_best: bool) -> None:
    named = [(short(curve.name), look(index)) for index, curve in enumerate(curves, start=1)]
    entries = [("no draft", _plain()), *named]
    if any(curve.hollow for curve in curves):
        neutral = look(1) | {"color": "C0", "linestyle": ""}
        entries.append(("predicted", neutral | _HOLLOW))
    if has_best:
        entries.append(("best measured", _star()))
    legend(axes, entries)
