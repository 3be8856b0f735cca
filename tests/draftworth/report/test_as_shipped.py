"""The baseline as shipped in a report: named, beside the fair baseline, and never in its place."""

from dataclasses import replace

import pytest

from draftworth.decision.facts import RunFacts
from draftworth.records.results import AS_SHIPPED, BlockResult
from draftworth.records.servers import SelfTest
from draftworth.report.contents import document_of
from draftworth.report.csv_files import figures_csv
from tests.draftworth.report import runs

BASELINE = runs.make_plain_block(1, "structured")


def shipped_block(*, faster: float) -> BlockResult:
    """Return a block of the baseline as shipped, `faster` times as fast as the fair baseline."""
    return replace(runs.slower(BASELINE, 1 / faster), variant=AS_SHIPPED, block=3)


def facts_with(faster: float) -> RunFacts:
    blocks = runs.two_rounds(
        BASELINE, runs.make_drafted_block(2, "structured"), shipped_block(faster=faster)
    )
    names = ("baseline", runs.VARIANT, AS_SHIPPED)
    weights = {"structured": 1.0}
    return runs.make_facts(runs.make_run(blocks=blocks, variants=names, class_weights=weights))


@pytest.mark.parametrize(
    ("faster", "judgement"), [(1.0, "cheaper per token"), (4.0, "more expensive")]
)
def test_a_variant_is_compared_with_both_baselines(faster: float, judgement: str) -> None:
    """Speculation costs two fifths less than the fair baseline."""
    facts = facts_with(faster)
    drafted, shipped = facts.speculative
    assert drafted.comparison is not None
    assert drafted.comparison.judgement == "cheaper per token"
    assert drafted.against_shipped is not None
    assert drafted.against_shipped.judgement == judgement
    assert shipped.name == AS_SHIPPED
    assert shipped.against_shipped is None

    verdict = document_of(facts).sections[0]
    assert any(
        f"{runs.VARIANT}, against {AS_SHIPPED}: {judgement};" in p for p in verdict.paragraphs
    )
    assert any(p.startswith(f"{AS_SHIPPED} does not speculate") for p in verdict.paragraphs)
    assert [row[2:4] for row in verdict.tables[0].rows] == [
        (runs.VARIANT, "cheaper per token"),
        (AS_SHIPPED, "cheaper per token" if faster > 1 else "no difference"),
        (f"{runs.VARIANT} against {AS_SHIPPED}", judgement),
    ]
    assert [card.judgement for card in document_of(facts).cards] == ["cheaper per token"]
    assert "cost_ratio_against_as_shipped" in figures_csv(facts)


def test_the_traffic_mix_is_put_against_both_too() -> None:
    blocks = runs.make_run().blocks
    plain = (b for b in blocks if b.variant == runs.BASELINE)
    shipped = (replace(b, variant=AS_SHIPPED, block=b.block + 100) for b in plain)
    names = (runs.BASELINE, runs.VARIANT, AS_SHIPPED)
    facts = runs.make_facts(runs.make_run(blocks=(*blocks, *shipped), variants=names))

    fair, of_shipped, shipped_mix = facts.mixes
    assert (fair.name, of_shipped.name) == (runs.VARIANT, AS_SHIPPED)
    assert shipped_mix.name == f"{runs.VARIANT} against {AS_SHIPPED}"
    assert fair.cost_ratio is not None
    assert fair.cost_ratio == shipped_mix.cost_ratio, "as fast as the fair baseline here"
    labels = [card.label for card in document_of(facts).cards]
    assert labels
    assert all(runs.VARIANT in label for label in labels)
    without = document_of(runs.make_facts()).sections[0]
    assert not any(AS_SHIPPED in paragraph for paragraph in without.paragraphs)


def test_self_tests_of_the_nodes_have_a_table() -> None:
    test = SelfTest(devices=(8, 9), driver="2.28.0.0", init_s=4.25, logical_cores=8, seconds=9.5)
    facts = runs.make_facts(runs.make_run(self_tests={"vllm-baseline": test}))
    sections = {section.title: section for section in document_of(facts).sections}
    row = ("vllm-baseline", "8 9", "2.28.0.0", "-", "8", "4.2", "9.5")
    assert sections["Time and cost of the run"].tables[-1].rows == (row,)
