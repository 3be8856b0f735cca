"""Output for a terminal: text without control characters, and tables without colours or markup."""

import io
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import IO, TYPE_CHECKING, TextIO

from draftworth.untrusted import printable, without_secrets

# rich loads slowly, and many commands print neither tables nor styles, so only the functions that
# print them import it.
if TYPE_CHECKING:
    from rich.console import Console

# Wider than any row, so that rows are neither cut nor wrapped here; the terminal wraps them.
_WIDTH = 10_000


class TextOnly(io.TextIOBase):
    """Writes text to `stream` without secrets, with control characters escaped (see `escaped`)."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(escaped(text, self.stream))
        return len(text)

    def flush(self) -> None:
        self.stream.flush()


@contextmanager
def text_only() -> Iterator[None]:
    """Within a `with`, escape all text for standard output and error, even if they are closed."""
    out, err = (TextOnly(stream or io.StringIO()) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(out), redirect_stderr(err):
        yield


def escaped(text: str, stream: IO[str]) -> str:
    """Return the text as it may be written to `stream`.

    Names such as `[OPENAI_API_KEY]` replace secrets; escapes such as `\\x1b` replace control
    characters and characters that the stream's encoding lacks.
    """
    printed = printable(without_secrets(text))
    if not printed.isascii():
        encoding = getattr(stream, "encoding", None) or "utf-8"
        printed = printed.encode(encoding, "backslashreplace").decode(encoding)
    return printed


def columns() -> int | None:
    """Return the width of standard output if it is a terminal; None for a file or a pipe."""
    is_terminal = _written_to(sys.stdout).isatty()
    return shutil.get_terminal_size().columns if is_terminal else None


def _written_to(stream: TextIO) -> TextIO:
    """Return the stream to which this one writes escaped text, or itself."""
    return stream.stream if isinstance(stream, TextOnly) else stream


def console_of(stream: TextIO) -> "Console":
    """Return a console of the library rich; it uses colour only in a terminal without NO_COLOR.

    The caller must escape the text that it prints there (`escaped`).
    """
    from rich.console import Console

    return Console(file=_written_to(stream), highlight=False)


def print_styled(line: str, *, style: str) -> None:
    """Print a line, in a terminal with a style of the library rich, such as `bold red`."""
    from rich.text import Text

    console = console_of(sys.stdout)
    console.print(Text(escaped(line, console.file), style=style), soft_wrap=True)


def table_lines(
    rows: Iterable[Sequence[str]],
    headings: Sequence[str] = (),
    *,
    numbers: Collection[int] = (),
    ruled: bool = False,
) -> Iterator[str]:
    """Return the lines of a table; cells are plain text (no markup) and keep their line breaks.

    numbers: indexes of the columns to align right. ruled: whether a line is drawn below headings.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD if ruled else None,
        pad_edge=ruled,
        padding=(0, 1) if ruled else (0, 2, 0, 0),
        show_header=bool(headings),
    )
    for index, heading in enumerate(headings):
        table.add_column(Text(heading), justify="right" if index in numbers else "left")
    for row in rows:
        # Cells are escaped before their widths are measured: an escape is wider than its character.
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console(file=io.StringIO(), width=_WIDTH, color_system=None)
    with console.capture() as captured:
        console.print(table)
    lines = (line.rstrip() for line in captured.get().splitlines())
    return (line for line in lines if line or not ruled)
