"""The report's list of what worked: which gates were passed, when, and with which software."""

from dataclasses import replace

import pytest

from draftworth.records.results import PassedGate
from draftworth.records.servers import SelfTest
from draftworth.report.contents import document_of
from draftworth.report.document import document_lines
from draftworth.report.worked import TITLE, worked_sections
from tests.draftworth.report import runs
from tests.support.blocks import START_UNIX_S, make_failed_record

ANSWERED = PassedGate(
    gate="baseline answers",
    variant="baseline",
    at_unix_s=START_UNIX_S + 600,
    seconds=0.5,
    tokens=8,
)
AGAIN = replace(ANSWERED, at_unix_s=START_UNIX_S + 6000)


WELL = SelfTest(driver="2.28.0.0", runtime="2.28.23", devices=(0, 1), seconds=30.0)


def test_passed_gates_are_listed_once_with_their_versions() -> None:
    tests = {"vllm-baseline": WELL, "vllm-k7": replace(WELL, failed="no driver")}
    run = runs.make_run(gates=(ANSWERED, AGAIN), serving=runs.SERVING, self_tests=tests)
    (section,) = worked_sections(run)
    assert section.paragraphs[0].startswith("Release neuron-2.26.1: vLLM 0.9.0, image registry")
    assert section.paragraphs[0].endswith(", on trn2.48xlarge.")
    tested, answered, *loads = section.tables[0].rows
    versions = "2 devices, driver 2.28.0.0, runtime 2.28.23"
    assert tested == ("self-test", "vllm-baseline", versions, "-", "30.0")
    assert answered == ("baseline answers", "baseline", "8 tokens", "10.0", "0.5")
    assert [row[:3] for row in loads] == [
        ("load", "baseline", "4 requests at a time"),
        ("load", "k7", "4 requests at a time"),
    ]
    assert TITLE in [*map(str.strip, document_lines(document_of(runs.make_facts(run))))]


@pytest.mark.parametrize("failing", ["baseline", "k7"])
def test_a_silent_variant_is_not_listed_as_working(failing: str) -> None:
    run = runs.make_run()
    blocks = tuple(
        replace(b, requests=(make_failed_record(),)) if b.variant == failing else b
        for b in run.blocks
    )
    (section,) = worked_sections(replace(run, blocks=blocks))
    assert failing not in {row[1] for row in section.tables[0].rows}


def test_a_run_without_success_has_no_list() -> None:
    assert worked_sections(replace(runs.make_run(), blocks=())) == ()
