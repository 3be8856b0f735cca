"""Names that say nothing of what they hold: no new local, parameter or function gets one."""

import ast
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.conftest import PACKAGES, ROOT

# How often each word names something today. A number may only fall: lower it with the code.
EMPTY_WORDS = {
    "found": 266,
    "known": 59,
    "told": 41,
    "given": 87,
    "said": 25,
    "shown": 35,
    "own": 70,
    "others": 46,
    "asked": 45,
}


def bound_names(source: str) -> Iterator[str]:
    """Names that a module gives to variables, parameters and functions, without `_` around them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id.strip("_")
        elif isinstance(node, ast.arg):
            yield node.arg.strip("_")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name.strip("_")


@pytest.fixture(scope="module")
def counts() -> Counter[str]:
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    return Counter(name for file in files for name in bound_names(file.read_text()))


@pytest.mark.parametrize("word", EMPTY_WORDS)
def test_no_more_names_are_an_empty_word(word: str, counts: Counter[str]) -> None:
    allowed = EMPTY_WORDS[word]
    assert counts[word] <= allowed, f"`{word}`: name the variable for what it holds"


@pytest.mark.parametrize(
    "source", ["found = 1", "def f(found): ...", "def _found(): ...", "[0 for found in ()]"]
)
def test_a_planted_name_is_counted(source: str) -> None:
    assert "found" in bound_names(source)
