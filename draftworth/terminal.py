"""What a terminal gets: text and nothing else, and tables without colours or markup."""

from __future__ import annotations

import io
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from draftworth.untrusted import printable

# Wider than any row: what does not fit the terminal is broken by it, and never cut here.
_WIDTH = 10_000


class TextOnly(io.TextIOBase):
    """A stream that what is printed goes through: control characters arrive as escapes.

    Names, answers and errors come from files, servers and buckets; here is the one place that all
    of them pass. What the stream's encoding does not have arrives as an escape too.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text, with escapes for what is none."""
        shown = printable(text)
        if not shown.isascii():
            encoding = self._stream.encoding or "utf-8"
            shown = shown.encode(encoding, "backslashreplace").decode(encoding)
        self._stream.write(shown)
        return len(text)

    def flush(self) -> None:
        """Flush the stream below."""
        self._stream.flush()


@contextmanager
def text_only() -> Iterator[None]:
    """While this lasts, standard output and standard error carry text only.

    One that was closed (`>&-`) takes everything and shows nothing.
    """
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(TextOnly(sys.stdout or io.StringIO())))
        stack.enter_context(redirect_stderr(TextOnly(sys.stderr or io.StringIO())))
        yield


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
        # Escapes before anything is aligned: they are wider than what they stand for.
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console(file=io.StringIO(), width=_WIDTH, color_system=None)
    with console.capture() as captured:
        console.print(table)
    lines = (line.rstrip() for line in captured.get().splitlines())
    return (line for line in lines if line or not ruled)
