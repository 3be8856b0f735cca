"""Fills the templates of texts that a command prints."""

from collections.abc import Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined

_ENVIRONMENT = Environment(  # noqa: S701 (text for a terminal, which escapes it)
    loader=PackageLoader("draftworth.cli", "."),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters["shown"] = format


def filled(template: str, values: Mapping[str, object]) -> str:
    """Return the text of a template; a value that it names and that is not given is an error."""
    return _ENVIRONMENT.get_template(template).render(values)
