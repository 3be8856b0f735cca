"""What tests of plots share. Importing this module is quick: a test draws in a new process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from draftworth.report.drawing import Plot, render

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw() -> bytes:
    """Return a plot of one line as a PNG file."""

    def line(axes: Axes) -> None:
        axes.plot([1, 2], [1, 2])

    return render(Plot(name="a", title="t", caption="c", draw=line))


@contextmanager
def drawn_small() -> Iterator[list[Figure]]:
    """Draw plots at 10 dots per inch, which takes less time; yield the figures drawn."""
    import pytest
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    drawn: list[Figure] = []
    draw: Any = FigureCanvasAgg.draw

    def draw_small(canvas: FigureCanvasAgg) -> None:
        drawn.append(canvas.figure)
        canvas.figure.dpi = 10
        draw(canvas)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FigureCanvasAgg, "draw", draw_small)
        yield drawn
