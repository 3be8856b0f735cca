"""The judgements: what each means, how it is read, and that no other file knows its text."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.records.findings import Finding
from draftworth.records.judgement import Judgement
from tests.conftest import ROOT

PRODUCT = ("draftworth", "charts", "stacks", "lambdas", "pods", "rehearsal", "benchmarks")
HOME = "draftworth/records/judgement.py"
# A heading of another figure: the share of requests within the limits.
HEADINGS = {("draftworth/report/verdict_section.py", "within the limits")}
# `inconclusive` is an answer to a claim, too.
TEXTS = {*map(str, Judgement)} - {"inconclusive"}
# A text as code has it, also if it is put together from several literals. To search the files for
# it is quicker than to parse them all.
_IN_CODE = re.compile("|".join(r"\W+".join(text.split()) for text in sorted(TEXTS)))

FINDING = Finding(
    traffic="structured",
    load="c4",
    variant="k7",
    baseline="baseline",
    judgement=Judgement.CHEAPER,
    cost_ratio=0.6,
    cost_ratio_low=0.5,
    cost_ratio_high=0.7,
    sentence="cheaper",
)


def texts_in(path: Path) -> Iterator[str]:
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)) if _IN_CODE.search(source) else ():
        if isinstance(node, ast.Constant) and node.value in TEXTS:
            yield node.value


def test_each_text_is_literal_in_one_product_file() -> None:
    literals = {
        (str(path.relative_to(ROOT)), text)
        for folder in PRODUCT
        for path in (ROOT / folder).rglob("*.py")
        for text in texts_in(path)
    }
    assert literals - HEADINGS == {(HOME, text) for text in TEXTS}


def test_ranks_are_the_order_of_headline_preference() -> None:
    assert [judgement.rank for judgement in Judgement] == [0, 1, 2, 3, 4, 5]
    assert Judgement.CHEAPER.rank < Judgement.INCONCLUSIVE.rank < Judgement.MORE_EXPENSIVE.rank


def test_what_each_means() -> None:
    assert {j for j in Judgement if j.serves_variant} == {Judgement.CHEAPER}
    assert {j for j in Judgement if not j.is_decided} == {
        Judgement.WITHIN_LIMITS,
        Judgement.INCONCLUSIVE,
    }
    assert {j for j in Judgement if j.is_on_cost} == {
        Judgement.CHEAPER,
        Judgement.NO_DIFFERENCE,
        Judgement.MORE_EXPENSIVE,
    }


def test_a_file_has_the_text_and_reads_back() -> None:
    data = dump_record(FINDING)
    assert b'"judgement":"cheaper per token"' in data
    assert load_record(Finding, data) == FINDING
    earlier = data.replace(b"cheaper per token", b"dearer")
    assert load_record(Finding, earlier).judgement is Judgement.MORE_EXPENSIVE


@pytest.mark.parametrize("value", [b'"cheap"', b"1", b"null", b"[1]", b'{"a":1}', b"true"])
def test_any_other_value_is_refused_with_those_allowed(value: bytes) -> None:
    data = dump_record(FINDING).replace(b'"cheaper per token"', value)
    with pytest.raises(RecordError, match=r"judgement: given .*allowed: one of \('cheaper per"):
        load_record(Finding, data)
