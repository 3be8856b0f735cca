"""What a page of the documentation names exists: files, other pages and their headings."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.documents import PAGES

FOLDERS = "benchmarks|charts|docs|draftworth|experiments|lambdas|pods|rehearsal|stacks|tests"
NAMED = re.compile(rf"`((?:{FOLDERS})/[\w/.-]+\.(?:py|md|toml|yaml|json))`")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
# A page that a program names in a message or a comment.
PRINTED = re.compile(r"\bdocs/[\w/-]+\.md\b")
# How the navigation of the site lists a page.
LISTED = re.compile(r": ([\w/-]+\.md)$", re.MULTILINE)
PROGRAMS = [
    path
    for folder in FOLDERS.split("|")
    if folder not in ("docs", "tests")
    for pattern in ("*.py", "*.toml", "*.yaml")
    for path in sorted((ROOT / folder).rglob(pattern))
]


def missing(text: str) -> list[str]:
    return [name for name in NAMED.findall(text) if not (ROOT / name).is_file()]


def missing_pages(text: str) -> list[str]:
    return [page for page in PRINTED.findall(text) if not (ROOT / page).is_file()]


def unlisted(navigation: str) -> list[str]:
    """Return the pages below docs/ that the navigation lacks: `make docs` stops at such a page."""
    docs = ROOT / "docs"
    pages = {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    return sorted(pages - set(LISTED.findall(navigation)))


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as Python-Markdown and GitHub make them."""
    headings = HEADING.findall(FENCED.sub("", text))
    words = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings)
    return {re.sub(r"\s", "-", heading) for heading in words}


def dangling(page: Path, text: str) -> Iterator[str]:
    """Yield the links of a page's text that lead to no file, or to no heading of it."""
    for place, anchor in LINK.findall(FENCED.sub("", text)):
        target = page.parent / place if place else page
        exists = target.exists()
        if exists and anchor and target.suffix == ".md":
            exists = anchor in anchors(target.read_text(encoding="utf-8"))
        if not exists:
            yield f"{place}#{anchor}" if anchor else place


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_files_that_exist(page: Path) -> None:
    assert missing(page.read_text(encoding="utf-8")) == []


def test_a_missing_file_is_reported() -> None:
    assert missing("see `charts/names.py` and `charts/no_such_chart.py`") == [
        "charts/no_such_chart.py"
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_link_leads_to_a_heading(page: Path) -> None:
    assert list(dangling(page, page.read_text(encoding="utf-8"))) == []


def test_a_dangling_link_is_reported() -> None:
    text = "[a](docs/glossary.md#glossary) [b](docs/glossary.md#none) [c](docs/none.md) [d](#none)"
    wrong = ["docs/glossary.md#none", "docs/none.md", "#none"]
    assert list(dangling(ROOT / "README.md", text)) == wrong


def test_programs_name_pages_that_exist() -> None:
    texts = [path.read_text(encoding="utf-8") for path in PROGRAMS]
    assert any(PRINTED.search(text) for text in texts)
    assert [page for text in texts for page in missing_pages(text)] == []


def test_a_page_that_is_not_there_is_reported() -> None:
    assert missing_pages("next: docs/glossary.md or docs/none.md") == ["docs/none.md"]


def test_the_site_lists_every_page() -> None:
    assert unlisted((ROOT / "mkdocs.yml").read_text(encoding="utf-8")) == []


def test_a_page_that_is_not_listed_is_reported() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert unlisted(navigation.replace("glossary.md", "words.md")) == ["glossary.md"]
