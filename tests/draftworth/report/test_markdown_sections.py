"""The Markdown of a run that has everything: its head, then each of its sections."""

import re
from dataclasses import replace

import pytest

from draftworth.decision.facts import facts_of
from draftworth.decision.run_comparison import changes
from draftworth.records.results import BlockResult, ServerStart
from draftworth.records.transcripts import read_transcripts
from draftworth.report.contents import against_section, document_of
from draftworth.report.writing import markdown_of
from tests.draftworth.report import runs
from tests.draftworth.report.pages import SNAPSHOTS
from tests.support.blocks import each_request, make_price
from tests.support.snapshot import assert_snapshot

START = ServerStart(startup_s=900.0, compilation_s=600.0, graphs=2, load_s=20.0, load_bytes=2.0**34)
# The head and the sections, in their order; each is a file of snapshots.
PARTS = (
    *("head", "verdict", "prompt-by-prompt", "what-worked", "repetitions"),
    *("other-mixes-and-other-prices", "against-another-run", "figures", "quantiles-of-latencies"),
    *("structured-at-4-requests-at-a-time", "open-ended-at-4-requests-at-a-time", "cross-checks"),
    *("greedy-outputs", "where-greedy-outputs-differ", "time-and-cost-of-the-run", "handover"),
)


def with_one_output_that_differs(block: BlockResult) -> BlockResult:
    if (block.variant, block.prompt_class) != ("k7", "structured"):
        return block
    strange = {"prompt-3": "f" * 64}
    return each_request(
        block, lambda r: replace(r, output_sha256=strange.get(r.prompt_id, r.output_sha256))
    )


@pytest.fixture(scope="module")
def markdown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of a run with repetitions, control and interruption, beside another run."""
    blocks = tuple(map(with_one_output_that_differs, runs.make_run().blocks))
    once = runs.make_run(
        price=make_price(nodes=2),
        blocks=blocks,
        interruptions=(runs.LOST,),
        server_starts={runs.BASELINE: START, runs.VARIANT: ServerStart(startup_s=60.0)},
    )
    run = runs.with_control(runs.with_repetitions(once, 2))
    texts = {"run/1-3-0": "count: 1 | 2 *3*", "run/2-3-0": "count: 1 | 2 <b>4</b>"}
    folder = runs.write_run(run, tmp_path_factory.mktemp("report") / "run", texts=texts)
    facts = facts_of(run, read_transcripts(folder, run.blocks))
    other = runs.make_run(run_id="another-run")
    against = against_section(changes(facts, runs.make_facts(run)), facts.run, other)
    return markdown_of(document_of(facts, against=[against]))


def parts_of(markdown: str) -> dict[str, str]:
    """Return the head of a report and its sections, by the names that `PARTS` has."""
    head, *sections = re.split("^(?=## )", markdown, flags=re.MULTILINE)
    titles = [section.splitlines()[0].lower() for section in sections]
    names = [re.sub("[^a-z0-9]+", "-", title).strip("-") for title in titles]
    return {"head": head, **dict(zip(names, sections, strict=True))}


def test_the_sections_are_in_their_order(markdown: str) -> None:
    parts = parts_of(markdown)
    assert (*parts,) == PARTS
    assert "".join(parts.values()) == markdown
    files = {file.name for file in (SNAPSHOTS / "report").iterdir()}
    assert files == {f"{name}.md" for name in PARTS}


@pytest.mark.parametrize("part", PARTS)
def test_markdown_of_a_part(part: str, markdown: str) -> None:
    assert_snapshot(parts_of(markdown)[part], SNAPSHOTS / "report" / f"{part}.md")
