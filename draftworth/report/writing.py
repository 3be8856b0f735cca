"""A report's files into a folder."""

from __future__ import annotations

from pathlib import Path

from draftworth.analysis.facts import RunFacts
from draftworth.errors import DraftworthError
from draftworth.report.document import Document
from draftworth.report.drawing import LIGHT, THEMES, render
from draftworth.report.html import html_of
from draftworth.report.markdown import markdown_of
from draftworth.report.tables import figures_csv, requests_csv

HTML_FILE, MARKDOWN_FILE = "report.html", "report.md"
FIGURES_FILE, REQUESTS_FILE = "figures.csv", "requests.csv"


def write_report(document: Document, facts: RunFacts, folder: Path) -> None:
    """Write every file of the report, over those of an earlier one.

    Raises:
        DraftworthError: the folder cannot be written.
    """
    images = {
        (plot.name, theme.name): render(plot, theme) for plot in document.plots for theme in THEMES
    }
    texts = {
        MARKDOWN_FILE: markdown_of(document),
        HTML_FILE: html_of(document, images),
        FIGURES_FILE: figures_csv(facts),
        REQUESTS_FILE: requests_csv(facts.run.blocks),
    }
    # Text of a server may hold half a surrogate pair, which no file can.
    files = {name: text.encode(errors="replace") for name, text in texts.items()}
    for (plot, theme), data in images.items():
        files[f"{plot}.png" if theme == LIGHT.name else f"{plot}-{theme}.png"] = data
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
    except OSError as error:
        raise DraftworthError(
            f"{folder}: the report cannot be written: {error.strerror}; give another --out DIR"
        ) from error
