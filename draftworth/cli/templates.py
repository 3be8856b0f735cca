"""Fills the templates of texts that a command prints."""

from collections.abc import Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined

from draftworth.errors import counted

TEMPLATES = Environment(  # noqa: S701 (text for a terminal, which escapes it)
    loader=PackageLoader("draftworth.cli", "."),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters["shown"] = format
TEMPLATES.globals["counted"] = counted


def filled(template: str, values: Mapping[str, object]) -> str:
    """Return a template filled with `values`; jinja2.UndefinedError: a value is missing."""
    return TEMPLATES.get_template(template).render(values)


def paragraphs(template: str, values: Mapping[str, object]) -> list[str]:
    """Return the paragraphs of a filled template, each only once and as one line."""
    texts = filled(template, values).split("\n\n")
    return [*dict.fromkeys(line for text in texts if (line := " ".join(text.split())))]
