"""A document in the terminal: its brief sections, as wide as its tables are."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from draftworth.report.document import Document, Table


def print_document(document: Document) -> None:
    """Print facts, attention, and the brief sections."""
    console = Console(highlight=False)
    _say(console, document.title, style="bold")
    for name, value in document.facts:
        _say(console, f"{name}: {value}")
    for line in document.attention:
        _say(console, f"ATTENTION: {line}")
    for section in document.sections:
        if section.brief and section.tables:
            _say(console, f"\n{section.title}", style="bold")
            for paragraph in section.paragraphs:
                _say(console, paragraph)
            for table in section.tables:
                _print_table(console, table)


def _say(console: Console, line: str, *, style: str = "") -> None:
    """One line as it is: brackets in a name are no markup, and the terminal breaks lines."""
    console.print(line, soft_wrap=True, markup=False, style=style)


def _print_table(console: Console, table: Table) -> None:
    """Print at the table's own width: squeezed into 80 columns it would lose its words."""
    drawn = RichTable(box=box.SIMPLE_HEAD)
    for index, heading in enumerate(table.headings):
        justify = "left" if index < table.names else "right"
        drawn.add_column(escape(heading), justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for row in table.rows:
        drawn.add_row(*(escape(cell) for cell in row))
    wide = Console(width=1_000)
    console.width = max(console.width, wide.measure(drawn).maximum)
    console.print(drawn)
