"""A load answers for itself: nobody asks for its class, so a new shape gets no wrong figures."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from draftworth.experiment.workload import LoadSpec
from draftworth.records.load import Load
from tests.conftest import ROOT

_SPECS, *_ = get_args(LoadSpec)
CLASSES = {shape.__name__ for shape in (*get_args(Load), *get_args(_SPECS))} | {"Load", "LoadSpec"}
KINDS = {shape.model_fields["kind"].annotation for shape in get_args(_SPECS)}
KIND_NAMES = {name for kind in KINDS for name in get_args(kind)}
FOLDERS = ("draftworth", "charts", "stacks", "lambdas", "pods", "rehearsal", "benchmarks", "tests")
HERE = ROOT / "draftworth" / "records" / "load.py"


def sources() -> Iterator[Path]:
    return (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))


def names_of(tree: ast.AST) -> set[str]:
    """What the source calls the load classes."""
    aliases = (alias for node in ast.walk(tree) for alias in getattr(node, "names", ()))
    renamed = {
        alias.asname
        for alias in aliases
        if isinstance(alias, ast.alias) and alias.name in CLASSES and alias.asname
    }
    return CLASSES | renamed


def mentions(node: ast.AST, names: set[str]) -> bool:
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    found |= {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    return bool(found & names)


def asks(source: str) -> list[int]:
    """The lines that ask for the class of a load, or for its kind."""
    tree = ast.parse(source)
    names = names_of(tree)
    return [getattr(node, "lineno", 0) for node in ast.walk(tree) if _asks(node, names)]


def _asks(node: ast.AST, names: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, classes]):
            return mentions(classes, names)
        case ast.MatchClass(cls=shape):
            return mentions(shape, names)
        case ast.Compare():
            return _compares_a_type(node, names) or _compares_a_kind(node)
    return False


def _compares_a_type(node: ast.Compare, names: set[str]) -> bool:
    sides = [node.left, *node.comparators]
    return mentions(node, {"type", "__class__"}) and any(mentions(side, names) for side in sides)


def _compares_a_kind(node: ast.Compare) -> bool:
    texts = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
    return mentions(node, {"kind"}) and bool(texts & KIND_NAMES)


@pytest.mark.parametrize("folder", FOLDERS)
def test_nobody_asks_a_load_for_its_class(folder: str) -> None:
    found = {
        str(path.relative_to(ROOT)): lines
        for path in sources()
        if path.is_relative_to(ROOT / folder) and path != HERE
        if (lines := asks(path.read_text()))
    }
    assert found == {}


def test_all_shapes_are_known_by_name() -> None:
    assert {"ConcurrencyLoad", "PoissonLoad", "LadderLoad", "RatesLoad"} <= CLASSES
    assert {"concurrency", "poisson", "ladder", "poisson_ladder"} <= KIND_NAMES
    assert len(list(sources())) > 100


@pytest.mark.parametrize(
    "planted",
    [
        "isinstance(load, ConcurrencyLoad)",
        "isinstance(load, (int, load_shapes.PoissonLoad))",
        "isinstance(load, ConcurrencyLoad | None)",
        "issubclass(shape, LadderLoad)",
        "from draftworth.records.load import PoissonLoad as Rate\nisinstance(load, Rate)",
        "match load:\n    case PoissonLoad(requests_per_second=rate): ...",
        "type(load) is ConcurrencyLoad",
        "load.__class__ in (PoissonLoad,)",
        "work.load.kind == 'poisson'",
        "load.kind in ('ladder', 'poisson_ladder')",
    ],
)
def test_code_that_asks_for_a_class_is_found(planted: str) -> None:
    assert asks(planted)


@pytest.mark.parametrize(
    "planted",
    [
        "ConcurrencyLoad(concurrency=4)",
        "isinstance(variant, Speculative)",
        "offer.kind == 'spot'",
        "load == PoissonLoad(requests_per_second=1.0)",
    ],
)
def test_code_that_makes_a_load_or_asks_something_else_is_not(planted: str) -> None:
    assert asks(planted) == []
