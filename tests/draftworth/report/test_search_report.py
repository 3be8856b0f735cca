"""What the report of a search shows, from the file in the run's folder to the page."""

from dataclasses import replace
from pathlib import Path

import pytest

from draftworth.analysis.pooling import NotPooledError, pooled
from draftworth.cli import main
from draftworth.errors import UserInputError
from draftworth.records.run_folder import Run, read_run
from draftworth.records.search_result import Candidate, SearchResult
from draftworth.report.contents import document_of
from draftworth.report.document import Section, Table
from draftworth.report.drawing import render
from draftworth.report.run_differences import not_pooled_words
from draftworth.report.search_report import Curve, Point, draw_curves, search_sections
from draftworth.report.search_sentences import search_answer
from draftworth.report.writing import markdown_of
from tests.draftworth.report.pages import PNG_SIGNATURE, SNAPSHOTS, page_of
from tests.draftworth.report.runs import make_facts, make_run, write_run
from tests.draftworth.report.searches import (
    ORDER,
    make_candidate_result,
    make_search,
    make_search_result,
    make_search_run,
    write_search,
)
from tests.support.blocks import make_price
from tests.support.pages import HOSTILE, Tags
from tests.support.snapshot import assert_snapshot


def section_of(result: SearchResult | None = None) -> Section:
    (section,) = search_sections(make_facts(make_search_run(result)))
    return section


def column(table: Table, heading: str) -> list[str]:
    return [row[table.headings.index(heading)] for row in table.rows]


def test_cards_are_the_best_candidates_verdicts_are_all() -> None:
    document = document_of(make_facts(make_search_run()))
    (verdict,) = (section for section in document.sections if section.title == "Verdict")

    assert len(document.cards) == 3
    assert all(", a-k6" in card.label for card in document.cards)
    assert set(column(verdict.tables[0], "variant")) == {"a-k4", "a-k6", "b-k4"}


def test_markdown_of_a_search() -> None:
    price = make_price(node_shares=dict.fromkeys(("baseline", *ORDER), 0.25))
    facts = make_facts(make_search_run(price=price))
    document = replace(document_of(facts), sections=tuple(search_sections(facts)))
    assert_snapshot(markdown_of(document), SNAPSHOTS / "search.md")


def test_one_class_has_one_curve_and_cost_column() -> None:
    results = tuple(
        replace(r, cost_by_class={"structured": 0.6}, tokens_per_step={"structured": 3.0})
        for r in make_search_result().results
    )
    section = section_of(make_search_result(results=results))

    assert [plot.title.split(":")[0] for plot in section.plots] == ["structured"]
    assert section.tables[0].headings.count("cost, structured") == 0


def test_the_curves_are_drawn_in_both_themes() -> None:
    for plot in section_of().plots:
        assert render(plot).startswith(PNG_SIGNATURE)


def test_a_search_without_results_has_no_tables() -> None:
    none = make_search_result(results=(), order=(), best="", expected_to_pay=False, sureness=0.0)
    section = section_of(none)

    assert (section.tables, section.plots) == ((), ())
    assert section.paragraphs[0].startswith("The search has measured no candidate")


def test_names_and_reasons_are_text_and_never_markup() -> None:
    candidates = tuple(replace(c, draft=f"{c.draft}{HOSTILE}") for c in make_search().candidates)
    result = make_search_result(
        search=make_search(candidates=candidates), failed={HOSTILE: HOSTILE}
    )
    document = document_of(make_facts(make_search_run(result)))
    page = page_of(document)

    assert "script" not in {tag for tag, _ in Tags(page).elements}
    assert "hub/a&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("low", "high", "fewest"), [(0.55, 1.05, 3), (0.96, 1.02, 3), (0.25, 4.0, 5)]
)
def test_the_axis_has_numbers_for_close_costs(low: float, high: float, fewest: int) -> None:
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    points = [Point(window=n, cost=cost, low=cost, high=cost) for n, cost in ((2, low), (3, high))]
    draw_curves(axes, [Curve(name="a", line=points, filled=points)])

    bottom, top = axes.get_ylim()
    assert len([tick for tick in axes.get_yticks() if bottom <= tick <= top]) >= fewest


def test_a_search_of_another_run_is_refused(tmp_path: Path) -> None:
    folder = write_search(tmp_path / "run", make_search_result(run_id="another"))

    with pytest.raises(UserInputError, match="a search of run 'another', not of built-run"):
        read_run(folder)


def named_run(name: str, *, is_search: bool) -> Run:
    run = make_search_run(run_id=name)
    return run if is_search else replace(run, search=None)


def test_a_search_is_never_pooled() -> None:
    for one, other in ((True, False), (False, True)):
        runs = [named_run("x", is_search=one), named_run("y", is_search=other)]
        with pytest.raises(NotPooledError) as refused:
            pooled(runs)
        words = not_pooled_words(refused.value.why)
        assert "is a search, among several, allowed: a search" in words
    assert pooled([named_run("x", is_search=False), named_run("y", is_search=False)]).is_pool


def test_a_search_stands_beside_another_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_search(tmp_path / "run")
    other = write_run(make_run(run_id="other", experiment="other"), tmp_path / "other")

    for runs in ([folder, other], [other, folder]):
        assert main(["report", str(runs[0]), "--against", str(runs[1])]) == 0
    assert "a-k6" in capsys.readouterr().out


def test_a_candidate_without_draft_model_shows_its_window() -> None:
    search = make_search(candidates=(Candidate(variant="a-k6", draft="", window=6, checked=6),))
    result = make_search_result(search=search, results=(make_candidate_result("a-k6"),), order=())

    assert search_answer(result).startswith("Window 6: a token costs 40.0% less")
