"""Estimates as a document, with the conclusion first and names escaped, and as JSON."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from draftworth.analysis.acceptance import acceptance_of
from draftworth.errors import UserInputError
from draftworth.estimate.estimate_document import document_of, json_text
from draftworth.estimate.forecast import DraftEstimate
from draftworth.estimate.step_cost_sources import CostRange, StepCosts
from draftworth.report.document import Document, document_lines
from draftworth.report.writing import write_page
from tests.support.pages import HOSTILE, Tags
from tests.support.predictions import prediction
from tests.support.readings import make_reading
from tests.support.snapshot import assert_snapshot

PREDICTED = prediction(
    prompt_class="chat", requests=1, predicted=2.0, measured=2.0, shown=1, same_sequence=1
)


def estimate(draft: str, load: str | None, *, outputs: int = 1) -> DraftEstimate:
    readings = [make_reading("110", id=str(n), prompt_id=str(n)) for n in range(outputs)]
    costs = StepCosts(by_window={3: CostRange(low=1.1, high=1.2)}, source="measured", load=load)
    return DraftEstimate(
        target="target",
        tokenizer="models/target",
        method="draft_model",
        draft=draft,
        acceptance=acceptance_of(readings, [3]),
        weights={"chat": 1.0},
        windows={3: 3},
        step_costs=costs,
        hit_rate=2 / 3,
        predictions=(PREDICTED,),
    )


def with_classes(draft_estimate: DraftEstimate, *names: str) -> DraftEstimate:
    """The estimate with other prompt classes, which all have its tokens per step."""
    acceptance = dict.fromkeys(names, *draft_estimate.acceptance.values())
    return replace(draft_estimate, acceptance=acceptance, weights=dict.fromkeys(names, 1.0))


def test_the_sentence_precedes_each_drafts_details() -> None:
    first = replace(estimate("a", "c1", outputs=2), settling=("What an hour settles.",))
    more_estimates = (estimate("a", "c4"), with_classes(estimate("b", None), "chat", "code"))
    text = "\n".join(document_lines(document_of("x", [first, *more_estimates])))
    assert_snapshot(f"{text}\n", Path(__file__).parent / "snapshots" / "estimate.txt")


def written(document: Document, folder: Path) -> str:
    write_page(document, folder / "deep" / "page.html")
    return (folder / "deep" / "page.html").read_text()


@pytest.mark.parametrize(
    ("low", "high", "tone", "value", "finding"),
    [
        (0.4, 0.5, "good", "50 to 60% less", "with window 3 a token costs 50 to 60% less"),
        (1.405, 1.495, "bad", "40 to 50% more", "no window pays"),
        (0.5, 1.5, "open", "50% less to 50% more", "whether window 3 pays is to be measured"),
    ],
)
def test_the_answer_at_a_glance(
    low: float, high: float, tone: str, value: str, finding: str
) -> None:
    # Each step yields three tokens, so a step that costs 3 x `low` gives the cost ratio `low`.
    costs = StepCosts(by_window={3: CostRange(low=3 * low, high=3 * high)}, source="", load="c1")
    draft_estimate = replace(estimate("a", "c1"), step_costs=costs)

    document = document_of("x", [draft_estimate])

    assert document.cards[0].tone == tone
    assert document.cards[0].value == value
    assert document.plots[0].title == f"a at one request at a time: {finding}"


def test_pays_is_green_once_its_step_was_measured() -> None:
    """Published step costs leave an if, which is not green; a card's own are measured."""
    (published,) = document_of("x", [estimate("a", None)]).cards
    (measured,) = document_of("x", [estimate("a", "c1")]).cards
    condition = "pays unless a step costs over 3.0 without a draft"
    assert (published.judgement, published.tone) == (condition, "open")
    assert (measured.judgement, measured.tone) == ("pays", "good")


def test_the_page_says_its_title_once(tmp_path: Path) -> None:
    page = written(document_of("x", [estimate("a", "c1")]), tmp_path)
    assert page.partition("<body>")[2].count("x: would speculation pay?") == 1


def test_a_cost_is_the_same_figure_everywhere() -> None:
    document = document_of("x", [estimate("a", "c1")])
    section, figure = document.sections[0], "60 to 64% less"
    assert document.cards[0].value == figure
    assert figure in section.paragraphs[0]
    assert figure in section.plots[0].title
    assert section.tables[0].rows[0][1] == figure


def test_the_page_embeds_every_plot_and_escapes_names(tmp_path: Path) -> None:
    draft_estimate = with_classes(estimate(HOSTILE, HOSTILE), HOSTILE, "chat")
    document = document_of(HOSTILE, [draft_estimate, replace(draft_estimate, draft="other")])

    page = written(document, tmp_path)

    elements = Tags(page).elements
    assert len([tag for tag, _ in elements if tag == "img"]) == len(document.plots) == 2
    assert len({plot.name for plot in document.plots}) == 2
    assert not {tag for tag, _ in elements} & {"script", "link", "iframe", "object"}
    addresses = [
        attributes.get(name) for _, attributes in elements for name in ("src", "srcset", "href")
    ]
    assert any(addresses)
    assert all((address or "#").startswith(("data:image/png;", "#")) for address in addresses)
    assert not any(name.startswith("on") for _, attributes in elements for name in attributes)


def test_an_unwritable_page_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match=r"cannot be written: .*; give another file"):
        write_page(document_of("x", [estimate("a", None)]), tmp_path)


def test_json_distinguishes_drafts_in_folders_of_one_name() -> None:
    document = json.loads(json_text([estimate("a/draft", "c1"), estimate("b/draft", "c1")]))
    estimates = document["estimates"]

    assert document["schema"] == "draftworth.estimate/1"
    assert [(d["target"], d["draft"], d["draft_folder"], d["load"]) for d in estimates] == [
        ("target", "draft", "a/draft", "c1"),
        ("target", "draft", "b/draft", "c1"),
    ]
    (window,) = estimates[0]["windows"]
    assert window["class_cost_ratios"] == {"chat": window["cost_ratio"]}
    assert estimates[0]["windows_to_measure"] == []
    assert (window["window"], window["drafts_checked"]) == (3, 3)
