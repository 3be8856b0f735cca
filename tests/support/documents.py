"""The pages of the documentation, and a check that a generated block in one is up to date."""

import os
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.snapshot import UPDATE_VARIABLE

PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")),
    *sorted(ROOT.glob("docs/**/*.md")),
]


def assert_block(document: Path, name: str, expected: str) -> None:
    """Assert that a document has `expected` between its comments NAME and `end of NAME`.

    These are `<!-- NAME: ... -->` and `<!-- end of NAME -->`. While snapshots are updated, the text
    between them is replaced by `expected`, and the test fails so that somebody reads the change.
    """
    text = document.read_text(encoding="utf-8")
    before, begin, rest = text.partition(f"<!-- {name}:")
    comment, arrow, rest = rest.partition("-->\n")
    actual, end, after = rest.partition(f"<!-- end of {name} -->")
    assert begin, f"{document.name} has no block {name}"
    assert end, f"{document.name} has no end of {name}"
    if actual == expected:
        return
    if os.environ.get(UPDATE_VARIABLE):
        document.write_text(before + begin + comment + arrow + expected + end + after, "utf-8")
        pytest.fail(f"{document.name} was rewritten: look at the diff, then run the tests again")
    pytest.fail(f"{document.name}, block {name}, is not what it is made from: `make snapshots`")
