"""Cost per token of every window, from tokens per step and what a step costs, as a range.

In baseline steps, of which each yields one token: a variant's token costs step cost / tokens per
step of a baseline token, in decoding alone. What a step costs belongs to the device: a card that a
run wrote says it, else what is published of the method, as a wide range. What it yields belongs to
two models and a text, and has an interval over the prompts that were read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from draftworth.analysis.statistics import Estimate
from draftworth.analysis.verdict import INDIFFERENCE
from draftworth.speculation import step_cost


@dataclass(frozen=True, kw_only=True)
class Range:
    """From the best to the worst case."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high:
            raise ValueError(f"given {self.low:g} to {self.high:g}, allowed: above 0, low first")


class StepCosts(Protocol):
    """What a speculative step costs, in baseline steps."""

    @property
    def source(self) -> str:
        """Where that is from, in words."""

    @property
    def load(self) -> str | None:
        """Label of the load that it was measured at; None: of no load."""

    def is_measured(self, window: int) -> bool:
        """Whether that of a window was measured, not taken from elsewhere."""

    def of_window(self, window: int) -> Range:
        """Of a window (`num_speculative_tokens`)."""


@dataclass(frozen=True, kw_only=True)
class PriorStepCosts:
    """1 + window x what each drafted token adds, of which little is published."""

    per_drafted_token: Range
    source: str
    load: None = None

    def is_measured(self, window: int) -> bool:  # noqa: ARG002 (whatever the window)
        """Of no window."""
        return False

    def of_window(self, window: int) -> Range:
        """Of a window (`num_speculative_tokens`)."""
        each = self.per_drafted_token
        return Range(
            low=step_cost(window, per_drafted=each.low),
            high=step_cost(window, per_drafted=each.high),
        )


@dataclass(frozen=True, kw_only=True)
class WindowForecast:
    """One window in one traffic.

    checked: drafts that a step checks. tokens_per_step: of each class.
    cost_ratio: variant / baseline of a token's cost in decoding.
    is_measured: whether the step cost of this very window was measured.
    """

    window: int
    checked: int
    step_cost: Range
    tokens_per_step: Mapping[str, Estimate]
    cost_ratio: Range
    is_measured: bool

    @property
    def class_cost_ratios(self) -> Mapping[str, Range]:
        """`cost_ratio` of each class alone."""
        step = self.step_cost
        return {
            name: Range(low=step.low / (t.high or t.value), high=step.high / (t.low or t.value))
            for name, t in self.tokens_per_step.items()
        }

    @property
    def breaks_even_at(self) -> float:
        """Step cost, in baseline steps, at which a token costs what it costs without a draft."""
        middle = math.sqrt(self.cost_ratio.low * self.cost_ratio.high)
        return math.sqrt(self.step_cost.low * self.step_cost.high) / middle


def forecast(
    found: Mapping[str, Mapping[int, Estimate]],
    weights: Mapping[str, float],
    *,
    windows: Mapping[int, int],
    step_costs: StepCosts,
) -> list[WindowForecast]:
    """Every window in the traffic that `weights` (parts of the output tokens) say.

    found: tokens per step, as `yields` has them. windows: of each `num_speculative_tokens` the
    drafts that are checked in a step.
    """
    return [
        _of_window(
            window,
            checked,
            {name: curve[checked] for name, curve in found.items() if name in weights},
            weights,
            step_costs,
        )
        for window, checked in sorted(windows.items())
    ]


def _of_window(
    window: int,
    checked: int,
    tokens: Mapping[str, Estimate],
    weights: Mapping[str, float],
    step_costs: StepCosts,
) -> WindowForecast:
    cost = step_costs.of_window(window)
    total = sum(weights[name] for name in tokens)
    best = sum(weights[n] / (t.high or t.value) for n, t in tokens.items()) / total
    worst = sum(weights[n] / (t.low or t.value) for n, t in tokens.items()) / total
    return WindowForecast(
        window=window,
        checked=checked,
        step_cost=cost,
        tokens_per_step=tokens,
        cost_ratio=Range(low=cost.low * best, high=cost.high * worst),
        is_measured=step_costs.is_measured(window),
    )


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a buyer needs to know.

    sentence: all of it. about: the window that it speaks of. to_measure: the windows that an
    accelerator would have to measure to settle it; none where the sentence is the last word.
    """

    outcome: Literal["pays", "cannot pay", "open"]
    sentence: str
    about: WindowForecast
    to_measure: tuple[int, ...] = ()


def answer(forecasts: Sequence[WindowForecast]) -> Answer:
    """Whether any window pays, as far as it is known."""
    best = min(forecasts, key=lambda f: f.cost_ratio.low)
    surest = min(forecasts, key=lambda f: f.cost_ratio.high)
    if best.cost_ratio.low > 1:
        return Answer(outcome="cannot pay", sentence=_cannot_pay(best), about=best)
    if surest.cost_ratio.high < 1 / (1 + INDIFFERENCE):
        return Answer(
            outcome="pays",
            sentence=(
                f"pays unless a step of window {surest.window} costs more than "
                f"{surest.breaks_even_at:.1f} baseline steps: a token costs "
                f"{1 - surest.cost_ratio.high:.0%} to {1 - surest.cost_ratio.low:.0%} less"
            ),
            about=surest,
            to_measure=() if surest.is_measured else (surest.window,),
        )
    both = {f.window: f for f in (best, surest)}
    unknown = sorted(window for window, f in both.items() if not f.is_measured)
    return Answer(
        outcome="open",
        sentence=_depends(best, unknown),
        about=best,
        to_measure=tuple(unknown or sorted(both)),
    )


def _cannot_pay(best: WindowForecast) -> str:
    return (
        f"cannot pay: even with the cheapest step, window {best.window} would need "
        f"{best.step_cost.low:.1f} tokens a step and gets {best.breaks_even_at:.1f}"
    )


def _depends(best: WindowForecast, unknown: Sequence[int]) -> str:
    pays = f"window {best.window} pays below {best.breaks_even_at:.1f} baseline steps a step"
    if not unknown:
        cost = best.step_cost
        return (
            "cannot be told from this card and these outputs: both answers lie within the "
            f"intervals ({pays}, and its step was measured at {cost.low:.2f} to {cost.high:.2f}); "
            "next: outputs of more prompts, and a card of a longer run"
        )
    return f"depends on what a step costs: measure {windows_text(unknown)} ({pays})"


def windows_text(windows: Sequence[int]) -> str:
    """`window 7`, `windows 2 and 5`."""
    return f"window{'s' * (len(windows) > 1)} {' and '.join(map(str, windows))}"
