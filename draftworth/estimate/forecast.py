"""Forecasts what a token costs with a draft at every window, and whether the draft pays.

Costs are counted in steps of the baseline, each of which yields one token. A token that is decoded
with a draft costs: step cost / tokens per step; the prefill is left out. The step cost depends on
the device. The tokens per step depend on target, draft and text, and have a confidence interval
that reflects how much they vary between prompts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from draftworth.decision.verdict import INDIFFERENCE
from draftworth.estimate.step_cost_sources import CostRange, StepCosts
from draftworth.planning.resolved import ResolvedExperiment
from draftworth.records.acceptance_profile import Measured, Windows
from draftworth.records.likelihoods import Prediction
from draftworth.records.load_shapes import words_of_label
from draftworth.records.readings import Replayed
from draftworth.report.percent import spoken_changes

WINDOWS = range(1, 16)


def windows_of(experiment: ResolvedExperiment, method: str) -> Mapping[int, int]:
    """Return how many drafted tokens a step checks, by window (`num_speculative_tokens`).

    On some releases (serving images) a step checks one token fewer than the window. The windows are
    1 to 15 and those of the experiment's variants. Windows are left out that are shorter than the
    method's minimum on the experiment's release.
    """
    served = experiment.spec.release_facts.methods[method]
    candidates = {
        *WINDOWS,
        *(v.spec.window for v in experiment.variants if v.draft and v.spec.window),
    }
    windows = sorted(w for w in candidates if w >= served.min_window)
    return {w: served.max_tokens_per_step(w) - 1 for w in windows}


@dataclass(frozen=True, kw_only=True)
class WindowForecast:
    """The forecast of decoding with a draft and one window (`num_speculative_tokens`).

    checked: how many drafted tokens a step checks. step_cost: a step's cost in baseline steps.
    tokens_per_step: output tokens per step, by prompt class.
    cost_ratio: the cost of decoding a token of all traffic, divided by the baseline's cost.
    is_measured: whether the step cost of exactly this window was measured.
    """

    window: int
    checked: int
    step_cost: CostRange
    tokens_per_step: Mapping[str, Measured]
    cost_ratio: CostRange
    is_measured: bool

    @property
    def class_cost_ratios(self) -> Mapping[str, CostRange]:
        return {
            name: _cost_ratio(self.step_cost, {name: tokens}, {name: 1.0})
            for name, tokens in self.tokens_per_step.items()
        }

    @property
    def breaks_even_at(self) -> float:
        """The step cost, in baseline steps, at which a token costs as much as without a draft."""
        middle = math.sqrt(self.cost_ratio.low * self.cost_ratio.high)
        return math.sqrt(self.step_cost.low * self.step_cost.high) / middle


def _cost_ratio(
    step: CostRange, tokens: Mapping[str, Measured], weights: Mapping[str, float]
) -> CostRange:
    total = sum(weights[name] for name in tokens)
    best = sum(weights[n] / (t.high or t.value) for n, t in tokens.items()) / total
    worst = sum(weights[n] / (t.low or t.value) for n, t in tokens.items()) / total
    return CostRange(low=step.low * best, high=step.high * worst)


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """Whether any window pays: whether decoding with it is cheaper than without a draft.

    outcome: `open` if a window may pay or not, within the ranges of costs and of tokens per step.
    sentence: the conclusion in words. about: the forecast of the window that `sentence` is about.
    to_measure: the windows that a run must measure before the conclusion is final; empty: it is
        final already.
    """

    outcome: Literal["pays", "cannot pay", "open"]
    sentence: str
    about: WindowForecast
    to_measure: tuple[int, ...] = ()


def conclude(forecasts: Sequence[WindowForecast]) -> Conclusion:
    """Return whether any window pays, and which ones a run must measure to make that final."""
    best = min(forecasts, key=lambda f: f.cost_ratio.low)
    surest = min(forecasts, key=lambda f: f.cost_ratio.high)
    if best.cost_ratio.low > 1:
        cannot_pay = (
            f"cannot pay: even with the cheapest step, window {best.window} would need "
            f"{best.step_cost.low:.1f} tokens per step and gets {best.breaks_even_at:.1f}"
        )
        return Conclusion(outcome="cannot pay", sentence=cannot_pay, about=best)
    if surest.cost_ratio.high < 1 / (1 + INDIFFERENCE):
        return Conclusion(
            outcome="pays",
            sentence=_pays(surest),
            about=surest,
            to_measure=() if surest.is_measured else (surest.window,),
        )
    both = {f.window: f for f in (best, surest)}
    unknown = sorted(window for window, f in both.items() if not f.is_measured)
    return Conclusion(
        outcome="open",
        sentence=_depends(best, unknown),
        about=best,
        to_measure=tuple(unknown or sorted(both)),
    )


def _pays(surest: WindowForecast) -> str:
    step, most = f"a step of window {surest.window}", f"{surest.breaks_even_at:.1f} baseline steps"
    cost = spoken_changes((surest.cost_ratio.low, surest.cost_ratio.high))
    if not surest.is_measured:
        return f"pays unless {step} costs more than {most}: a token costs {cost}"
    ends = f"{surest.step_cost.low:.2f} to {surest.step_cost.high:.2f}"
    return f"pays: {step} was measured at {ends} and may cost up to {most}: a token costs {cost}"


def _depends(best: WindowForecast, unknown: Sequence[int]) -> str:
    pays = f"window {best.window} pays below {best.breaks_even_at:.1f} baseline steps per step"
    if not unknown:
        cost = best.step_cost
        return (
            "cannot be told from this card and these outputs: both answers lie within the "
            f"intervals ({pays}, and its step was measured at {cost.low:.2f} to {cost.high:.2f}); "
            "next: outputs of more prompts, and a card of a longer run"
        )
    return f"depends on what a step costs: measure {windows_text(unknown)} ({pays})"


def windows_text(windows: Sequence[int]) -> str:
    """Return `window 7` or `windows 2 and 5`."""
    return f"{'window' if len(windows) == 1 else 'windows'} {' and '.join(map(str, windows))}"


@dataclass(frozen=True, kw_only=True)
class DraftEstimate:
    """The estimate of what one draft yields and costs at one load.

    target: the target model, as the experiment names it. method: the drafting method.
    draft: the draft's folder, or how n-grams are looked up, in words.
    tokenizer: the folder whose tokenizer counted the tokens; empty: no output was read.
    acceptance: tokens per step, by prompt class. weights: each class's share of the output tokens.
    windows: how many drafted tokens a step checks, by window (`num_speculative_tokens`).
    step_costs: what a step with the draft costs, in baseline steps.
    source: the acceptance profile that `acceptance` is from, in words; empty: outputs were read.
    hit_rate: the share of the outputs' tokens that the draft model would have chosen; None: n-gram
        drafting, or the estimate is from a profile.
    predictions: predicted and measured tokens per step; empty unless the outputs are from a run
        that had this draft.
    settling: sentences on what to measure next, what that costs, and what the draft can save.
    replayed: the outputs that were read, each with the steps in which the draft would yield it.
    """

    target: str
    method: str
    draft: str
    acceptance: Mapping[str, Windows]
    weights: Mapping[str, float]
    windows: Mapping[int, int]
    step_costs: StepCosts
    source: str = ""
    tokenizer: str = ""
    hit_rate: float | None = None
    predictions: tuple[Prediction, ...] = ()
    settling: tuple[str, ...] = ()
    replayed: Sequence[Replayed] = ()

    @cached_property
    def forecasts(self) -> Sequence[WindowForecast]:
        """The forecasts of the windows whose acceptance is known in all classes, shortest first."""
        classes = {
            name: by_checked for name, by_checked in self.acceptance.items() if name in self.weights
        }
        forecasts = []
        for window, checked in sorted(self.windows.items()):
            tokens = {
                name: w.tokens_per_step
                for name, by_checked in classes.items()
                for w in by_checked
                if w.drafts_checked == checked
            }
            if len(tokens) < len(classes):
                continue
            step = self.step_costs.of_window(window)
            forecast = WindowForecast(
                window=window,
                checked=checked,
                step_cost=step,
                tokens_per_step=tokens,
                cost_ratio=_cost_ratio(step, tokens, self.weights),
                is_measured=self.step_costs.is_measured(window),
            )
            forecasts.append(forecast)
        return forecasts

    @property
    def name(self) -> str:
        load = self.step_costs.load
        return f"{self.draft} at {words_of_label(load)}" if load else self.draft

    @property
    def outputs(self) -> int:
        return sum(windows[0].outputs or 0 for windows in self.acceptance.values())

    @property
    def tokens(self) -> int:
        return sum(windows[0].tokens or 0 for windows in self.acceptance.values())

    @property
    def conclusion(self) -> Conclusion:
        return conclude(self.forecasts)
