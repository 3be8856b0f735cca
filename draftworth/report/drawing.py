"""How plots look: themes, labels and PNG bytes. Matplotlib's objects, never pyplot's global state.

Colours are Okabe and Ito's, which stay apart for colour-blind readers; a variant also has its own
marker and line, and the baseline is neutral. Names of variants and classes are a user's text:
nothing in them is read as mathematics.
"""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

# Loaded only where something is drawn: it takes long, and the terminal needs no picture.
if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LineStyle = Literal["-", "--", ":", "-.", ""]

WIDTH_INCHES = 4.8
DOTS_PER_INCH = 200
TITLE_COLUMNS = 56
# Longer names than this do not fit beside one another.
LEGEND_COLUMN_CHARACTERS = 27
LONGEST_NAME = 32


@dataclass(frozen=True, kw_only=True)
class Theme:
    """Colours for light or dark paper. `colours` are for the speculative variants."""

    name: str
    paper: str
    text: str
    muted: str
    grid: str
    baseline: str
    colours: tuple[str, ...]


LIGHT = Theme(
    name="light",
    paper="#ffffff",
    text="#1b1f24",
    muted="#57606a",
    grid="#dfe3e8",
    baseline="#57606a",
    colours=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07d00"),
)
DARK = Theme(
    name="dark",
    paper="#161b22",
    text="#e6edf3",
    muted="#9aa4af",
    grid="#30363d",
    baseline="#aab4be",
    colours=("#56b4e9", "#f0803c", "#2bc89b", "#e69bc4", "#f0e442"),
)
THEMES = (LIGHT, DARK)
_MARKERS = ("o", "^", "s", "D", "v", "P")
_LINES: tuple[LineStyle, ...] = ("-", "--", ":", "-.")


@dataclass(frozen=True, kw_only=True)
class Look:
    """How one variant is drawn."""

    colour: str
    marker: str
    line: LineStyle


Draw = Callable[["Axes", Theme], None]


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A plot before it has a theme. The title says the finding, the caption the sample."""

    name: str
    title: str
    caption: str
    draw: Draw
    height_inches: float = 3.3


def look(theme: Theme, index: int) -> Look:
    """Of the variant with this index; 0 is the baseline."""
    if index == 0:
        return Look(colour=theme.baseline, marker="o", line="-")
    return Look(
        colour=theme.colours[(index - 1) % len(theme.colours)],
        marker=_MARKERS[index % len(_MARKERS)],
        line=_LINES[index % len(_LINES)],
    )


def short(name: str) -> str:
    """A name that fits into a plot, without line ends or other control characters."""
    clean = "".join(c if c.isprintable() else "?" for c in name)
    return clean if len(clean) <= LONGEST_NAME else f"{clean[: LONGEST_NAME - 1]}…"


def render(plot: Plot, theme: Theme) -> bytes:
    """The plot as PNG bytes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # parse_math: a `$` in a name is a dollar sign.
    with mpl.rc_context({"text.parse_math": False, "font.size": 9.5}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(
            figsize=(WIDTH_INCHES, plot.height_inches), facecolor=theme.paper, layout="constrained"
        )
        axes = figure.add_subplot(facecolor=theme.paper)
        _prepare(axes, theme)
        plot.draw(axes, theme)
        _write_title(figure, plot.title, theme)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return buffer.getvalue()


def _write_title(figure: Figure, title: str, theme: Theme) -> None:
    """Over the whole width, from the left: beside row labels the axes are narrow."""
    figure.suptitle(
        textwrap.fill(title, TITLE_COLUMNS),
        x=0.015,
        horizontalalignment="left",
        color=theme.text,
        fontsize=10,
        fontweight="bold",
    )


def _prepare(axes: Axes, theme: Theme) -> None:
    axes.set_axisbelow(True)
    axes.grid(visible=True, color=theme.grid, linewidth=0.7)
    axes.tick_params(colors=theme.muted, length=0, labelsize=9)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(theme.grid)


def label_axes(axes: Axes, theme: Theme, *, x: str, y: str = "") -> None:
    """Names and units of both axes."""
    axes.set_xlabel(x, color=theme.muted)
    axes.set_ylabel(y, color=theme.muted)


def legend(axes: Axes, theme: Theme, entries: Iterable[tuple[str, Look]]) -> None:
    """Names beside their lines, below the plot so that no point is hidden."""
    from matplotlib.lines import Line2D

    entries = list(entries)
    handles = [
        Line2D([], [], color=own.colour, marker=own.marker, linestyle=own.line, markersize=5)
        for _, own in entries
    ]
    # Matplotlib hides a label that begins with an underscore.
    labels = [f" {name}" if name.startswith("_") else name for name, _ in entries]
    # Beside one another only what fits.
    fits = max(map(len, labels), default=0) <= LEGEND_COLUMN_CHARACTERS
    axes.figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(len(labels), 3 if len(" ".join(labels)) < TITLE_COLUMNS else 2) if fits else 1,
        frameon=False,
        labelcolor=theme.text,
        fontsize=9,
        handlelength=2.6,
    )
