"""The section of a report on all prompts of a log, of which the run measured a few."""

from collections.abc import Iterator

from draftworth.decision.all_traffic import AllTraffic
from draftworth.decision.facts import RunFacts
from draftworth.errors import counted
from draftworth.report import words
from draftworth.report.document import Section, table
from draftworth.report.words import ABOUT, INTERVAL


def all_traffic_sections(facts: RunFacts) -> Iterator[Section]:
    """Yield the section with a sentence and a row for each variant and load.

    None is yielded without the record of a choice.
    """
    if not facts.all_traffic:
        return
    rows = (
        (
            *(v.comparison.traffic.load.cell, v.comparison.name, str(v.judgement)),
            *words.change_cells(v.ratio.cost_ratio),
            words.change_interval(v.ratio.without_forecast),
            str(v.ratio.measured),
        )
        for v in facts.all_traffic
    )
    headings = ("load", "variant", "verdict", "cost of a token", INTERVAL, "without the forecast")
    yield Section(
        title="All logged traffic",
        paragraphs=(*map(all_traffic_sentence, facts.all_traffic), ABOUT["all_traffic"]),
        tables=table((*headings, "measured prompts"), rows, names=3),
        is_asked_for=True,
    )


def all_traffic_sentence(verdict: AllTraffic) -> str:
    """Say what all logged prompts cost, and by how much the forecast made the interval narrower."""
    comparison, ratio = verdict.comparison, verdict.ratio
    logged, cost = ratio.logged, ratio.cost_ratio
    return (
        f"{comparison.name} at {comparison.traffic.load.words}, for all "
        f"{counted(logged.prompts, 'logged prompt')} ({logged.tokens:,} output tokens), from "
        f"{ratio.measured} measured ones: {verdict.judgement}, "
        f"{words.cost_phrase(cost.value, cost.low, cost.high)}{_gain(verdict)}."
    )


def _gain(verdict: AllTraffic) -> str:
    width = verdict.ratio.cost_ratio.relative_width
    without = verdict.ratio.without_forecast.relative_width
    if width is None or without is None:
        return ""
    change = round(100 * (1 - width / without))
    if change <= 0:
        return "; the forecast made the interval no narrower"
    return f"; without the forecast the interval would be {without:.1%} wide, with it {width:.1%}"
