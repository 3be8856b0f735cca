"""A load answers for itself: nobody asks for its class, so a new shape gets no wrong figures."""

import re
from pathlib import Path
from typing import get_args

import pytest

from draftworth.records.load_shapes import Load
from tests.conftest import ROOT

CLASSES = {shape.__name__ for shape in get_args(Load)} | {"Load"}
KINDS = {shape.kind for shape in get_args(Load)}
FOLDERS = ("draftworth", "charts", "stacks", "lambdas", "pods", "rehearsal", "benchmarks", "tests")
EXCEPT = {ROOT / "draftworth" / "records" / "load_shapes.py", Path(__file__)}

_CLASS = rf"\b({'|'.join(sorted(CLASSES))})\b"
_KIND = rf"[\"']({'|'.join(sorted(KINDS))})[\"']"
ASKS = re.compile(
    rf"(isinstance|issubclass)\([^:]*?{_CLASS}"
    rf"|case [\w.]*{_CLASS}\("
    rf"|(type\(\w|__class__)[^\n]*{_CLASS}"
    rf"|{_CLASS} as \w"
    rf"|\.kind (==|!=|in|not in) [^\n]*{_KIND}"
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_nobody_asks_a_load_for_its_class(folder: str) -> None:
    files = [path for path in (ROOT / folder).rglob("*.py") if path not in EXCEPT]
    assert files
    asking = {path.name: match[0] for path in files if (match := ASKS.search(path.read_text()))}
    assert asking == {}


def test_all_shapes_are_known_by_name() -> None:
    assert {"ConcurrencyLoad", "PoissonLoad"} <= CLASSES
    assert {"concurrency", "poisson"} <= KINDS


@pytest.mark.parametrize(
    "planted",
    [
        "isinstance(load, ConcurrencyLoad)",
        "isinstance(load, (int, load_shapes.PoissonLoad))",
        "isinstance(load, ConcurrencyLoad | None)",
        "issubclass(shape, PoissonLoad)",
        "from draftworth.records.load_shapes import PoissonLoad as Rate",
        "match load:\n    case PoissonLoad(requests_per_second=rate): ...",
        "type(load) is ConcurrencyLoad",
        "load.__class__ in (PoissonLoad,)",
        "work.load.kind == 'poisson'",
        "load.kind in ('concurrency', 'poisson')",
    ],
)
def test_code_that_asks_for_a_class_is_found(planted: str) -> None:
    assert ASKS.search(planted)


@pytest.mark.parametrize(
    "planted",
    [
        "ConcurrencyLoad(concurrency=4)",
        "isinstance(variant, Speculative)",
        "offer.kind == 'spot'",
        "load == PoissonLoad(requests_per_second=1.0)",
    ],
)
def test_other_code_about_loads_is_not_matched(planted: str) -> None:
    assert not ASKS.search(planted)
