"""The last files of a run: they are written before `run.json`, and none of them can prevent it."""

from dataclasses import replace
from pathlib import Path

import pytest

from draftworth.analysis.costs import step_costs_of
from draftworth.decision.facts import facts_of
from draftworth.measuring.final_files import shortfall_reason, write_findings
from draftworth.measuring.result_files import FolderSink, RunFiles
from draftworth.measuring.streamed_request import Measured
from draftworth.records.codec import load_record
from draftworth.records.findings import VERDICT_FILE, Verdict
from draftworth.records.results import RUN_FILE, BlockResult, StopWhen
from draftworth.records.run_folder import read_run
from draftworth.records.step_costs import STEP_COSTS_FILE, read_step_costs
from draftworth.records.transcripts import Transcript
from draftworth.report.sentences import verdict_of
from tests.draftworth.report.runs import make_run, with_control
from tests.support.blocks import make_failed_record
from tests.support.sinks import RefusingSink
from tests.support.stand_in_runs import case, run, server, spec
from tests.support.stream_server import stream_server


def measured(sink: RefusingSink, *, variants: int = 2) -> str:
    """Measure a run with this number of servers, and return the run's status."""
    with stream_server(server(1, 1)) as a, stream_server(server(2)) as b:
        urls = (a.base_url, b.base_url)[:variants]
        return run(spec(*urls, cases=[case("count")]), sink.folder, sink).status


def test_the_verdict_is_written_before_the_runs_end(tmp_path: Path) -> None:
    sink = RefusingSink(tmp_path)
    assert measured(sink) == "complete"
    assert sink.written_in_run[-3:] == [VERDICT_FILE, STEP_COSTS_FILE, RUN_FILE]
    folder = tmp_path / "test-1"
    verdict = load_record(Verdict, (folder / VERDICT_FILE).read_bytes())
    # It is the verdict that a report computes later from the run's files.
    assert verdict == verdict_of(facts_of(read_run(folder), {}))
    assert read_step_costs(folder) == step_costs_of(read_run(folder))


def parted(folder: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> tuple[Verdict, list[str]]:
    """Return the verdict of a run and the messages; outputs differ from their first token on.

    most: how many token ids a run may keep in memory for its verdict.
    """
    monkeypatch.setattr("draftworth.measuring.result_files.MOST_KEPT_IDS", most)
    lines: list[str] = []
    files = RunFiles(sink=FolderSink(folder), run_id="built-run", progress=lines.append)
    made = make_run()
    for block in made.blocks:
        first = int(block.variant != made.result.baseline)
        transcripts = [
            Transcript(request_id=r.request_id, token_ids=(first, 2, 3)) for r in block.requests
        ]
        files.write_block(
            block,
            [
                Measured(record=r, transcript=t)
                for r, t in zip(block.requests, transcripts, strict=True)
            ],
        )
    write_findings(made, files)
    return load_record(Verdict, (folder / "built-run" / VERDICT_FILE).read_bytes()), lines


@pytest.mark.parametrize(("most", "is_judged"), [(10_000, True), (100, False)])
def test_verdict_compares_answers_where_memory_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, *, is_judged: bool
) -> None:
    verdict, lines = parted(tmp_path, monkeypatch, most)

    assert ("its answers are not the target's" in verdict.headline) is is_judged
    assert [line.startswith("more than 100 token ids: ") for line in lines] == [True] * (
        not is_judged
    )


def test_a_verdict_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    sink = RefusingSink(tmp_path, VERDICT_FILE)
    assert measured(sink) == "complete"
    assert sink.written_in_run[-1] == RUN_FILE
    assert VERDICT_FILE not in sink.written_in_run
    assert STEP_COSTS_FILE in sink.written_in_run


def test_a_defect_in_the_analysis_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def divide(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("draftworth.measuring.final_files.facts_of", divide)
    sink = RefusingSink(tmp_path)
    assert measured(sink) == "complete"
    assert sink.written_in_run[-1] == RUN_FILE


def test_a_run_that_failed_has_no_verdict(tmp_path: Path) -> None:
    sink = RefusingSink(tmp_path, ".result.json")
    assert measured(sink) == "failed"
    assert VERDICT_FILE not in sink.written_in_run


def test_one_endpoint_gets_a_card_but_no_verdict(tmp_path: Path) -> None:
    sink = RefusingSink(tmp_path)
    assert measured(sink, variants=1) == "complete"
    assert sink.written_in_run[-2:] == [STEP_COSTS_FILE, RUN_FILE]
    assert VERDICT_FILE not in sink.written_in_run


def failing(blocks: tuple[BlockResult, ...], variant: str) -> list[BlockResult]:
    """Return the blocks, changed so that every request of `variant` failed."""
    none = tuple(make_failed_record(i) for i in range(8))
    return [replace(b, requests=none) if b.variant == variant else b for b in blocks]


def test_a_control_that_never_answered_fails_no_run() -> None:
    blocks = with_control(make_run()).blocks
    assert shortfall_reason(failing(blocks, "control")) == ""
    # The control's blocks are not counted either when another variant fails: 8, not 12.
    assert "in 4 of 8 blocks" in shortfall_reason(failing(blocks, "k7"))


def test_a_run_records_which_record_chose_its_prompts(tmp_path: Path) -> None:
    chosen = replace(case("count"), chosen_by="0f" * 32)
    other = replace(case("more"), prompt_class="other")
    with stream_server(server(1, 1)) as a:
        result = run(spec(a.base_url, cases=[chosen, other]), tmp_path)
    assert result.chosen_by == {chosen.prompt_class: "0f" * 32}


@pytest.mark.parametrize(("stop", "looks"), [("precise", 1), ("decided", 2)])
def test_a_run_records_how_often_it_looks(tmp_path: Path, stop: StopWhen, looks: int) -> None:
    """After the fourth of five rounds, and after the fifth."""
    with stream_server(server(1, 1)) as a, stream_server(server(2)) as b:
        decided = spec(a.base_url, b.base_url, cases=[case("count")], max_rounds=5, stop=stop)
        assert run(decided, tmp_path).looks == looks
