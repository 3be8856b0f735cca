"""What a reader sees first: what was measured, from what to what it goes, the decided verdict."""

from dataclasses import replace

import pytest

from draftworth.decision.facts import RunFacts, facts_of
from draftworth.records.run_folder import Run
from draftworth.report.contents import document_of
from draftworth.report.drawing import Plot
from draftworth.report.first_screen import cards, hardware_words, setting, speeds
from draftworth.report.words import loads_in_words
from tests.draftworth.report import runs
from tests.draftworth.report.states import STATES, facts_of_state
from tests.support.serving_facts import make_serving_facts

# Of the built run without a factor, if it serves by class.
FROM_BASELINE = "costs 21% less per token (20 to 22)"


def cost_plot(state: str) -> Plot:
    return next(p for p in document_of(facts_of_state(state)).plots if p.name == "cost")


def shown_speeds(facts: RunFacts) -> dict[str, tuple[str, ...]]:
    return {speed.unit: speed.values for speed in speeds(facts)}


def test_what_was_measured_is_in_words() -> None:
    assert dict(setting(facts_of_state("cheaper"))) == {
        "model": "Qwen/Qwen3-32B",
        "servers": "k7 against baseline",
        "date": "2026-11-20",
        "load": "4 requests at a time",
    }


@pytest.mark.parametrize(
    ("state", "load"),
    [
        ("ladder", "1, 2 and 4 requests at a time"),
        ("at a rate without limits", "2 requests per second"),
    ],
)
def test_every_load_is_in_words(state: str, load: str) -> None:
    assert dict(setting(facts_of_state(state)))["load"] == load


@pytest.mark.parametrize(
    ("labels", "in_words"),
    [
        (["c1"], "one request at a time"),
        (["p1", "p2.5"], "1 and 2.5 requests per second"),
        (["c4", "p2"], "4 at a time; 2 per second"),
        (["unknown", "c4"], "unknown; 4 at a time"),
    ],
)
def test_only_like_loads_share_their_words(labels: list[str], in_words: str) -> None:
    assert loads_in_words(labels) == in_words


def test_a_failed_run_says_what_it_has() -> None:
    facts = facts_of_state("failed run")
    assert [name for name, _ in setting(facts)] == ["servers", "date"]
    assert ([*speeds(facts)], [*cards(facts)]) == ([], [])


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({}, "trn2.48xlarge, 8 devices for each server"),
        ({"slot_devices": 1}, "trn2.48xlarge, 1 device for each server"),
        ({"instance_type": None, "slot_devices": None}, ""),
    ],
)
def test_hardware_is_named_where_recorded(overrides: dict[str, object], words: str) -> None:
    assert hardware_words(make_serving_facts(**overrides)) == words


def test_recorded_servers_are_in_the_setting() -> None:
    facts = runs.make_facts(runs.make_run(serving=make_serving_facts()))
    named = dict(setting(facts))
    assert named["servers"] == "k7 against baseline, on vLLM 0.9.1"
    assert named["hardware"].startswith("trn2.48xlarge")


def test_speeds_go_from_the_baseline_to_the_variant() -> None:
    assert shown_speeds(facts_of_state("cheaper")) == {
        "ms per token": ("10.3", "10.0"),
        "tokens per second": ("314", "536"),
    }


def test_by_class_speeds_are_of_classes_that_gain() -> None:
    facts = facts_of_state("more expensive")
    (first, _) = speeds(facts)
    assert (first.values, first.where) == (("10.3", "5.03"), "baseline → k7, structured")
    card, *_ = cards(facts)
    assert (card.label, card.tone) == ("structured with k7, the rest without speculation", "good")


@pytest.mark.parametrize(
    ("state", "note"),
    [
        ("more expensive", "than with the baseline for all"),
        (
            "no difference",
            f"than with the variant for all; {FROM_BASELINE} than with the baseline for all",
        ),
    ],
)
def test_by_class_costs_are_beside_the_baseline(state: str, note: str) -> None:
    card, *_ = cards(facts_of_state(state))
    assert card.note == note


def test_one_server_has_its_speed_alone() -> None:
    assert [*shown_speeds(facts_of_state("one server")).values()] == [("10.3",), ("314",)]


def test_the_decided_verdict_is_first() -> None:
    facts = facts_of_state("ladder")
    card, *_ = cards(facts)
    assert card.label == "traffic mix at one request at a time, k7"
    assert cost_plot("ladder").title.startswith(
        "traffic mix at one request at a time: k7 costs 41% less"
    )


@pytest.mark.parametrize(
    ("state", "title"),
    [
        ("more expensive", "k7 is proven cheaper for structured alone"),
        ("inconclusive", "traffic mix: k7 costs the same per token (no interval), not proven"),
        ("cheaper", "traffic mix: k7 costs 41% less per token (40 to 43)"),
    ],
)
def test_the_plot_says_no_more_than_the_decision(state: str, title: str) -> None:
    assert cost_plot(state).title == title


@pytest.mark.parametrize(
    ("state", "counts"),
    [
        ("ladder", "traffic mix 32 pairs of requests with 16 prompts."),
        ("inconclusive", "traffic mix 8 pairs of requests, structured 4 pairs of requests, "),
    ],
)
def test_counts_are_neither_repeated_nor_zero(state: str, counts: str) -> None:
    assert cost_plot(state).caption.split("Measured: ")[1].startswith(counts)


@pytest.mark.parametrize("state", STATES)
def test_several_tables_of_a_section_have_titles(state: str) -> None:
    for section in document_of(facts_of_state(state)).sections:
        titles = [table.title for table in section.tables]
        assert len(titles) < 2 or all(titles)
        assert len({*titles}) == len(titles)


@pytest.mark.parametrize("state", STATES)
def test_no_load_is_named_by_its_label(state: str) -> None:
    document = document_of(facts_of_state(state))
    labels = {group.group.load.label for group in facts_of_state(state).groups}
    cells = {
        cell
        for section in document.sections
        for table in section.tables
        for row in table.rows
        for cell in row
    }
    sentences = " ".join(p for section in document.sections for p in section.paragraphs)
    assert not labels & (cells | {*sentences.replace(",", " ").replace(":", " ").split()})


def test_llmperfs_column_is_of_its_own_runs() -> None:
    headings = {
        sender: str(
            [
                table.headings
                for section in document_of(facts_of(sent_by(sender), {})).sections
                for table in section.tables
            ]
        )
        for sender in ("asyncio", "llmperf")
    }
    assert "llmperf" in headings["llmperf"]
    assert "llmperf" not in headings["asyncio"]


def sent_by(sender: str) -> Run:
    run = runs.make_run()
    return replace(
        run, result=runs.make_run_result(blocks=run.result.blocks, load_generator=sender)
    )
