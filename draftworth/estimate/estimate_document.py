"""Writes estimates as a document, for a terminal or an HTML page, and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from draftworth.analysis.pairing import TRAFFIC_MIX
from draftworth.errors import counted
from draftworth.estimate.forecast import Conclusion, DraftEstimate, WindowForecast
from draftworth.estimate.step_cost_sources import CostRange
from draftworth.experiment.catalog import NGRAM
from draftworth.records.acceptance_profile import Measured
from draftworth.report import document, drawing, likelihood_tables
from draftworth.report.percent import spoken_changes
from draftworth.report.search_report import Curve, Point, draw_curves
from draftworth.report.words import INTERVAL, Prose, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TONES = {"pays": "good", "cannot pay": "bad", "open": "open"}


def document_of(experiment: str, estimates: Sequence[DraftEstimate]) -> document.Document:
    """Return a document of estimates, with each draft's predicted and measured tokens per step.

    experiment: its name, for the title. estimates: one for each draft at each load, with all
    estimates of one draft next to each other.
    """
    sections: list[document.Section] = []
    numbered = enumerate(estimates, start=1)
    for draft, at_loads in groupby(numbered, key=lambda pair: pair[1].draft):
        estimates_of_draft = list(at_loads)
        sections += [_section(estimate, index) for index, estimate in estimates_of_draft]
        for section in likelihood_tables.predicted_sections(estimates_of_draft[0][1].predictions):
            sections.append(replace(section, title=f"{section.title}: {draft}"))
    measured = any(e.step_costs.load for e in estimates)
    steps = "measured on servers with a draft" if measured else "published, not measured"
    basis = "acceptance that was given" if estimates[0].source else "outputs that were read"
    return document.Document(
        title=f"{experiment}: would speculation pay?",
        setting=(
            ("model", ", ".join(dict.fromkeys(e.target for e in estimates))),
            ("forecast", f"by {basis}; step costs are {steps}"),
        ),
        facts=(),
        attention=(),
        cards=tuple(_card(estimate.name, estimate.conclusion) for estimate in estimates),
        sections=tuple(sections),
    )


def _card(name: str, conclusion: Conclusion) -> document.Card:
    ratio = conclusion.about.cost_ratio
    # Green is for what was measured: as long as no step of the window was, that it pays is an if.
    unless = conclusion.outcome == "pays" and not conclusion.about.is_measured
    judgement = "to be measured" if conclusion.outcome == "open" else conclusion.outcome
    most = f"pays unless a step costs over {conclusion.about.breaks_even_at:.1f} without a draft"
    return document.Card(
        label=name,
        judgement=most if unless else judgement,
        tone="open" if unless else _TONES[conclusion.outcome],
        value=spoken_changes((ratio.low, ratio.high)),
        note=f"cost of a token in decoding alone, window {conclusion.about.window}",
    )


def _section(estimate: DraftEstimate, index: int) -> document.Section:
    rate = estimate.hit_rate
    hits = "" if rate is None else f", of which the draft would have said {rate:.1%}"
    tokens = (
        f", {counted(estimate.tokens, 'token')} of the tokenizer in {estimate.tokenizer} after the "
        f"first of each{hits}"
    )
    read = f"{_source(estimate)}{'' if estimate.source else tokens}. A step: "
    read += f"{estimate.step_costs.source}."
    sentence = estimate.conclusion.sentence
    return document.Section(
        title=estimate.name,
        paragraphs=(f"{sentence[0].upper()}{sentence[1:]}.", *map(Prose, estimate.settling), read),
        tables=(*_cost_table(estimate.forecasts), *_yield_table(estimate.forecasts)),
        plots=(_plot(estimate, index),),
    )


def _source(estimate: DraftEstimate) -> str:
    return estimate.source or counted(estimate.outputs, "output")


def _costs(forecast: WindowForecast) -> Mapping[str, CostRange]:
    """Return the cost ratio of each prompt class.

    If there are several classes, the first entry is the ratio of the traffic mix: of all classes
    together, by their shares of the traffic.
    """
    classes = forecast.class_cost_ratios
    return {TRAFFIC_MIX: forecast.cost_ratio, **classes} if len(classes) > 1 else classes


def _cost_table(forecasts: Sequence[WindowForecast]) -> tuple[document.Table, ...]:
    headings = [f"cost of a token, {name}" for name in _costs(forecasts[0])]
    rows = (
        (str(f.window), *(spoken_changes((cost.low, cost.high)) for cost in _costs(f).values()))
        for f in forecasts
    )
    return document.table(("window", *headings), rows, names=0, title="Cost, beside no draft")


def _yield_table(forecasts: Sequence[WindowForecast]) -> tuple[document.Table, ...]:
    # A step that costs as much as 2 baseline steps breaks even if it yields 2 tokens, so one column
    # shows both numbers.
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
        *(f"tokens per step, {name}" for name in classes),
        "step cost = tokens per step to break even",
        "breaks even at a step cost of",
    )
    return document.table(headings, rows, names=0, title="Tokens per step and step costs")


def _plot(estimate: DraftEstimate, index: int) -> drawing.Plot:
    return drawing.Plot(
        name=f"cost-over-window-{index:02d}",
        title=f"{drawing.short(estimate.name)}: {_finding(estimate.conclusion)}",
        caption="Cost of a token in decoding alone, in units of its cost without a draft (the line "
        "at 1). Bars go from the cheapest step and the upper end of the tokens per step to the "
        f"most expensive step and the lower end ({INTERVAL} over prompts); lines join their "
        f"middles. {_source(estimate)}.",
        draw=lambda axes: _draw(axes, estimate.forecasts),
    )


def _finding(conclusion: Conclusion) -> str:
    if conclusion.outcome == "cannot pay":
        return "no window pays"
    window, ratio = conclusion.about.window, conclusion.about.cost_ratio
    if conclusion.outcome == "pays":
        return f"with window {window} a token costs {spoken_changes((ratio.low, ratio.high))}"
    return f"whether window {window} pays is to be measured"


def _draw(axes: Axes, forecasts: Sequence[WindowForecast]) -> None:
    drawn = (
        (name, [_point(forecast.window, _costs(forecast)[name]) for forecast in forecasts])
        for name in _costs(forecasts[0])
    )
    draw_curves(axes, [Curve(name=name, line=points, filled=points) for name, points in drawn])


def _point(window: int, cost: CostRange) -> Point:
    middle = math.sqrt(cost.low * cost.high)
    return Point(window=window, cost=middle, low=cost.low, high=cost.high)


def _range(cost: CostRange) -> str:
    return f"{cost.low:.2f} to {cost.high:.2f}"


def _interval(measured: Measured) -> str:
    interval = "" if measured.low is None else f" ({measured.low:.2f} to {measured.high:.2f})"
    return f"{measured.value:.2f}{interval}"


def json_text(estimates: Sequence[DraftEstimate]) -> str:
    """Return the estimates as a JSON document (docs/json.md)."""
    document = {"schema": "draftworth.estimate/1", "estimates": [*map(_as_json, estimates)]}
    return json.dumps(document, indent=2)


def _as_json(estimate: DraftEstimate) -> dict[str, object]:
    return {
        "target": estimate.target,
        "method": estimate.method,
        "draft": None if estimate.method == NGRAM else Path(estimate.draft).name,
        "draft_folder": None if estimate.method == NGRAM else estimate.draft,
        "load": estimate.step_costs.load,
        "answer": estimate.conclusion.sentence,
        "windows_to_measure": estimate.conclusion.to_measure,
        "settling": estimate.settling,
        "source": estimate.source or None,
        "tokenizer_folder": estimate.tokenizer or None,
        "outputs": estimate.outputs,
        "tokens": estimate.tokens,
        "hit_rate": estimate.hit_rate,
        "step_cost_source": estimate.step_costs.source,
        "predictions": [{**vars(a), "difference": a.difference} for a in estimate.predictions],
        "windows": [
            {
                "window": f.window,
                "drafts_checked": f.checked,
                "step_cost": vars(f.step_cost),
                "cost_ratio": vars(f.cost_ratio),
                "class_cost_ratios": {n: vars(r) for n, r in f.class_cost_ratios.items()},
                "breaks_even_at_step_cost": f.breaks_even_at,
                "tokens_per_step": {name: vars(t) for name, t in f.tokens_per_step.items()},
            }
            for f in estimate.forecasts
        ],
    }
