"""The handover: what was decided for which traffic, what to watch, what is missing."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from draftworth.analysis.handover import handover_of
from draftworth.analysis.winner import NoWinnerError, winner_of
from draftworth.cli import main
from draftworth.records.load import ConcurrencyLoad
from draftworth.records.reading import Run, read_run
from draftworth.report.contents import document_of, handover_document
from draftworth.report.document import Section
from tests.conftest import ROOT
from tests.draftworth.report import runs
from tests.draftworth.report.searches import make_search_result, make_search_run
from tests.support.present import present
from tests.support.stream_server import Request, Step, completion, plain, stream_server

PROMPTS = ROOT / "prompts/structured/count.jsonl"


def page(run: Run) -> Section:
    (section,) = handover_document(runs.make_facts(run)).sections
    return section


def said(run: Run) -> str:
    return "\n".join(page(run).paragraphs)


def commands(run: Run) -> dict[str, str]:
    return {row[0]: row[1] for row in page(run).tables[-1].rows}


def test_a_winner_is_handed_over_with_draft_window_and_traffic() -> None:
    run = runs.structured_run(4)
    assert "Decision: serve k7: fused_draft, window 8, draft Qwen/Qwen3-1.7B." in said(run)
    measured, classes, *_ = page(run).tables
    facts = {row[0]: row[1] for row in measured.rows}
    assert facts["target model"] == "Qwen/Qwen3-32B"
    assert facts["instance"] == "trn2.48xlarge, 8 devices a server, tensor parallel 32, LNC 2"
    assert facts["temperature"] == "0 (greedy)"
    assert classes.rows == (("structured", "100%", "1", "8", "64 (64 to 64)", "100 (100 to 100)"),)
    assert "The longest request had 164 tokens, prompt and output, of 1,024" in said(run)
    found = commands(run)
    assert found["serve it"].startswith("python -m draftworth manifests FILE --winner RUN")
    again = found["measure it once more, with a higher rerun in FILE"]
    assert again == "make deploy EXPERIMENT=FILE"
    assert not any("`" in command for command in found.values())


def test_each_load_has_its_own_break_even_from_the_lowest_on() -> None:
    run = runs.structured_run(2, 1, 4, slow=3.0)
    found = handover_of(runs.make_facts(run)).break_evens
    assert [at.load.label for at in found] == ["c1", "c2", "c4"]
    needed = {at.load.label: at.needed.value for at in found if at.needed}
    assert needed["c1"] == needed["c4"] > 2 * needed["c2"]
    assert "Measured at c1, c2, c4: of other loads nothing is known." in said(run)


def test_the_live_figure_is_the_counters_or_without_them_a_probe() -> None:
    with_counters = runs.structured_run(4)
    without = replace(
        with_counters, blocks=tuple(replace(b, speculation=None) for b in with_counters.blocks)
    )
    assert "increase(vllm:spec_decode_num_accepted_tokens_total[1h])" in said(with_counters)
    assert "vllm:" not in said(without)
    assert "It has no counters of accepted tokens" in said(without)
    asked = commands(without)["ask a live server the same"]
    assert "--concurrency 4 --requests-per-case 8 --output-tokens 100 --fixed-length " in asked


def test_measure_takes_the_command_that_asks_a_live_server(tmp_path: Path) -> None:
    """Also at a concurrency above the requests that it sends by itself."""
    command = commands(runs.structured_run(16, temperature=0.5))["ask a live server the same"]
    with stream_server(_answer) as server:
        places = {
            "URL": server.base_url,
            "NAME": "m",
            "PROMPTS": str(PROMPTS),
            "runs": str(tmp_path),
        }
        code = main([places.get(word, word) for word in command.split()[3:]])

    assert code == 0
    asked = [json.loads(request.body) for request in server.requests if request.method == "POST"]
    assert {(a["ignore_eos"], a["temperature"]) for a in asked} == {(True, 0.5)}
    assert max(a["max_tokens"] for a in asked) == 100
    (folder,) = tmp_path.iterdir()
    assert {b.load.label for b in read_run(folder).blocks} == {"c16"}


def _answer(request: Request) -> Sequence[Step]:
    if request.method != "POST":
        return plain("200 OK", b"")
    return completion(50, 50) if request.json["max_tokens"] == 100 else completion(8)


def test_outputs_that_ended_by_themselves_may_do_so_again() -> None:
    run = runs.structured_run(4)
    first, *others = run.blocks
    ended = replace(first.requests[0], finish_reason="stop")
    natural = replace(first, requests=(ended, *first.requests[1:]))
    found = commands(replace(run, blocks=(natural, *others)))
    assert "--fixed-length" not in found["ask a live server the same"]


def test_of_prompts_that_were_brought_to_a_length_a_live_server_is_asked_others() -> None:
    load = ConcurrencyLoad(concurrency=4, input_tokens=512)
    run = runs.structured_run(4)
    blocks = tuple(replace(b, load=load) for b in run.blocks)
    found = commands(replace(run, blocks=blocks))
    assert "ask a live server nearly the same: prompts as they are" in found


def test_what_stands_for_something_else_in_a_command_is_explained() -> None:
    heading = page(runs.structured_run(4)).tables[-1].headings[1]
    for place in ("RUN", "OTHER", "FILE", "URL", "NAME", "PROMPTS"):
        assert f"{place}: " in heading


def test_where_nothing_pays_the_baseline_is_served_and_the_classes_that_do_are_told() -> None:
    text = said(runs.make_run())
    assert "Decision: serve without speculation." in text
    assert "structured cheaper per token (-41.3%), open_ended more expensive (+36.4%)" in text
    assert "Speculation pays for structured by itself" in text
    assert "Speculation would pay where a step yields more" in text
    assert "Watch" not in text
    assert "--winner RUN" in commands(runs.make_run(serving=runs.SERVING))["serve it"]
    local = replace(runs.SERVING, instance_type=None)
    assert "--image REPOSITORY:TAG" in commands(runs.make_run(serving=local))["serve it"]


ONE = "a speculative variant"


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        (
            {"status": "failed", "reason": "the deadline passed"},
            "a run that is complete: this one failed (the deadline passed). Next: measure again.",
        ),
        (
            {"variants": (runs.BASELINE,)},
            f"{ONE}, measured beside the baseline. Next: measure {ONE} beside a baseline.",
        ),
    ],
)
def test_where_nothing_is_decided_it_says_what_is_missing(
    changes: dict[str, Any], missing: str
) -> None:
    run = runs.structured_run(4, **changes)
    kept = tuple(b for b in run.blocks if b.variant in run.result.variants)
    text = said(replace(run, blocks=kept))
    start = f"There is nothing to hand over yet. What is missing: {missing}"
    assert text.split("\n")[0] == start
    assert "Decision" not in text


def test_one_round_gives_no_verdict_so_handover_and_winner_ask_for_the_same_next_step() -> None:
    run = runs.make_run(blocks=tuple(b for b in runs.make_run().blocks if b.round == 1))
    assert "What is missing: a verdict" in said(run)
    assert "No answer yet" in said(run)
    with pytest.raises(NoWinnerError) as refused:
        winner_of(runs.make_facts(run))
    step = str(refused.value).partition("next: ")[2]
    assert step.startswith("measure more")
    assert f"Next: {step}." in said(run)


def test_a_search_names_draft_and_window_and_what_to_do_before_serving() -> None:
    text = said(make_search_run())
    assert "Window 6 of hub/a: a token costs 40.0% less" in text
    assert "Next: measure window 6 of hub/a against the baseline" in text
    none = make_search_result(results=(), order=(), best="", failed={})
    run = replace(make_search_run(), search=none)
    assert "a candidate of the search, measured beside the baseline.\nNext: put right" in said(run)


def test_a_run_without_an_experiment_is_measured_again_as_it_was() -> None:
    run = runs.structured_run(4, variants=(runs.BASELINE,), class_weights={}, serving=None)
    blocks = tuple(b for b in run.blocks if b.variant == runs.BASELINE)
    found = commands(replace(run, blocks=blocks))
    again = found["measure it once more"]
    assert again.startswith("python -m draftworth measure --base-url URL")
    assert "--concurrency 4 " in again
    assert not any("FILE" in command for command in found.values())


def test_it_is_the_reports_last_section_where_something_was_to_be_decided() -> None:
    assert document_of(runs.make_facts(runs.make_run())).sections[-1].title == "Handover"
    blocks = tuple(b for b in runs.make_run().blocks if b.variant == runs.BASELINE)
    alone = document_of(runs.make_facts(runs.make_run(blocks=blocks, variants=(runs.BASELINE,))))
    assert "Handover" not in {section.title for section in alone.sections}


def test_the_break_even_is_what_a_step_costs_in_baseline_steps() -> None:
    """By the builder's own figures: 99 tokens in 17 whole chunks, and the means of 8 requests."""
    (at,) = handover_of(runs.make_facts(runs.structured_run(4))).break_evens
    needed = present(at.needed)
    step_s = 99 * (runs.STEP_S / runs.TOKENS_PER_STEP["structured"] + 3.5e-5) / 17
    assert needed.value == pytest.approx(step_s / (runs.PLAIN_ITL_S + 3.5e-4), rel=1e-3)
    assert present(needed.low) < needed.value < present(needed.high)
    assert at.measured == pytest.approx(runs.TOKENS_PER_STEP["structured"])
    assert at.judgement == "cheaper per token"


def test_tokens_a_step_of_a_mix_are_all_tokens_by_all_steps() -> None:
    (at,) = handover_of(runs.make_facts(runs.make_run())).break_evens
    assert at.by_class == pytest.approx(runs.TOKENS_PER_STEP)
    assert at.measured == pytest.approx(1 / (0.5 / 6.0 + 0.5 / 2.0))
