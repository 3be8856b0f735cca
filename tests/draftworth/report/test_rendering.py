"""The document as Markdown and HTML: complete, self-contained, and safe with any name."""

import io
import re
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest

from draftworth.report.contents import document_of, handover_document
from draftworth.report.document import Document, Section, section_lines, table
from draftworth.report.drawing import render, short
from draftworth.report.words import Code, Prose
from draftworth.report.writing import escape, markdown_of, write_handover
from draftworth.terminal import TextOnly
from tests.draftworth.report import runs
from tests.draftworth.report.pages import PNG_SIGNATURE, page_of
from tests.draftworth.report.plots import drawn_small
from tests.support.pages import HOSTILE, Tags
from tests.support.present import present
from tests.support.terminal import Terminal


def hostile_document() -> Document:
    blocks = (
        runs.make_plain_block(1, "structured", prompt_class=HOSTILE),
        runs.make_drafted_block(2, "structured", prompt_class=HOSTILE, variant=HOSTILE),
    )
    run = runs.make_run(
        blocks=blocks,
        experiment=HOSTILE,
        reason=HOSTILE,
        variants=(runs.BASELINE, HOSTILE),
        max_tokens_per_step={runs.BASELINE: 1, HOSTILE: 8},
    )
    return document_of(runs.make_facts(run))


def test_commands_and_queries_are_code_in_both_files(tmp_path: Path) -> None:
    """Marked as code, they can be copied as they are."""
    write_handover(handover_document(runs.make_facts(runs.structured_run(4))), tmp_path)
    report = "draftworth report RUN --out DIR"
    assert f"| `{report}` |" in (tmp_path / "handover.md").read_text()
    page = (tmp_path / "handover.html").read_text()
    assert f"<code>{report}</code>" in page
    assert "<code>vllm:spec_decode_num_accepted_tokens_total</code>" in page


def test_the_page_asks_nobody_for_anything() -> None:
    page = page_of(document_of(runs.make_facts()))
    for tag, attributes in Tags(page).elements:
        assert tag not in ("script", "link", "iframe", "object", "embed"), tag
        for name in ("src", "srcset", "href", "data", "action", "poster"):
            if address := attributes.get(name):
                assert address.startswith(("data:image/png;base64,", "#"))
    assert not re.search(r"url\(|@import|https?://", page)
    assert "default-src 'none'" in page


def test_every_plot_is_in_the_page_with_description() -> None:
    document = document_of(runs.make_facts())
    elements = Tags(page_of(document)).elements
    images = [attributes for tag, attributes in elements if tag == "img"]
    assert len(images) == len(document.plots) > 0
    assert [image["alt"] for image in images] == [plot.title for plot in document.plots]


def test_names_in_files_are_never_commands() -> None:
    facts = runs.make_facts(runs.make_run(reason="\x1b[2J\u202eback\x00", experiment="\x07\ttab"))
    document = document_of(facts)
    for text in (page_of(document), markdown_of(document)):
        assert "x1b" in text
        assert "u202eback" in text
        assert text.replace("\n", "").isprintable()


def test_names_in_the_page_are_never_markup() -> None:
    page = page_of(hostile_document())
    assert "<script" not in page
    assert "&lt;script&gt;alert(&#34;x&#34;)" in page
    assert not any(
        name.startswith("on") for _, attributes in Tags(page).elements for name in attributes
    )


def test_names_are_text_in_markdown_and_never_markup() -> None:
    text = markdown_of(hostile_document())
    assert "<script" not in text
    assert not re.search(r"(?<!\\)\]\(http", text)
    tables = [line for line in text.splitlines() if line.startswith("| ")]
    assert all("\\|" in row for row in tables if "script" in row)
    ours = r"`(draftworth|make|1 \+ increase\() ?[^`]*`|`measure`"
    assert not re.search(r"(?<!\\)`", re.sub(ours, "", text))


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("open_ended at 4 requests at a time", "open_ended at 4 requests at a time"),
        ("_a_ *b*", "\\_a\\_ \\*b\\*"),
        ("a | b\nc", "a \\| b c"),
        ("<b> & [x](y)", "&lt;b&gt; &amp; \\[x\\](y)"),
        ("`a`", "\\`a\\`"),
        (Code("rate(a_b[1h]) | <c>"), "`rate(a_b[1h]) \\| <c>`"),
        (Prose("_a_: `b[1h]` says."), "\\_a\\_: `b[1h]` says."),
    ],
)
def test_escaping_markdown(text: str, escaped: str) -> None:
    assert escape(text) == escaped


def test_plots_of_any_name_have_safe_file_names() -> None:
    wide = "日" * 50  # leaves no room for the axes
    blocks = (
        runs.make_plain_block(1, "structured", prompt_class=wide),
        runs.make_drafted_block(2, "structured", prompt_class=wide),
    )
    hostile, narrow = hostile_document(), document_of(runs.make_facts(runs.make_run(blocks=blocks)))
    names = [plot.name for plot in hostile.plots]
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)
    assert len(set(names)) == len(names)
    of_rows = [plot for plot in narrow.plots if plot.name in ("cost", "tokens-per-step")]
    with drawn_small():
        images = [render(plot) for plot in (*hostile.plots, *of_rows)]
    assert all(image.startswith(PNG_SIGNATURE) for image in images)
    assert len({*images}) == len(hostile.plots) + 2


def test_no_axis_label_overlaps_the_title() -> None:
    with drawn_small() as drawn:
        for plot in document_of(runs.make_facts()).plots:
            render(replace(plot, title=" ".join(["finding"] * 30)))  # of five lines
    for figure in drawn:
        figure.dpi = 100
        figure.draw_without_rendering()
        title = present(figure._suptitle).get_window_extent()  # type: ignore[attr-defined]
        labels = [axes.yaxis.label.get_window_extent() for axes in figure.axes]
        assert not [label for label in labels if label.y1 > title.y0]
    assert len(drawn) > 5


def test_a_title_never_breaks_within_an_interval() -> None:
    title = f"{'x' * 40} costs less (58 to 60)"
    with drawn_small() as drawn:
        render(replace(document_of(runs.make_facts()).plots[0], title=title))
    title_text = present(drawn[0]._suptitle).get_text()  # type: ignore[attr-defined]
    assert title_text.splitlines()[-1] == "(58\xa0to\xa060)"


def test_every_mark_is_large_enough_in_the_legend() -> None:
    plots = {plot.name: plot for plot in document_of(runs.make_facts()).plots}
    with drawn_small() as drawn:
        render(plots["tokens-per-step"])
    (legend,) = drawn[0].legends
    sizes = {line.get_marker(): line.get_markersize() for line in legend.get_lines()}
    assert sizes == {"o": 5, "D": 5, "|": 10}


def test_a_long_name_is_cut_and_made_printable() -> None:
    assert short("a\x1b[31m\nb") == "a?[31m?b"
    assert len(short("x" * 99)) == 32


def test_unmeasured_figures_have_a_reason_instead_of_plots() -> None:
    blocks = (
        runs.make_plain_block(1, "structured"),
        runs.make_drafted_block(2, "structured", speculation=None),
    )
    document = document_of(runs.make_facts(runs.make_run(blocks=blocks)))
    names = " ".join(plot.name for plot in document.plots)
    assert "acceptance" not in names
    assert "step-latency" not in names
    text = " ".join(p for section in document.sections for p in section.paragraphs)
    assert "no transcript lies beside the results" in text
    assert "acceptance rates are estimates" in text


@pytest.mark.parametrize(
    ("stream", "columns", "is_by_rows"),
    [(Terminal, "45", True), (Terminal, "80", False), (io.StringIO, "45", False)],
)
def test_a_wide_table_is_printed_row_by_row(
    stream: type[io.StringIO], columns: str, is_by_rows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    headings = ("class", "cost (95% interval)", "TTFT", "E2E speedup")
    rows = [("count", "-35.4% (-43.0% to -26.9%)", "36.6", "1.55x (1.37 to 1.75)")]
    section = Section(title="Verdict", tables=table(headings, rows, names=1))
    with redirect_stdout(TextOnly(stream())):
        lines = [*section_lines(section)][2:]
    if is_by_rows:
        assert lines == [
            "  class:",
            "  count",
            "      cost (95% interval): -35.4% (-43.0% to -26.9%)",
            "      TTFT: 36.6",
            "      E2E speedup: 1.55x (1.37 to 1.75)",
        ]
    else:
        assert [line.split()[0] for line in lines] == [
            "class",
            "─" * len(lines[1].strip()),
            "count",
        ]
