"""No module asks for the class of a variant: all classes have the same properties."""

import re

import pytest

from tests.conftest import ROOT

CLASS_ASKED_FOR = re.compile(r"isinstance\([^)]*\b(Baseline|AsShipped|\w*Speculative)\b")


@pytest.mark.parametrize(
    "room", ["draftworth", "charts", "stacks", "pods", "lambdas", "rehearsal", "benchmarks"]
)
def test_no_module_tests_the_class_of_variants(room: str) -> None:
    files = [*(ROOT / room).rglob("*.py")]
    assert files
    assert [file.name for file in files if CLASS_ASKED_FOR.search(file.read_text())] == []
