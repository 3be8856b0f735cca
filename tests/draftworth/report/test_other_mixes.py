"""The section on other mixes and other prices: its sentences and its plots."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from draftworth.analysis.sensitivity import SHARES
from draftworth.decision.facts import RunFacts
from draftworth.decision.judged_anew import Choices, judged_anew
from draftworth.report.contents import document_of
from draftworth.report.document import Section
from draftworth.report.drawing import Plot, render
from draftworth.report.other_mixes import TITLE, other_mixes_sections
from tests.draftworth.report import runs
from tests.draftworth.report.pages import PNG_SIGNATURE
from tests.draftworth.report.plots import drawn_small
from tests.draftworth.report.states import facts_of_state, with_factor

# What the section says of each run in `STATES`: first of shares, then of prices.
OF_SHARES = {
    "no difference": "while at least 47% (45 to 49) of tokens are structured",
    "cheaper": "whatever the share of structured",
    "inconclusive": "while at least 50% (no interval) of tokens are structured",
}
OF_PRICES = {
    "no difference": "1.03 times the price of the baseline's server (1.01 to 1.04)",
    "cheaper": "1.71 times the price of the baseline's server (1.69 to 1.73)",
    "inconclusive": "1.00 times the price of the baseline's server (no interval)",
}


def section_of(facts: RunFacts) -> Section:
    (section,) = other_mixes_sections(facts)
    return section


@pytest.mark.parametrize("state", OF_SHARES)
def test_the_break_evens_are_said_with_their_intervals(state: str) -> None:
    section = section_of(facts_of_state(state))
    titles = [
        f"k7 at 4 requests at a time costs less per token {OF_SHARES[state]}",
        f"k7 in traffic mix at 4 requests at a time costs less per token up to {OF_PRICES[state]}",
    ]
    assert [plot.title for plot in section.plots] == titles
    assert [*section.paragraphs[:-1]] == [f"{title}." for title in titles]


def test_unproven_savings_at_a_share_are_marked() -> None:
    # With a share of 0% of structured, a token costs 0.5% less than with the baseline, which is too
    # little for the interval to show.
    sentence = section_of(runs.make_facts(with_factor(1.27465 / 1.738465 * 0.995))).paragraphs[0]
    assert sentence == (
        "k7 at 4 requests at a time costs less per token whatever the share of structured "
        "(not shown for each)."
    )


def test_a_variant_may_cost_more_at_every_share() -> None:
    sentence = section_of(runs.make_facts(with_factor(2.0))).paragraphs[0]
    assert (
        sentence
        == "k7 at 4 requests at a time costs more per token whatever the share of structured."
    )


def test_a_class_that_loses_has_a_greatest_share() -> None:
    blocks = tuple(sorted(runs.make_run().blocks, key=lambda block: block.prompt_class))
    weights = {"open_ended": 0.5, "structured": 0.5}
    sentence = section_of(
        runs.make_facts(runs.make_run(blocks=blocks, class_weights=weights))
    ).paragraphs[0]
    assert "while at most 53% (51 to 55) of tokens are open_ended" in sentence


def points_of(plot: Plot) -> dict[str, np.ndarray]:
    """Return the drawn points (x, y) by marker; the curve's marker is `None`."""
    axes = Figure().add_subplot()
    plot.draw(axes)
    lines = sorted(axes.lines, key=lambda line: len(np.asarray(line.get_xydata())))
    return {str(line.get_marker()): np.asarray(line.get_xydata()) for line in lines}


@pytest.mark.parametrize("state", OF_SHARES)
def test_plots_mark_the_judged_mix_and_break_even(state: str) -> None:
    by_share, by_price = section_of(facts_of_state(state)).plots
    for plot, judged, count in ((by_share, 50.0, len(SHARES)), (by_price, 1.0, 3)):
        points = points_of(plot)
        assert points["o"][0][0] == judged
        assert len(points["None"]) == count
        assert ("D" in points) is not (plot is by_share and state == "cheaper")
        with drawn_small():
            assert render(plot).startswith(PNG_SIGNATURE)


def test_a_chosen_mix_is_marked_on_the_curves() -> None:
    prices = {runs.BASELINE: 2.0, runs.VARIANT: 3.0}
    weights = {"structured": 3.0, "open_ended": 1.0}
    run = judged_anew(runs.make_run(), Choices(class_weights=weights, usd_per_hour=prices))
    by_share, by_price = map(points_of, section_of(runs.make_facts(run)).plots)
    before, _ = map(points_of, section_of(runs.make_facts()).plots)
    assert by_share["o"][0][0] == pytest.approx(75.0)
    assert by_price["o"][0][0] == pytest.approx(1.5)
    # At every share a token costs 1.5 times as much as before; the y axis is the difference in per
    # cent from the baseline.
    assert 100 + by_share["None"][:, 1] == pytest.approx(1.5 * (100 + before["None"][:, 1]))


@pytest.mark.parametrize("state", ["one server", "failed run"])
def test_without_a_comparison_there_is_no_section(state: str) -> None:
    sections = document_of(facts_of_state(state)).sections
    assert TITLE not in [section.title for section in sections]


def test_one_class_has_the_plot_of_prices_alone() -> None:
    run = runs.structured_run(4)
    assert [plot.name for plot in section_of(runs.make_facts(run)).plots] == ["cost-by-price"]
