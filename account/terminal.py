"""How the commands of this package print: aligned tables, durations and sizes in words."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from account.prices import GIB

# Wider than any row: what does not fit the terminal is broken by it, and never cut here.
_WIDTH = 10_000


def right(heading: str) -> Column:
    """A column of figures."""
    return Column(heading, justify="right")


def aligned(rows: Iterable[Sequence[str]], headings: Sequence[str | Column] = ()) -> Iterator[str]:
    """Lines of a table; brackets in a cell are no markup, a line break in one stays."""
    table = Table(
        *headings, box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(headings)
    )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(file=io.StringIO(), width=_WIDTH, color_system=None)
    with console.capture() as captured:
        console.print(table)
    yield from (line.rstrip() for line in captured.get().splitlines())


def print_lines(lines: Iterable[str]) -> None:
    """Write lines to the standard output."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def size_text(size_bytes: int) -> str:
    """`2,000 bytes` or `1.50 GiB`."""
    return f"{size_bytes / GIB:.2f} GiB" if size_bytes >= GIB / 100 else f"{size_bytes:,} bytes"


def duration_text(seconds: float) -> str:
    """`41 min`, `3 h` or `12 days`: in the largest unit of which there are two."""
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
