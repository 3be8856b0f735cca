"""A document in the terminal: its brief sections, as wide as its tables are."""

from __future__ import annotations

from rich.console import Console

from draftworth.report.document import Document
from draftworth.terminal import table_lines


def print_document(document: Document) -> None:
    """Print facts, attention, and the brief sections."""
    # One line as it is: brackets in a name are no markup, and the terminal breaks lines.
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(document.title, style="bold")
    for name, value in document.facts:
        console.print(f"{name}: {value}")
    for line in document.attention:
        console.print(f"ATTENTION: {line}")
    for section in document.sections:
        if section.brief and section.tables:
            console.print(f"\n{section.title}", style="bold")
            for paragraph in section.paragraphs:
                console.print(paragraph)
            for table in section.tables:
                console.print()
                numbers = range(table.names, len(table.headings))
                for line in table_lines(table.rows, table.headings, numbers=numbers, ruled=True):
                    console.print(line)
