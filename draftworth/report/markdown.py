"""A document as Markdown (GitHub's), with the plots as PNG files beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from draftworth.report.document import Document, Section, Table

_SPECIAL = re.compile(r"([\\`*{}\[\]|#$~])")
_EMPHASIS = re.compile(r"(?<![^\W_])_|_(?![^\W_])")


def escape(text: str) -> str:
    """A text that Markdown shows as it is, in one line: names and outputs are no markup."""
    line = " ".join(text.split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _EMPHASIS.sub(r"\\_", _SPECIAL.sub(r"\\\1", line))


def markdown_of(document: Document) -> str:
    """The whole report."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: Document) -> Iterator[str]:
    yield f"# {escape(document.title)}"
    yield ""
    for name, value in document.facts:
        yield f"- {escape(name)}: {escape(value)}"
    for line in document.attention:
        yield ""
        yield f"> **Attention:** {escape(line)}"
    for section in document.sections:
        yield from _section_lines(section)


def _section_lines(section: Section) -> Iterator[str]:
    yield ""
    yield f"## {escape(section.title)}"
    for paragraph in section.paragraphs:
        yield ""
        yield escape(paragraph)
    for table in section.tables:
        yield ""
        yield from _table_lines(table)
    for plot in section.plots:
        yield ""
        yield f"![{escape(plot.title)}]({plot.name}.png)"
        yield ""
        yield escape(plot.caption)


def _table_lines(table: Table) -> Iterator[str]:
    rules = ["---" if i < table.names else "---:" for i in range(len(table.headings))]
    yield _row([escape(heading) for heading in table.headings])
    yield _row(rules)
    for cells in table.rows:
        yield _row([escape(cell) for cell in cells])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
