"""Repetitions and the control in the report."""

import csv
import io
from dataclasses import replace

from draftworth.analysis.pairing import Traffic
from draftworth.analysis.ratios import cost_ratio
from draftworth.decision.facts import RunFacts
from draftworth.report.contents import document_of
from draftworth.report.csv_files import figures_csv, requests_csv
from draftworth.report.document import Section
from draftworth.report.reason_sentences import reason_words
from tests.draftworth.report import runs
from tests.support.present import present


def section(facts: RunFacts, title: str) -> Section | None:
    sections = [s for s in document_of(facts).sections if s.title == title]
    return sections[0] if sections else None


def test_an_unfinished_repetition_is_not_counted_as_whole() -> None:
    """The last repetition has blocks of one class of the mix, and none of the other."""
    run = runs.with_repetitions(runs.make_run(), 4)
    blocks = [b for b in run.blocks if b.repetition < 4 or b.prompt_class == "structured"]
    facts = runs.make_facts(replace(run, blocks=tuple(blocks)))
    (mix,) = facts.mixes
    assert "in these 3 repetitions" in reason_words(mix)
    repetitions_section = section(facts, "Repetitions")
    assert repetitions_section is not None
    names = {
        row[0]: [r[3] for r in repetitions_section.tables[0].rows if r[0] == row[0]]
        for row in repetitions_section.tables[0].rows
    }
    assert names["traffic mix"] == ["1", "2", "3", "4, not whole", "all, 3 whole"]
    assert names["structured"][-1] == "all 4"
    assert names["open_ended"][-1] == "all 3"


def test_a_repetition_without_one_case_is_not_whole() -> None:
    """With many cases, they are a sample and form one stratum, so none of them has its own."""
    blocks = tuple(
        replace(
            block,
            case=f"case-{i}",
            block=block.block + 100 * i,
            requests=tuple(replace(r, request_id=f"{r.request_id}/{i}") for r in block.requests),
        )
        for i in range(8)
        for block in runs.make_run().blocks
    )
    run = runs.with_repetitions(runs.make_run(blocks=blocks), 4)
    traffic = Traffic(weights=run.result.class_weights, load=run.blocks[0].load)
    for missing, whole in ((None, 4), ("case-7", 3)):
        kept = [b for b in run.blocks if b.repetition < 4 or b.case != missing]
        ratio = present(cost_ratio(kept, traffic, variant=runs.VARIANT, baseline=runs.BASELINE))
        assert ratio.repetitions == whole


def test_csv_files_have_repetitions_and_the_control() -> None:
    facts = runs.make_facts(runs.with_control(runs.with_repetitions(runs.make_run(), 2)))
    rows = [*csv.DictReader(io.StringIO(figures_csv(facts)))]
    names = {row["figure"] for row in rows}
    assert {"cost_ratio_of_control", "cost_ratio_in_built-run/2"} <= names
    (pooled, *_) = (row for row in rows if row["figure"] == "cost_ratio")
    assert pooled["repetitions"] == "2"
    requests = [*csv.DictReader(io.StringIO(requests_csv((*facts.run.blocks, *facts.control))))]
    assert {row["variant"] for row in requests} == {"baseline", "k7", "control"}
    assert {row["repetition"] for row in requests} == {"1", "2"}
