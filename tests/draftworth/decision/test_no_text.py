"""`analysis` and `decision` return numbers and types: the text for people is in `report` and `cli`.

The name of a class at a load, such as `chat at c4`, is no text, and neither is a value of a file.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

# A string with more words than this counts as text for people.
MOST_WORDS = 2
FILES = [
    file
    for room in ("analysis", "decision")
    for file in sorted((ROOT / "draftworth" / room).rglob("*.py"))
]


def texts(source: str) -> Iterator[str]:
    """Yield each string of a module that has many words; docstrings and comments are left out.

    An f-string is yielded as its parts outside the braces.
    """
    tree = ast.parse(source)
    left_out = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            left_out |= {id(part) for part in ast.walk(node)}
            parts = [part.value for part in node.values if isinstance(part, ast.Constant)]
        elif isinstance(node, ast.Constant) and id(node) not in left_out:
            parts = [node.value]
        else:
            continue
        text = " ".join(part for part in parts if isinstance(part, str))
        if sum(word.isalpha() for word in re.split(r"[\s;:,.]+", text)) > MOST_WORDS:
            yield text


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_no_string_is_text_for_people(file: Path) -> None:
    assert list(texts(file.read_text())) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_no_error_is_the_users(file: Path) -> None:
    """An error for the user has a text, so `cli` raises it, and here a type says what is wrong."""
    assert "UserInputError" not in file.read_text()


@pytest.mark.parametrize(
    "source",
    [
        'x = "two words and more"',
        'x = f"{a} is not {b} but {c}"',
        'f(f"{a}" "is no better")',
    ],
)
def test_a_text_would_be_seen(source: str) -> None:
    assert list(texts(source))


@pytest.mark.parametrize(
    "source", ['"""Three words here."""', 'x = f"{a} at {b}"', "x: Literal['one', 'two', 'three']"]
)
def test_names_and_docstrings_are_no_text(source: str) -> None:
    assert not list(texts(source))
