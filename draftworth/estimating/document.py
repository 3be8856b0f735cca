"""Forecasts as a document, as a report of a run is one: for the terminal and for a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from draftworth.analysis.pairing import TRAFFIC_MIX
from draftworth.analysis.statistics import Estimate
from draftworth.estimating.estimate import DraftEstimate
from draftworth.estimating.forecast import Answer, Range, WindowForecast
from draftworth.report.document import Card, Document, Section, Table, table
from draftworth.report.drawing import Plot, short
from draftworth.report.likelihoods import predicted_sections
from draftworth.report.search import Curve, Point, draw_curves
from draftworth.report.words import INTERVAL, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TONES = {"pays": "good", "cannot pay": "bad", "open": "open"}


def document_of(experiment: str, estimates: Sequence[DraftEstimate]) -> Document:
    """All loads of a draft, then what servers with it did; draft by draft."""
    sections: list[Section] = []
    numbered = enumerate(estimates, start=1)
    for draft, at_loads in groupby(numbered, key=lambda pair: pair[1].draft):
        own = list(at_loads)
        sections += [_section(estimate, index) for index, estimate in own]
        for section in predicted_sections(own[0][1].predictions):
            sections.append(replace(section, title=f"{section.title}: {draft}"))
    return Document(
        title=f"{experiment}: would speculation pay?",
        facts=(("status", "a forecast: no server with a draft was measured for it"),),
        attention=(),
        cards=tuple(_card(estimate.name, estimate.answer) for estimate in estimates),
        sections=tuple(sections),
    )


def _card(name: str, answer: Answer) -> Card:
    ratio = answer.about.cost_ratio
    return Card(
        label=name,
        judgement="to be measured" if answer.outcome == "open" else answer.outcome,
        tone=_TONES[answer.outcome],
        value=f"{ratio.low - 1:+.0%} to {ratio.high - 1:+.0%}",
        interval=f"in decoding alone, window {answer.about.window}",
    )


def _section(estimate: DraftEstimate, index: int) -> Section:
    read = (
        f"{_count(estimate.outputs, 'output')}, {_count(estimate.tokens, 'token')} after the first "
        f"of each, of which the draft would have said {estimate.hit_rate:.1%}. A step: "
        f"{estimate.step_cost_source}."
    )
    sentence = estimate.answer.sentence
    return Section(
        title=estimate.name,
        paragraphs=(f"{sentence[0].upper()}{sentence[1:]}.", *estimate.settling, read),
        tables=(*_cost_table(estimate.forecasts), *_yield_table(estimate.forecasts)),
        plots=(_plot(estimate, index),),
        brief=True,
    )


def _costs(forecast: WindowForecast) -> Mapping[str, Range]:
    """Of each class, and of several together first."""
    classes = forecast.class_cost_ratios
    return {TRAFFIC_MIX: forecast.cost_ratio, **classes} if len(classes) > 1 else classes


def _cost_table(forecasts: Sequence[WindowForecast]) -> tuple[Table, ...]:
    headings = [f"cost of a token, {name}" for name in _costs(forecasts[0])]
    rows = ((str(f.window), *map(_range, _costs(f).values())) for f in forecasts)
    return table(("window", *headings), rows, names=0)


def _yield_table(forecasts: Sequence[WindowForecast]) -> tuple[Table, ...]:
    """A step that costs 2 baseline steps has to yield 2 tokens: one column says both."""
    classes = forecasts[0].tokens_per_step
    rows = (
        (
            str(f.window),
            *(_interval(tokens) for tokens in f.tokens_per_step.values()),
            _range(f.step_cost),
            number(f.breaks_even_at, digits=2),
        )
        for f in forecasts
    )
    headings = (
        "window",
        *(f"tokens a step, {name}" for name in classes),
        "step cost = tokens a step to break even",
        "breaks even at a step cost of",
    )
    return table(headings, rows, names=0)


def _plot(estimate: DraftEstimate, index: int) -> Plot:
    return Plot(
        name=f"cost-over-window-{index:02d}",
        title=f"{short(estimate.name)}: {_finding(estimate.answer)}",
        caption="What a token costs, in what it costs without a draft (the line at 1), in decoding "
        "alone. Bars: from the cheapest step and the upper end of the tokens a step to the dearest "
        f"step and the lower end ({INTERVAL} over prompts); lines join their middles. "
        f"{_count(estimate.outputs, 'output')}.",
        draw=lambda axes: _draw(axes, estimate.forecasts),
    )


def _finding(answer: Answer) -> str:
    if answer.outcome == "cannot pay":
        return "no window pays"
    window, ratio = answer.about.window, answer.about.cost_ratio
    if answer.outcome == "pays":
        return f"window {window} saves {1 - ratio.high:.0%} to {1 - ratio.low:.0%}"
    return f"whether window {window} pays is to be measured"


def _draw(axes: Axes, forecasts: Sequence[WindowForecast]) -> None:
    drawn = (
        (name, [_point(forecast.window, _costs(forecast)[name]) for forecast in forecasts])
        for name in _costs(forecasts[0])
    )
    draw_curves(axes, [Curve(name=name, line=points, filled=points) for name, points in drawn])


def _point(window: int, cost: Range) -> Point:
    middle = math.sqrt(cost.low * cost.high)
    return Point(window=window, cost=middle, low=cost.low, high=cost.high)


def _count(number: int, of: str) -> str:
    return f"{number:,} {of}{'s' * (number != 1)}"


def _range(found: Range) -> str:
    return f"{found.low:.2f} to {found.high:.2f}"


def _interval(found: Estimate) -> str:
    interval = "" if found.low is None else f" ({found.low:.2f} to {found.high:.2f})"
    return f"{found.value:.2f}{interval}"
