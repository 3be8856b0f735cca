"""The handover: what was decided for which traffic, what to watch, what is missing."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from draftworth.cli import main
from draftworth.decision.winner import NoWinnerError
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.run_folder import Run, read_run
from draftworth.report.contents import handover_document
from draftworth.report.document import Section
from draftworth.report.sentences import winner_to_export
from draftworth.report.writing import markdown_of
from tests.conftest import ROOT
from tests.draftworth.report import runs
from tests.draftworth.report.pages import SNAPSHOTS
from tests.draftworth.report.searches import NOTHING_MEASURED, make_search_run
from tests.support.present import present
from tests.support.snapshot import assert_snapshot
from tests.support.stream_server import Request, Step, completion, plain, stream_server

PROMPTS = ROOT / "prompts/structured/count.jsonl"


def page(run: Run) -> Section:
    (section,) = handover_document(runs.make_facts(run)).sections
    return section


def page_text(run: Run) -> str:
    return "\n".join(page(run).paragraphs)


def commands(run: Run) -> dict[str, str]:
    return {row[0]: row[1] for row in page(run).tables[-1].rows}


def test_measure_accepts_the_handovers_command(tmp_path: Path) -> None:
    """Also at a concurrency above the number of requests that `measure` sends by default."""
    command = commands(runs.structured_run(16, temperature=0.5))["ask a live server the same"]
    with stream_server(_answer) as server:
        places = {
            "URL": server.base_url,
            "NAME": "m",
            "PROMPTS": str(PROMPTS),
            "runs": str(tmp_path),
        }
        code = main([places.get(word, word) for word in command.split()[1:]])

    assert code == 0
    bodies = [json.loads(request.body) for request in server.requests if request.method == "POST"]
    assert {(a["ignore_eos"], a["temperature"]) for a in bodies} == {(True, 0.5)}
    assert max(a["max_tokens"] for a in bodies) == 100
    (folder,) = tmp_path.iterdir()
    assert {b.load.label for b in read_run(folder).blocks} == {"c16"}


def _answer(request: Request) -> Sequence[Step]:
    if request.method != "POST":
        return plain("200 OK", b"")
    return completion(50, 50) if request.json["max_tokens"] == 100 else completion(8)


def test_handover_and_winner_ask_for_one_next_step() -> None:
    run = runs.make_run(blocks=tuple(b for b in runs.make_run().blocks if b.round == 1))
    assert "What is missing: a verdict" in page_text(run)
    assert "No answer yet" in page_text(run)
    with pytest.raises(NoWinnerError) as refused:
        winner_to_export(runs.make_facts(run))
    step = str(refused.value).partition("next: ")[2]
    assert step.startswith("measure more")
    assert f"Next: {step}." in page_text(run)


def test_break_even_is_the_steps_cost_in_baselines() -> None:
    """Expected by the built run's figures: 99 tokens in 17 whole chunks, means of 8 requests."""
    (at,) = runs.make_facts(runs.structured_run(4)).handover.break_evens
    needed = present(at.needed)
    step_s = 99 * (runs.STEP_S / runs.TOKENS_PER_STEP["structured"] + 3.5e-5) / 17
    assert needed.value == pytest.approx(step_s / (runs.PLAIN_ITL_S + 3.5e-4), rel=1e-3)
    assert present(needed.low) < needed.value < present(needed.high)
    assert at.measured == pytest.approx(99 / 17)
    assert at.judgement == "cheaper per token"


def test_a_mix_divides_all_tokens_by_all_steps() -> None:
    (at,) = runs.make_facts(runs.make_run()).handover.break_evens
    assert at.by_class == pytest.approx({"structured": 99 / 17, "open_ended": 99 / 49})
    assert at.measured == pytest.approx(2 / (17 / 99 + 49 / 99))


WINNER = runs.structured_run(4)
ALONE = runs.structured_run(4, variants=(runs.BASELINE,), class_weights={}, serving=None)


def with_blocks(run: Run, **fields: Any) -> Run:
    return replace(run, blocks=tuple(replace(b, **fields) for b in run.blocks))


def ended_by_itself() -> Run:
    first, *later_blocks = WINNER.blocks
    ended = replace(first.requests[0], finish_reason="stop")
    return replace(
        WINNER, blocks=(replace(first, requests=(ended, *first.requests[1:])), *later_blocks)
    )


def of_the_baseline(run: Run) -> Run:
    return replace(run, blocks=tuple(b for b in run.blocks if b.variant == runs.BASELINE))


# Runs by what is special in their handover. The snapshot has the whole first handover, and of each
# further one only the lines that the first one lacks, with the number of its other lines.
HANDOVERS = {
    "a winner": WINNER,
    "without counters": with_blocks(WINNER, speculation=None),
    "an output that ended by itself": ended_by_itself(),
    "with a wanted prefix cache": replace(
        WINNER, result=replace(WINNER.result, prompt_cache="warm")
    ),
    "of prompts of a length": with_blocks(
        WINNER, load=ConcurrencyLoad(concurrency=4, input_tokens=512)
    ),
    "at several loads, a higher one the best": runs.structured_run(2, 1, 4, slow=3.0),
    "nothing pays, but a class": runs.make_run(serving=runs.SERVING),
    "nothing pays on servers of one's own": runs.make_run(
        serving=replace(runs.SERVING, instance_type=None)
    ),
    "a run that failed": runs.structured_run(4, status="failed", reason="the deadline passed"),
    "a baseline alone": of_the_baseline(runs.structured_run(4, variants=(runs.BASELINE,))),
    "one endpoint, of no experiment": of_the_baseline(ALONE),
    "a search": make_search_run(),
    "a search without a candidate": replace(make_search_run(), search=NOTHING_MEASURED),
}


def test_each_decision_has_its_handover() -> None:
    snapshot_lines: list[str] = []
    first_lines: list[str] = []
    for name, run in HANDOVERS.items():
        document = handover_document(runs.make_facts(run))
        lines = [line for line in markdown_of(document).splitlines() if line]
        new_lines = [f"  {line}" for line in lines if line not in first_lines]
        snapshot_lines += [
            name,
            *new_lines,
            f"  and {len(lines) - len(new_lines)} lines of the first",
            "",
        ]
        first_lines = first_lines or lines
    assert_snapshot("\n".join(snapshot_lines), SNAPSHOTS / "handovers.txt")
