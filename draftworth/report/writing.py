"""Writes a report's files into a folder: Markdown, one HTML file, plots and CSV files."""

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from draftworth.decision.facts import RunFacts
from draftworth.errors import DraftworthError, UserInputError
from draftworth.report.csv_files import figures_csv, requests_csv
from draftworth.report.document import Document
from draftworth.report.drawing import render
from draftworth.report.words import Code, Prose
from draftworth.safe_writing import write_file
from draftworth.untrusted import printable

# The PNG bytes of each plot, by the plot's name.
Images = Mapping[str, bytes]

# An unescaped pipe would end a cell of a Markdown table, even in code.
_PIPE = r"\|"
_SPECIAL = re.compile(r"([\\`*{}\[\]|#$~])")
_EMPHASIS = re.compile(r"(?<![^\W_])_|_(?![^\W_])")


def write_report(
    document: Document, facts: RunFacts, folder: Path, *, root: Path | None = None
) -> None:
    """Write all files of a report into a folder; raise DraftworthError if writing fails.

    Earlier files of these names are replaced. root: the folder below which no folder on the way to
    `folder` may be a symbolic link; None: `folder` itself.
    """
    images = _images(document)
    texts = {
        "report.md": markdown_of(document),
        "report.html": html_of(document, images),
        "figures.csv": figures_csv(facts),
        "requests.csv": requests_csv((*facts.run.blocks, *facts.control)),
    }
    files = {name: text.encode() for name, text in texts.items()}
    files |= {f"{plot}.png": data for plot, data in images.items()}
    _write_files(files, folder, root=root)


def write_handover(document: Document, folder: Path, *, root: Path | None = None) -> None:
    """Write the handover as Markdown and HTML; raise DraftworthError if writing fails.

    root: the folder below which no folder on the way to `folder` may be a symbolic link; None:
        `folder` itself.
    """
    texts = {"handover.md": markdown_of(document), "handover.html": html_of(document, {})}
    _write_files({name: text.encode() for name, text in texts.items()}, folder, root=root)


def _write_files(files: Mapping[str, bytes], folder: Path, *, root: Path | None = None) -> None:
    """Write files (contents by name) into a folder; raise DraftworthError if that is impossible.

    root: the run's folder, if `folder` lies in it. No folder below it may be a symbolic link. None:
        `folder` itself.
    """
    try:
        for name, data in files.items():
            write_file(folder / name, data, root=folder if root is None else root)
    except OSError as error:
        raise DraftworthError(
            f"{folder}: the report cannot be written: {error.strerror}; give another --out DIR"
        ) from error


def write_page(document: Document, file: Path) -> None:
    """Write the document as one HTML file; raise UserInputError if the file cannot be written."""
    page = html_of(document, _images(document)).encode()
    try:
        write_file(file, page, root=file.parent)
    except OSError as error:
        raise UserInputError(
            f"{file}: the page cannot be written: {error.strerror}; give another file"
        ) from error


def _images(document: Document) -> Images:
    return {plot.name: render(plot) for plot in document.plots}


def html_of(document: Document, images: Images) -> str:
    """Return the document as one HTML file that contains its plots and loads no other file.

    images: the drawn plots as PNG bytes, by the plot's name.
    """
    encoded = {key: base64.b64encode(data).decode() for key, data in images.items()}
    return _filled("report.html.jinja", _template_text, document=document, images=encoded)


def markdown_of(document: Document) -> str:
    """Return the document as GitHub's Markdown, with the plots as PNG files beside it."""
    return _filled("report.md.jinja", escape, document=document)


def escape(text: str) -> str:
    """Return the text on one line, escaped so that Markdown shows it unchanged."""
    return "".join(
        f"`{part.replace('|', _PIPE)}`" if is_code else _escaped(part)
        for part, is_code in _parts(text)
    )


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Return the parts of a text, joined into one line, as (part, whether the part is code)."""
    line = " ".join(printable(text).split())
    parts = line.split("`") if isinstance(text, Prose) else [line]
    return ((part, isinstance(text, Code) or place % 2 == 1) for place, part in enumerate(parts))


def _escaped(part: str) -> str:
    part = part.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _EMPHASIS.sub(r"\\_", _SPECIAL.sub(r"\\\1", part))


def _template_text(value: object) -> str:
    """Return a value as a template shows it: control characters escaped, code marked as code."""
    if not isinstance(value, Code | Prose):
        return printable(str(value))
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(p) if is_code else p for p, is_code in _parts(value))


def _filled(template: str, finalize: Callable[[str], str], **values: object) -> str:
    """Return the text of a template of this package, filled with values.

    finalize: turns a value into the text to show. In an HTML template, this text is escaped
        afterwards, unless it is `Markup`.
    """
    return _environment(finalize).get_template(template).render(values)


@cache
def _environment(finalize: Callable[[str], str]) -> Environment:
    """Return the templates of this package, each of which is compiled at most once."""
    return Environment(
        loader=PackageLoader("draftworth.report"),
        autoescape=select_autoescape(["html.jinja"]),
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
