"""Every file that a page of the documentation names exists."""

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

FOLDERS = "benchmarks|charts|docs|draftworth|experiments|lambdas|pods|rehearsal|stacks|tests"
NAMED = re.compile(rf"`((?:{FOLDERS})/[\w/.-]+\.(?:py|md|toml|yaml|json))`")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]


def missing(text: str) -> list[str]:
    return [name for name in NAMED.findall(text) if not (ROOT / name).is_file()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_files_that_exist(page: Path) -> None:
    assert missing(page.read_text(encoding="utf-8")) == []


def test_a_missing_file_is_reported() -> None:
    assert missing("see `charts/names.py` and `charts/no_such_chart.py`") == [
        "charts/no_such_chart.py"
    ]
