"""Every test that `docs/appendix/threats.md` names exists."""

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "appendix" / "threats.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
TABLE = "## What holds, and where that is tested"


def rows(page: str) -> list[str]:
    """Return the rows of the table of threats, without its head."""
    table = page.partition(TABLE)[2].partition("\n## ")[0]
    return [line for line in table.splitlines() if line.startswith("|")][2:]


def untested(page: str, root: Path = ROOT) -> list[str]:
    """Return rows that name no test, and tests that do not exist."""
    problems = [row for row in rows(page) if not NAMED.search(row)]
    for file, test in NAMED.findall(page):
        path = root / file
        if not path.exists() or f"def {test}(" not in path.read_text(encoding="utf-8"):
            problems.append(f"{file}::{test}")
    return problems


def test_every_threat_names_tests_that_exist() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert rows(page)
    assert untested(page) == []


@pytest.mark.parametrize(
    "row",
    [
        "| a threat | what holds | somewhere |",
        "| a threat | what holds | `tests/test_security_page.py::test_that_is_not_there` |",
        "| a threat | what holds | `tests/test_nothing.py::test_it` |",
    ],
)
def test_a_threat_without_its_test_is_reported(row: str) -> None:
    assert len(untested(f"{TABLE}\n\n| a | b | c |\n|---|---|---|\n{row}\n")) == 1
