"""What came of a draft: its forecasts, beside what servers did; as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from draftworth.analysis.acceptance import hit_rate, yields
from draftworth.estimating.forecast import Answer, StepCosts, WindowForecast, answer, forecast
from draftworth.records.likelihoods import Prediction
from draftworth.records.readings import Reading


@dataclass(frozen=True, kw_only=True)
class DraftEstimate:
    """What came of one draft at one load.

    target: as the experiment has it. draft: its folder.
    load: that the step costs were measured at; None: at none.
    predictions: beside what servers with this draft did, where the outputs are of a run with some.
    settling: what an accelerator hour would settle, cost and save, in sentences.
    """

    target: str
    draft: str
    load: str | None
    outputs: int
    tokens: int
    hit_rate: float
    step_cost_source: str
    forecasts: tuple[WindowForecast, ...]
    predictions: tuple[Prediction, ...] = ()
    settling: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The draft, and the load where it is of one."""
        return f"{self.draft} at {self.load}" if self.load else self.draft

    @property
    def answer(self) -> Answer:
        """What a buyer needs to know."""
        return answer(self.forecasts)


def estimate_of(
    target: str,
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
        target=target,
        draft=draft,
        load=step_costs.load,
        outputs=len(readings),
        tokens=sum(len(reading.hits) for reading in readings),
        hit_rate=hit_rate(readings) or 0.0,
        step_cost_source=step_costs.source,
        forecasts=tuple(forecast(found, weights, windows=windows, step_costs=step_costs)),
    )


def json_lines(estimates: Sequence[DraftEstimate]) -> Iterator[str]:
    """One list, which `search.forecast` of an experiment takes (`experiment/forecast.py`)."""
    yield json.dumps([_as_json(estimate) for estimate in estimates], indent=2)


def _as_json(estimate: DraftEstimate) -> dict[str, object]:
    return {
        "target": estimate.target,
        "draft": Path(estimate.draft).name,
        "draft_folder": estimate.draft,
        "load": estimate.load,
        "answer": estimate.answer.sentence,
        "windows_to_measure": estimate.answer.to_measure,
        "settling": estimate.settling,
        "outputs": estimate.outputs,
        "tokens": estimate.tokens,
        "hit_rate": estimate.hit_rate,
        "step_cost_source": estimate.step_cost_source,
        "predictions": [{**vars(a), "difference": a.difference} for a in estimate.predictions],
        "windows": [
            {
                "window": f.window,
                "drafts_checked": f.checked,
                "step_cost": vars(f.step_cost),
                "cost_ratio": vars(f.cost_ratio),
                "class_cost_ratios": {n: vars(r) for n, r in f.class_cost_ratios.items()},
                "breaks_even_at_step_cost": f.breaks_even_at,
                "tokens_per_step": {
                    name: {"value": t.value, "low": t.low, "high": t.high}
                    for name, t in f.tokens_per_step.items()
                },
            }
            for f in estimate.forecasts
        ],
    }
