"""Tables in the terminal: aligned text, as wide as it is, without colours or markup."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

# Wider than any row: what does not fit the terminal is broken by it, and never cut here.
_WIDTH = 10_000


def table_lines(
    rows: Iterable[Sequence[str]],
    headings: Sequence[str] = (),
    *,
    numbers: Collection[int] = (),
    ruled: bool = False,
) -> Iterator[str]:
    """Lines of a table; brackets in a cell are no markup, a line break in one stays.

    numbers: columns that are aligned at the right. ruled: a line under the headings.
    """
    table = Table(
        box=box.SIMPLE_HEAD if ruled else None,
        pad_edge=ruled,
        padding=(0, 1) if ruled else (0, 2, 0, 0),
        show_header=bool(headings),
    )
    for index, heading in enumerate(headings):
        table.add_column(Text(heading), justify="right" if index in numbers else "left")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(file=io.StringIO(), width=_WIDTH, color_system=None)
    with console.capture() as captured:
        console.print(table)
    lines = (line.rstrip() for line in captured.get().splitlines())
    return (line for line in lines if line or not ruled)
