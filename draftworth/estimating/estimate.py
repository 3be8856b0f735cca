"""What came of a draft: its forecasts, in the terminal and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from draftworth.analysis.statistics import Estimate
from draftworth.estimating.acceptance import hit_rate, yields
from draftworth.estimating.forecast import Range, StepCosts, WindowForecast, answer, forecast
from draftworth.records.predictions import Prediction
from draftworth.records.readings import Reading
from draftworth.terminal import table_lines


@dataclass(frozen=True, kw_only=True)
class DraftEstimate:
    """What came of one draft at one load.

    draft: its folder. load: that the step costs were measured at; None: at none.
    predictions: beside what servers with this draft did, where the outputs are of a run with some.
    """

    draft: str
    load: str | None
    outputs: int
    tokens: int
    hit_rate: float
    step_cost_source: str
    forecasts: tuple[WindowForecast, ...]
    predictions: tuple[Prediction, ...] = ()

    @property
    def answer(self) -> str:
        """What a buyer needs to know."""
        return answer(self.forecasts)


def estimate_of(
    draft: str,
    readings: Sequence[Reading],
    weights: Mapping[str, float],
    *,
    windows: Mapping[int, int],
    step_costs: StepCosts,
) -> DraftEstimate:
    """What the readings of a draft mean. windows, weights: as of `forecast`."""
    found = yields(readings, windows.values())
    return DraftEstimate(
        draft=draft,
        load=step_costs.load,
        outputs=len(readings),
        tokens=sum(len(reading.hits) for reading in readings),
        hit_rate=hit_rate(readings) or 0.0,
        step_cost_source=step_costs.source,
        forecasts=tuple(forecast(found, weights, windows=windows, step_costs=step_costs)),
    )


def text_lines(estimates: Sequence[DraftEstimate]) -> Iterator[str]:
    """A sentence and a table for each load of each draft, then what servers with it did."""
    for _, at_loads in groupby(estimates, key=lambda estimate: estimate.draft):
        own = [*at_loads]
        for estimate in own:
            yield from _lines(estimate, names_load=len(own) > 1)
        if own[0].predictions:
            yield from _prediction_lines(own[0].predictions)


def json_lines(estimates: Sequence[DraftEstimate]) -> Iterator[str]:
    """One list."""
    yield json.dumps([_as_json(estimate) for estimate in estimates], indent=2)


def _lines(estimate: DraftEstimate, *, names_load: bool) -> Iterator[str]:
    classes = list(estimate.forecasts[0].tokens_per_step)
    load = f" at {estimate.load}" if names_load else ""
    yield f"{estimate.draft}{load}: {estimate.answer}."
    yield (
        f"{_count(estimate.outputs, 'output')}, {_count(estimate.tokens, 'token')} after the first "
        f"of each, of which the draft would have said {estimate.hit_rate:.1%}. A step: "
        f"{estimate.step_cost_source}."
    )
    rows = (
        [
            str(f.window),
            *(_interval(f.tokens_per_step[name]) for name in classes),
            _range(f.step_cost),
            _range(f.cost_ratio),
            f"{f.breaks_even_at:.2f}",
        ]
        for f in estimate.forecasts
    )
    headings = [
        "window",
        *(f"tokens a step, {name}" for name in classes),
        "step cost",
        "cost of a token",
        "breaks even at a step of",
    ]
    yield from table_lines(rows, headings, numbers=range(len(headings)), ruled=True)


def _count(number: int, of: str) -> str:
    return f"{number:,} {of}{'s' * (number != 1)}"


def _prediction_lines(predictions: Sequence[Prediction]) -> Iterator[str]:
    yield "Predicted beside measured, tokens a step:"
    rows = (
        [
            *(a.variant, a.prompt_class, str(a.requests)),
            *(f"{a.predicted:.3f}", f"{a.measured:.3f}", f"{a.difference:+.2%}"),
            f"{a.same_sequence} of {a.shown}",
        ]
        for a in predictions
    )
    headings = [
        *("variant", "class", "requests", "predicted", "measured", "difference"),
        "each step as predicted",
    ]
    yield from table_lines(rows, headings, numbers=range(2, len(headings)), ruled=True)


def _range(found: Range) -> str:
    return f"{found.low:.2f} to {found.high:.2f}"


def _interval(found: Estimate) -> str:
    interval = "" if found.low is None else f" ({found.low:.2f} to {found.high:.2f})"
    return f"{found.value:.2f}{interval}"


def _as_json(estimate: DraftEstimate) -> dict[str, object]:
    return {
        "draft": Path(estimate.draft).name,
        "draft_folder": estimate.draft,
        "load": estimate.load,
        "answer": estimate.answer,
        "outputs": estimate.outputs,
        "tokens": estimate.tokens,
        "hit_rate": estimate.hit_rate,
        "step_cost_source": estimate.step_cost_source,
        "predictions": [{**vars(a), "difference": a.difference} for a in estimate.predictions],
        "windows": [
            {
                "window": f.window,
                "step_cost": vars(f.step_cost),
                "cost_ratio": vars(f.cost_ratio),
                "breaks_even_at_step_cost": f.breaks_even_at,
                "tokens_per_step": {
                    name: {"value": t.value, "low": t.low, "high": t.high}
                    for name, t in f.tokens_per_step.items()
                },
            }
            for f in estimate.forecasts
        ],
    }
