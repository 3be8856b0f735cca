"""The section of prompts says which gain and which lose; outputs are text and never markup."""

from dataclasses import replace

import numpy as np
import pytest

from draftworth.decision.facts import RunFacts, facts_of
from draftworth.records.transcripts import Transcript
from draftworth.report.by_prompt_section import MOST_NAMES, TITLE, by_prompt_sections
from draftworth.report.contents import document_of
from draftworth.report.document import FOLDED_EXAMPLE, LONGEST_EXAMPLE, Example, Section
from draftworth.report.drawing import render
from draftworth.report.writing import markdown_of
from tests.draftworth.report.pages import page_of
from tests.draftworth.report.plots import drawn_small
from tests.draftworth.report.runs import make_facts, make_run
from tests.draftworth.report.states import facts_of_state, many_prompts
from tests.support.pages import HOSTILE


def with_texts(text: str) -> RunFacts:
    run = make_run()
    ids = [record.request_id for block in run.blocks for record in block.requests]
    return facts_of(run, {name: Transcript(request_id=name, text=text) for name in ids})


def section_of(facts: RunFacts) -> Section:
    (section,) = by_prompt_sections(facts)
    return section


def test_the_plot_counts_who_gains_and_loses() -> None:
    (plot,) = section_of(facts_of_state("no difference")).plots
    assert plot.title == "k7: 8 of 16 prompts cost less per token, 8 more"


@pytest.mark.parametrize(
    ("ratios", "counts"),
    [
        ([0.5, 0.5], "all 2 prompts cost less per token"),
        ([1.0, 2.0], "1 of 2 prompts cost more per token, 1 the same"),
        ([0.5, 1.0, 2.0], "1 of 3 prompts cost less per token, 1 more, 1 the same"),
    ],
)
def test_no_prompt_is_not_counted(ratios: list[float], counts: str) -> None:
    facts = facts_of_state("no difference")
    costs = [replace(facts.prompt_costs[0], cost_ratio=ratio) for ratio in ratios]
    (plot,) = section_of(replace(facts, prompt_costs=tuple(costs), example_outputs=())).plots
    assert plot.title == f"k7: {counts}"


def test_prompts_are_drawn_sorted_with_their_names() -> None:
    (plot,) = section_of(facts_of_state("no difference")).plots
    with drawn_small() as drawn:
        render(plot)
    axes = drawn[0].axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    points = [[*np.atleast_1d(line.get_xdata())] for line in axes.lines]
    drawn_at = [xs[0] for xs in points if len(xs) == 1]
    assert (len(names), names[0]) == (16, "count/prompt-7")
    assert drawn_at == sorted(drawn_at)


def test_many_prompts_have_no_room_for_names() -> None:
    facts = make_facts(many_prompts())
    assert len(facts.prompt_costs) > MOST_NAMES
    with drawn_small() as drawn:
        render(section_of(facts).plots[0])
    assert not drawn[0].axes[0].get_yticklabels()


def test_the_examples_say_what_they_show() -> None:
    first, last = section_of(with_texts("an answer")).examples
    assert first.title.startswith("The prompt that gains most: structured, count/prompt-7: a token")
    assert last.title.startswith("The prompt that loses most: open_ended, ")
    assert {first.text, last.text} == {"an answer"}


def test_where_all_gain_the_last_gains_least() -> None:
    facts = with_texts("an answer")
    cheap = [replace(cost, cost_ratio=0.5) for cost in facts.prompt_costs]
    examples = [replace(e, of=c) for e, c in zip(facts.example_outputs, cheap, strict=False)]
    facts = replace(facts, prompt_costs=tuple(cheap), example_outputs=tuple(examples))
    titles = [example.title for example in section_of(facts).examples]
    assert ["gains most" in titles[0], "gains least" in titles[1]] == [True, True]


@pytest.mark.parametrize(
    "facts", [facts_of_state("at a rate without limits"), facts_of_state("one server")]
)
def test_without_a_cost_no_prompt_is_shown(facts: RunFacts) -> None:
    assert [*by_prompt_sections(facts)] == []


def test_an_output_is_text_on_the_page() -> None:
    page = page_of(document_of(with_texts(f"{HOSTILE}\x1b[2J")))
    assert TITLE in page
    assert "<script" not in page
    assert "x1b" in page
    assert "<script" not in markdown_of(document_of(with_texts(HOSTILE)))


def test_a_long_output_is_folded_and_cut() -> None:
    long, brief = Example(title="", text="x" * 3000), Example(title="", text="x" * 9)
    assert (long.beginning, brief.beginning) == ("x" * FOLDED_EXAMPLE, "")
    assert (long.cut_text, brief.cut_text) == (f"{'x' * LONGEST_EXAMPLE}…", "x" * 9)
    page = page_of(document_of(with_texts("y" * 3000)))
    assert f"<summary>{'y' * FOLDED_EXAMPLE}…</summary>" in page
    assert "y" * (LONGEST_EXAMPLE + 1) not in page
