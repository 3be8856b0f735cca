"""Why a run that measured every block is not complete."""

from dataclasses import replace

from draftworth.measuring.findings import shortfall_reason
from draftworth.records.results import BlockResult
from tests.draftworth.report.runs import make_run, with_control
from tests.support.blocks import make_failed_record


def failing(blocks: tuple[BlockResult, ...], variant: str) -> list[BlockResult]:
    """The blocks, of which every one of a variant failed entirely."""
    none = tuple(make_failed_record(i) for i in range(8))
    return [replace(b, requests=none) if b.variant == variant else b for b in blocks]


def test_a_variant_that_never_answered_makes_a_run_fail() -> None:
    reason = shortfall_reason(failing(make_run().blocks, "k7"))
    assert reason.startswith("every request failed in 4 of 8 blocks, first in ")


def test_a_control_that_never_answered_does_not() -> None:
    blocks = with_control(make_run()).blocks
    assert shortfall_reason(failing(blocks, "control")) == ""
    # Nor do its blocks dilute what is said of a variant.
    assert "in 4 of 8 blocks" in shortfall_reason(failing(blocks, "k7"))
