"""What tests of reports share: where their snapshots are, a page of HTML, and a plot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from draftworth.report.drawing import Plot, render
from draftworth.report.writing import html_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from draftworth.report.document import Document

SNAPSHOTS = Path(__file__).parent / "snapshots"
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def page_of(document: Document) -> str:
    """Return the document as HTML; a few constant bytes stand for each of its plots."""
    images = {plot.name: b"png" for plot in document.plots}
    return html_of(document, images)


def draw() -> bytes:
    """Return a plot of one line as a PNG file."""

    def line(axes: Axes) -> None:
        axes.plot([1, 2], [1, 2])

    return render(Plot(name="a", title="t", caption="c", draw=line))
