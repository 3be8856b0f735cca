"""A report as a document of sentences, tables and plots, and its text for a terminal."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import TextWrapper

from draftworth.decision.facts import VariantFacts
from draftworth.report.drawing import Plot
from draftworth.report.words import MISSING
from draftworth.terminal import columns, table_lines
from draftworth.untrusted import printable

_ROW = " " * 6
# An example is cut after this many characters; of one that is folded, this many are the summary.
LONGEST_EXAMPLE, FOLDED_EXAMPLE = 2000, 120


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of texts. The first `names` columns hold names, all further columns hold numbers.

    title: what the table is about; empty: what its section is about.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Example:
    """A model's output as an example, at most `LONGEST_EXAMPLE` characters of it.

    title: of which prompt it is, and what it shows.
    """

    title: str
    text: str

    @property
    def cut_text(self) -> str:
        """The text as pages have it, with `…` where it is cut."""
        cut = self.text[:LONGEST_EXAMPLE]
        return cut if cut == self.text else f"{cut}…"

    @property
    def beginning(self) -> str:
        """The first words of a text that is too long to be shown at once; else empty."""
        return self.text[:FOLDED_EXAMPLE] if len(self.text) > 3 * FOLDED_EXAMPLE else ""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section of the report.

    examples: outputs that pages show below the plots; a terminal does not print them.
    is_asked_for: whether a command's option asked for the section, so that it is printed before the
        answer.
    """

    title: str
    paragraphs: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    examples: tuple[Example, ...] = ()
    is_asked_for: bool = False


@dataclass(frozen=True, kw_only=True)
class Card:
    """The summary of one verdict.

    value: by how much the cost of a token changes, with the interval; empty: not known.
    tone: `good`, `bad` or `open` (undecided), for the colour. note: what `value` is about.
    """

    label: str
    judgement: str
    tone: str
    value: str
    note: str = ""

    @property
    def change(self) -> str:
        """`value` without its interval."""
        return self.value.rpartition(" (")[0] or self.value

    @property
    def interval(self) -> str:
        """The interval in `value`, with its brackets, which a page keeps on one line; or empty."""
        return self.value[len(self.change) :].lstrip()


@dataclass(frozen=True, kw_only=True)
class Speed:
    """One speed of a server: before and after, or alone if no other server was measured.

    unit: what `values` count. meaning: what is measured, in words. where: of which servers and
    which traffic.
    """

    unit: str
    values: tuple[str, ...]
    meaning: str
    where: str


@dataclass(frozen=True, kw_only=True)
class Document:
    """A whole report.

    decision: the sentence that says what to serve; empty if the report has none.
    setting: (name, value) of what was measured, which a reader has to know first.
    speeds: from what to what the server's speed goes, where the decision is about it.
    facts: (name, value) of each line at the head of the report.
    attention: warnings about the figures.
    """

    title: str
    decision: str = ""
    setting: tuple[tuple[str, str], ...] = ()
    speeds: tuple[Speed, ...] = ()
    facts: tuple[tuple[str, str], ...]
    attention: tuple[str, ...]
    cards: tuple[Card, ...]
    sections: tuple[Section, ...]

    @property
    def first_cards(self) -> tuple[Card, ...]:
        """The cards beside the speeds: then only the verdict that decides, which is the first."""
        return self.cards[:1] if self.speeds else self.cards

    @property
    def further_cards(self) -> tuple[Card, ...]:
        """The other cards, which a page has below the first plots."""
        return self.cards[len(self.first_cards) :]

    @property
    def plots(self) -> tuple[Plot, ...]:
        return tuple(plot for section in self.sections for plot in section.plots)


def table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, names: int, title: str = ""
) -> tuple[Table, ...]:
    """Return a tuple of one table, or an empty tuple if there is no row.

    The first `names` columns hold names. Any other column without a measured figure is left out.
    title: what the table is about, if its section has several.
    """
    cells = [tuple(row) for row in rows]
    if not cells:
        return ()
    kept = [
        index
        for index, column in enumerate(zip(*cells, strict=True))
        if index < names or {*column} != {MISSING}
    ]
    return (
        Table(
            headings=tuple(headings[index] for index in kept),
            rows=tuple(tuple(row[index] for index in kept) for row in cells),
            names=names,
            title=title,
        ),
    )


def variant_table(
    headings: Sequence[str],
    rows: Iterable[tuple[VariantFacts, Sequence[str]]],
    *,
    more_names: int = 0,
    title: str = "",
) -> tuple[Table, ...]:
    """Return a table whose rows begin with class, load and variant; empty if there is no row.

    more_names: how many columns after class, load and variant hold names too, not numbers; names
        are aligned left.
    """
    named = (
        (v.summary.group.prompt_class, v.summary.group.load.cell, v.name, *cells)
        for v, cells in rows
    )
    named_headings = ("class", "load", "variant", *headings)
    return table(named_headings, named, names=3 + more_names, title=title)


def document_lines(document: Document) -> Iterator[str]:
    """Yield a document's text, line by line."""
    yield document.title
    if document.decision:
        yield document.decision
    for name, value in document.setting:
        yield f"{name}: {value}"
    for speed in document.speeds:
        yield speed_line(speed)
    for name, value in document.facts:
        yield f"{name}: {value}"
    for line in document.attention:
        yield f"ATTENTION: {line}"
    for section in document.sections:
        if section.tables or section.paragraphs:
            yield ""
            yield from section_lines(section)


def speed_line(speed: Speed) -> str:
    """Return a speed in a line: `ms per token: 10.0 → 4.9 (between two tokens of an answer)`."""
    return f"{speed.unit}: {' → '.join(speed.values)} ({speed.meaning}; {speed.where})"


def section_lines(section: Section) -> Iterator[str]:
    """Yield the text of a section's title, paragraphs and tables, line by line."""
    yield section.title
    yield from section.paragraphs
    width = columns()
    for table in section.tables:
        yield ""
        if table.title:
            yield f"{table.title}:"
        numbers = range(table.names, len(table.headings))
        lines = [*table_lines(table.rows, table.headings, numbers=numbers, ruled=True)]
        if width is not None and max(map(len, lines)) > width:
            lines = [*_row_lines(table, width)]
        yield from lines


def _row_lines(table: Table, width: int) -> Iterator[str]:
    """Yield the lines of a table too wide for a terminal: after a row's names, `heading: figure`.

    width: the terminal's columns.
    """
    yield printable(f"  {', '.join(table.headings[: table.names])}:")
    wrapper = TextWrapper(
        width,
        initial_indent=_ROW,
        subsequent_indent=_ROW,
        break_long_words=False,
        break_on_hyphens=False,
    )
    for row in table.rows:
        yield printable("  " + "  ".join(row[: table.names]))
        pairs = zip(table.headings[table.names :], row[table.names :], strict=True)
        # A heading and its figure must stay on one line, so their blanks are NULs while lines are
        # broken.
        text = "  ".join(f"{heading}: {cell};".replace(" ", "\0") for heading, cell in pairs)
        for line in wrapper.wrap(text):
            yield printable(line.replace("\0", " ").rstrip(";"))
