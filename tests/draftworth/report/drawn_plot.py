"""A drawn plot; this module imports only what draws, because processes of tests load it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from draftworth.report.drawing import Plot, render

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw() -> bytes:
    """Return a plot of one line as a PNG file."""

    def line(axes: Axes) -> None:
        axes.plot([1, 2], [1, 2])

    return render(Plot(name="a", title="t", caption="c", draw=line))
