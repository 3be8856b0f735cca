"""The rules of a decision are in one place.

Only `draftworth/decision` compares judgements. `draftworth/report` compares nothing with a
threshold of `analysis` or `decision`: why something was decided is a fact that these return.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import PACKAGES, ROOT

# The only places that may compare judgements: the folder with the rules of a decision, and the
# file that declares what each judgement means.
ALLOWED = (ROOT / "draftworth" / "decision", ROOT / "draftworth" / "records" / "judgement.py")


def comparisons(source: str) -> Iterator[int]:
    """Yield the line of each comparison or `case` that names a member of `Judgement`.

    A module whose text has no such name is not parsed.
    """
    if "Judgement" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare | ast.match_case):
            pattern = node.pattern if isinstance(node, ast.match_case) else node
            if any(_is_member(part) for part in ast.walk(pattern)):
                yield next(part.lineno for part in ast.walk(pattern) if hasattr(part, "lineno"))


def _is_member(node: ast.AST) -> bool:
    is_attribute = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    return is_attribute and node.value.id == "Judgement"  # type: ignore[attr-defined]


def product_files() -> Iterator[Path]:
    for package in PACKAGES:
        if package not in ("tests", "benchmarks"):
            yield from (ROOT / package).rglob("*.py")


def test_nobody_else_compares_a_judgement() -> None:
    files = [f for f in product_files() if not any(f.is_relative_to(a) for a in ALLOWED)]
    assert len(files) > 100
    assert [f"{f}:{line}" for f in files for line in comparisons(f.read_text())] == []


@pytest.mark.parametrize(
    "source",
    [
        "if c.judgement == Judgement.CHEAPER: ...",
        "found = [c for c in all if c.judgement in (Judgement.CHEAPER, Judgement.NO_DIFFERENCE)]",
        "match j:\n    case Judgement.CHEAPER: ...",
    ],
)
def test_a_comparison_elsewhere_would_be_seen(source: str) -> None:
    assert len(list(comparisons(source))) == 1


def thresholds_compared(source: str) -> Iterator[str]:
    """Yield each constant of `analysis` or `decision` that a module compares something with."""
    tree = ast.parse(source)
    constants = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        if node.module.startswith(("draftworth.analysis", "draftworth.decision"))
        for alias in node.names
        if alias.name.isupper()
    }
    compared = (node for node in ast.walk(tree) if isinstance(node, ast.Compare))
    names = {part.id for c in compared for part in ast.walk(c) if isinstance(part, ast.Name)}
    yield from sorted(names & constants)


def test_the_report_compares_nothing_with_a_threshold() -> None:
    files = sorted((ROOT / "draftworth" / "report").rglob("*.py"))
    assert files
    by_file = {f.name: [*thresholds_compared(f.read_text())] for f in files}
    assert {name: compared for name, compared in by_file.items() if compared} == {}


def test_a_compared_threshold_would_be_seen() -> None:
    source = "from draftworth.decision.verdict import LIMIT\nif low > 1 + LIMIT: ..."
    assert list(thresholds_compared(source)) == ["LIMIT"]
