"""A rehearsal against the user's own endpoints: what its run says of them."""

from pathlib import Path

from draftworth.analysis.facts import facts_of
from draftworth.measuring.result_files import FolderSink
from draftworth.measuring.runner import measure_here
from draftworth.planning.resolved import load
from draftworth.records.codec import load_record
from draftworth.records.findings import STEP_COSTS_FILE, StepCostCard
from draftworth.records.reading import read_run
from draftworth.report.contents import handover_document
from rehearsal.endpoints import own_endpoints
from tests.rehearsal.test_rehearsal import server, short_rehearsal
from tests.support.stream_server import stream_server


def test_a_run_and_its_handover_do_not_say_what_serves_the_users_own_endpoints(
    tmp_path: Path,
) -> None:
    with (
        stream_server(server(*[1] * 8, gap_seconds=0)) as slow,  # type: ignore[arg-type]
        stream_server(server(4, 4, gap_seconds=0)) as fast,  # type: ignore[arg-type]
        own_endpoints(
            load(short_rehearsal(tmp_path)),
            base_url=slow.base_url,
            speculative_url=fast.base_url,
            model="m",
            progress=lambda _: None,
        ) as (spec, servers),
    ):
        result = measure_here(spec, FolderSink(tmp_path), lambda _: None, servers=servers)
    assert result.status == "complete"
    folder = tmp_path / result.run_id

    assert read_run(folder).result.serving is None
    card = load_record(StepCostCard, (folder / STEP_COSTS_FILE).read_bytes())
    assert card.serving is None
    (page,) = handover_document(facts_of(read_run(folder), {})).sections
    measured = {row[0]: row[1] for row in page.tables[0].rows}
    assert measured["servers"].startswith("endpoints of your own")
    assert measured.keys().isdisjoint({"target model", "image", "release", "instance"})
    steps = {row[0]: row[1] for row in page.tables[-1].rows}
    assert "serve it" not in steps
    assert "--base-url URL --speculative-url URL" in steps["measure it once more"]
