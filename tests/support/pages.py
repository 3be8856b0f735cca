"""Pages of HTML as a test reads them."""

from html.parser import HTMLParser

HOSTILE = '<script>alert("x")</script> $\\frac$ | `k7` _[a](http://b)'


class Tags(HTMLParser):
    """Elements and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
