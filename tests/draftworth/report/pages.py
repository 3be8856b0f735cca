"""What tests of reports share: where their snapshots are, and a page of HTML."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from draftworth.report.writing import html_of

if TYPE_CHECKING:
    from draftworth.report.document import Document

SNAPSHOTS = Path(__file__).parent / "snapshots"
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def page_of(document: Document) -> str:
    """Return the document as HTML; a few constant bytes stand for each of its plots."""
    images = {plot.name: b"png" for plot in document.plots}
    return html_of(document, images)
