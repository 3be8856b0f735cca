"""Lists the elements of an HTML page for tests, and has a text that must be escaped in a page."""

from html.parser import HTMLParser

HOSTILE = '<script>alert("x")</script> $\\frac$ | `k7` _[a](http://b)'


class Tags(HTMLParser):
    """The elements of an HTML page in order, as (name, attributes), in `elements`."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
