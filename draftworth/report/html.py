"""A document as one HTML file: plots inside it, no script, no request to anywhere."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined

from draftworth.report.document import Document

# PNG bytes of a plot by its name and its theme's name.
Images = Mapping[tuple[str, str], bytes]


def html_of(document: Document, images: Images) -> str:
    """The whole report; every text is escaped by the template engine."""
    environment = Environment(
        loader=PackageLoader("draftworth.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    encoded = {key: base64.b64encode(data).decode() for key, data in images.items()}
    template = environment.get_template("report.html.jinja")
    return template.render(document=document, images=encoded)
