"""Names: no empty word for a value, no file name twice, and at most eight words for a test."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.conftest import PACKAGES, ROOT

EMPTY_WORDS = {"found", "known", "told", "given", "said", "shown", "own", "others", "asked"}
# Fields of records that stored files hold, so their names stay: (file, name).
STORED = {
    ("draftworth/records/results.py", "others"),
    ("draftworth/records/likelihoods.py", "shown"),
    ("draftworth/records/readings.py", "asked"),
}


def bound_names(source: str) -> Iterator[str]:
    """Names that a module gives to variables, attributes, parameters, functions and classes.

    They are in lower case, without `_` around them.
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(attr=name, ctx=ast.Store())
                | ast.arg(arg=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.ExceptHandler(name=str(name))
            ):
                yield name.strip("_").lower()


# An empty word as code that names a value has it: what comes next is `in`, the end of the line or a
# sign that can follow a new name. In prose a letter, a point or a quotation mark comes next.
_EMPTY_WORD = re.compile(
    rf"(?<![a-z0-9])(?:{'|'.join(sorted(EMPTY_WORDS))})_*\s*(?:[^\w\s.'\"`{{]|in\b|\n)"
)


def empty_names(source: str) -> set[str]:
    """Return the names that a module gives and that are empty words.

    A module whose text has no such word where code could give a name is not parsed.
    """
    if not _EMPTY_WORD.search(source.lower()):
        return set()
    return EMPTY_WORDS.intersection(bound_names(source))


def test_no_name_is_an_empty_word() -> None:
    folders = (*PACKAGES, "tests", "benchmarks")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    files.append(ROOT / "app.py")
    assert len(files) > 500
    names = {(f.relative_to(ROOT).as_posix(), n) for f in files for n in empty_names(f.read_text())}
    assert names == STORED


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "FOUND = 1",
        "a.found = 1",
        "def f(found): ...",
        "def _found(): ...",
        "class Found: ...",
        "[0 for found in ()]",
        "try: ...\nexcept OSError as found: ...",
    ],
)
def test_a_planted_name_is_counted(source: str) -> None:
    assert empty_names(source) == {"found"}


# Files of one kind in parallel folders: the handler of each Lambda, the program of each pod.
OF_ONE_KIND = {"__init__.py", "__main__.py", "handler.py", "program.py"}


def repeated_file_names(files: Iterable[Path]) -> set[str]:
    """File names that stand in several folders, without those of `OF_ONE_KIND`."""
    counts = Counter(file.name for file in files)
    return {name for name, count in counts.items() if count > 1} - OF_ONE_KIND


def test_no_two_files_have_one_name() -> None:
    packages = (*PACKAGES, "benchmarks")
    files = [file for package in packages for file in (ROOT / package).rglob("*.py")]
    assert len(files) > 100
    assert repeated_file_names(files) == set()


def test_a_planted_second_file_is_reported() -> None:
    files = [Path("a/handler.py"), Path("b/handler.py"), Path("a/search.py"), Path("b/tables.py")]
    assert repeated_file_names(files) == set()
    assert repeated_file_names([*files, Path("c/search.py")]) == {"search.py"}


MOST_WORDS = 8


def files_of_tests() -> list[Path]:
    """Every module below `tests`."""
    return sorted((ROOT / "tests").rglob("*.py"))


def long_names(source: str) -> list[str]:
    """Names of tests with more than eight words, `test` not counted.

    A module whose text has no such name is not parsed.
    """
    if not any(name.count("_") > MOST_WORDS for name in re.findall(r"def\s+(test_\w+)", source)):
        return []
    functions = (
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    tests = (function.name for function in functions if function.name.startswith("test_"))
    return [name for name in tests if name.count("_") > MOST_WORDS]


def imported_test_modules(source: str) -> list[str]:
    """Test modules from which a module imports, in its text or in that of a child process."""
    return re.findall(r"\b(?:from|import) +(tests(?:\.\w+)*\.test_\w+)", source)


def test_a_test_has_at_most_eight_words() -> None:
    files = files_of_tests()
    assert len(files) > 100
    assert {file: names for file in files if (names := long_names(file.read_text()))} == {}


def test_a_planted_long_test_name_is_reported() -> None:
    eight = "def test_one_two_three_four_five_six_seven_eight(): ..."
    assert long_names(eight) == []
    assert long_names(eight.replace("_eight", "_eight_nine")) != []


def test_no_module_imports_from_a_test_module() -> None:
    # This module has such imports in its examples.
    files = [file for file in files_of_tests() if file != Path(__file__)]
    assert len(files) > 100
    files += (ROOT / "benchmarks").rglob("*.py")
    assert {
        file: modules for file in files if (modules := imported_test_modules(file.read_text()))
    } == {}


@pytest.mark.parametrize(
    "source",
    [
        "from tests.a.test_b import c",
        "def f():\n    import tests.test_a",
        'CHILD = """\nfrom tests.test_a import b\n"""',
    ],
)
def test_a_planted_import_is_reported(source: str) -> None:
    assert imported_test_modules(source)
    assert not imported_test_modules(source.replace(".test_", "."))
