"""A document in the terminal: its brief sections, as wide as its tables are."""

from __future__ import annotations

from collections.abc import Iterator

from draftworth.report.document import Document
from draftworth.terminal import table_lines


def document_lines(document: Document) -> Iterator[str]:
    """Facts, attention, and the brief sections."""
    yield document.title
    for name, value in document.facts:
        yield f"{name}: {value}"
    for line in document.attention:
        yield f"ATTENTION: {line}"
    for section in document.sections:
        if section.brief and (section.tables or section.paragraphs):
            yield f"\n{section.title}"
            yield from section.paragraphs
            for table in section.tables:
                yield ""
                numbers = range(table.names, len(table.headings))
                yield from table_lines(table.rows, table.headings, numbers=numbers, ruled=True)
