"""A document in the terminal: its brief sections, as wide as its tables are."""

from __future__ import annotations

from rich.console import Console

from draftworth.report.document import Document
from draftworth.terminal import table_lines


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
                numbers = range(table.names, len(table.headings))
                for line in table_lines(table.rows, table.headings, numbers=numbers, ruled=True):
                    _say(console, line)


def _say(console: Console, line: str, *, style: str = "") -> None:
    """One line as it is: brackets in a name are no markup, and the terminal breaks lines."""
    console.print(line, soft_wrap=True, markup=False, style=style)
