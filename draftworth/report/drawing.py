"""Draws plots as PNG bytes with Matplotlib, without pyplot; `plots.mplstyle` is the style.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; each variant also has its
own marker and line style, and the baseline is grey. Names of variants and classes are a user's
text, in which Matplotlib must not read `$` as the start of a formula.
"""

from __future__ import annotations

import importlib
import io
import logging
import os
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from draftworth.decision.verdict import INDIFFERENCE

# Matplotlib loads slowly, and a report for a terminal does not need it, so only the functions that
# draw import it.
if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLE = Path(__file__).with_name("plots.mplstyle")
# The number of colours in a PNG file: enough for lines and text, and so few that a page of fifty
# plots stays below 1 MB.
SHADES = 32

WIDTH_INCHES = 4.8
TITLE_COLUMNS = 54
# Names that are longer than this do not fit side by side in a legend.
LEGEND_COLUMN_CHARACTERS = 27
LONGEST_NAME = 32
COLOURS = 5
_MARKERS = ("o", "^", "s", "D", "v", "P")
_LINES = ("-", "--", ":", "-.")

# Matplotlib's arguments for a line: colour, marker, line style.
Look = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A plot that is not drawn yet.

    name: the name of its file without `.png`. title: what the plot shows, as a finding. caption:
    which data it shows. draw: draws the data into Matplotlib's axes.
    """

    name: str
    title: str
    caption: str
    draw: Callable[[Axes], None]
    height_inches: float = 3.3


def look(index: int) -> Look:
    """Return colour, marker and line style of the variant with this index; 0 is the baseline."""
    return {
        "color": f"C{(index - 1) % COLOURS + 1 if index else 0}",
        "marker": _MARKERS[index % len(_MARKERS)],
        "linestyle": _LINES[index % len(_LINES)],
    }


def themed(colour: Literal["grid.color", "axes.labelcolor", "text.color", "axes.facecolor"]) -> str:
    """Return a colour of the plots' style, which is in effect only while `render` draws a plot."""
    from matplotlib import rcParams

    return str(rcParams[colour])


def short(name: str) -> str:
    """Return a name cut to a length that fits into a plot, with `?` for control characters."""
    clean = "".join(c if c.isprintable() else "?" for c in name)
    return clean if len(clean) <= LONGEST_NAME else f"{clean[: LONGEST_NAME - 1]}…"


def render(plot: Plot) -> bytes:
    """Return the plot as PNG bytes."""
    _import_matplotlib()
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    with mpl.rc_context(fname=STYLE), warnings.catch_warnings():
        # Matplotlib's warnings of missing glyphs and of too long names do not help a user.
        warnings.simplefilter("ignore")
        figure = Figure(figsize=(WIDTH_INCHES, plot.height_inches))
        canvas: Any = FigureCanvasAgg(figure)  # its methods have no types
        plot.draw(figure.add_subplot())
        # The title belongs to the figure, not to the axes: beside the labels of rows, axes are too
        # narrow for a title.
        figure.suptitle(_title_lines(plot.title), x=0.015, horizontalalignment="left")
        # Not `savefig`: it draws twice, and its PNG would be unpacked again for fewer colours.
        canvas.draw()
        drawn = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba())
    packed = io.BytesIO()
    drawn.convert("RGB").quantize(SHADES).save(packed, format="png", optimize=True)
    return packed.getvalue()


def _title_lines(title: str) -> str:
    """Return a title broken into lines, of which none ends within brackets that fit into one."""
    whole = re.sub(r"\([^()]{1,24}\)", lambda interval: interval[0].replace(" ", "\xa0"), title)
    return textwrap.fill(whole, TITLE_COLUMNS)


def _mark_size(style: Look) -> int:
    """Return the size of a mark in the legend; a stroke is as good as invisible when small."""
    return 10 if style.get("marker") == "|" else 5


def _import_matplotlib() -> None:
    """Import Matplotlib without its settings on this machine, which could make the import fail.

    On import, Matplotlib reads the name of a backend, and the first file `matplotlibrc` that it
    finds: in the current folder, at MATPLOTLIBRC, or in the home folder. No plot needs these
    settings. `render` calls this function before Matplotlib is imported anywhere else.
    """
    os.environ |= {"MPLBACKEND": "agg", "MATPLOTLIBRC": str(STYLE)}
    # Otherwise Matplotlib warns if it cannot store its list of this machine's fonts. Without the
    # stored list, each process only needs a second more.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with chdir(STYLE.parent):
        importlib.import_module("matplotlib")


def mark_equal_cost(axes: Axes, axis: Literal["x", "y"]) -> None:
    """Draw a line where variant and baseline cost the same, and the band of no difference.

    axis: the axis with the cost of a token, variant / baseline - 1 in per cent.
    """
    span, line = (axes.axvspan, axes.axvline) if axis == "x" else (axes.axhspan, axes.axhline)
    band = (100 / (1 + INDIFFERENCE) - 100, 100 * INDIFFERENCE)
    span(*band, color=themed("grid.color"), alpha=0.6, linewidth=0)
    line(0, color=themed("axes.labelcolor"), linewidth=1)


def legend(axes: Axes, entries: Iterable[tuple[str, Look]]) -> None:
    """Draw a legend of (name, look) entries below the plot, where it hides no point."""
    from matplotlib.lines import Line2D

    entries = list(entries)
    handles = [Line2D([], [], **style, markersize=_mark_size(style)) for _, style in entries]
    # Matplotlib hides a label that begins with an underscore.
    labels = [f" {name}" if name.startswith("_") else name for name, _ in entries]
    fits = max(map(len, labels), default=0) <= LEGEND_COLUMN_CHARACTERS
    axes.figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(len(labels), 3 if len(" ".join(labels)) < TITLE_COLUMNS else 2) if fits else 1,
    )
