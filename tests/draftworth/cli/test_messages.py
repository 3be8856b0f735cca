"""Messages name commands as every reader can type them: a checkout has no program `draftworth`."""

import ast
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT

BARE = "`draftworth "
PACKAGES = ("charts", "draftworth", "lambdas", "pods", "rehearsal", "stacks")


@pytest.mark.parametrize("package", PACKAGES)
def test_messages_name_commands_that_can_be_typed(package: str) -> None:
    sources = sorted((ROOT / package).rglob("*.py"))
    assert sources
    texts = {str(p.relative_to(ROOT)): p.read_text() for p in sources}
    # To parse a module takes long, and few have such words.
    found = {path: [*bare_commands(text)] for path, text in texts.items() if BARE in text}
    assert {path: texts for path, texts in found.items() if texts} == {}


def test_data_files_and_pages_too() -> None:
    files = [p for k in ("yaml", "toml") for n in PACKAGES for p in (ROOT / n).rglob(f"*.{k}")]
    pages = [ROOT / "docs/operations.md", *sorted((ROOT / "docs/decisions").glob("*.md"))]
    assert files
    assert [str(p) for p in (*files, *pages) if BARE in p.read_text()] == []


def test_a_bare_command_in_a_message_is_found_and_one_in_a_docstring_is_not() -> None:
    source = '''"""`draftworth plan`: what it means."""\nsay(f"{x}: `draftworth price {y}`")'''
    assert [*bare_commands(source)] == [": `draftworth price "]
    assert [*bare_commands('say("python -m draftworth price")')] == []


def bare_commands(source: str) -> Iterator[str]:
    """Texts of a module, without its docstrings, that name a command without `python -m`."""
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in docstrings else ""
        if isinstance(text, str) and BARE in text:
            yield text
