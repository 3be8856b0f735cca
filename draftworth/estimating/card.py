"""Step costs out of a card that a run wrote, anybody's: measured windows, lines between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from draftworth.errors import UserInputError
from draftworth.estimating.forecast import Range
from draftworth.records.findings import StepCost, StepCostCard
from draftworth.records.load import Load
from draftworth.records.results import MAX_SECONDS, MIN_SECONDS
from draftworth.records.servers import Decoding, ServingFacts


@dataclass(frozen=True, kw_only=True)
class CardStepCosts:
    """Measured at one load. measured: by window, in baseline steps. load: its label."""

    measured: Mapping[int, Range]
    source: str
    load: str | None = None

    def is_measured(self, window: int) -> bool:
        """Whether the card has this window itself."""
        return window in self.measured

    def of_window(self, window: int) -> Range:
        """As measured, or between and beyond the measured windows, as wide as what is not known.

        A step costs a fixed part and one for each drafted token. With one window measured, either
        may be all of it, so another window costs between as much as that one and as much as its
        part of the tokens; with several, a line goes from one to the next, and beyond the last ones
        on from them. A jump that lies between (where an engine pads to the next size) is in none.
        """
        if window in self.measured:
            return self.measured[window]
        known = sorted(self.measured)
        if len(known) == 1:
            return _beside(self.measured[known[0]], window / known[0])
        below, above = next(
            ((a, b) for a, b in pairwise(known) if window < b), (known[-2], known[-1])
        )
        part = (window - below) / (above - below)
        ends = sorted(
            max(1e-3, low + part * (high - low))
            for low, high in (
                (self.measured[below].low, self.measured[above].low),
                (self.measured[below].high, self.measured[above].high),
            )
        )
        return Range(low=ends[0], high=ends[1])


def _beside(measured: Range, part: float) -> Range:
    """Of a window with `part` of the measured one's tokens."""
    ends = [
        end
        for cost in (measured.low, measured.high)
        for end in (cost, max(cost / 2, 1 + (cost - 1) * part))
    ]
    return Range(low=min(ends), high=max(ends))


def costs_by_load(card: StepCostCard, method: str) -> dict[Load, CardStepCosts]:
    """The card's speculative steps in its baseline's, load by load.

    Raises:
        UserInputError: it does not say what served it, a figure cannot be, or it has no step of
            this method beside one of its baseline.
    """
    serving = checked_serving(card)
    decoding = serving.decoding
    found: dict[Load, CardStepCosts] = {}
    for load in dict.fromkeys(cost.load for cost in card.costs):
        here = [cost for cost in card.costs if cost.load == load]
        plain = next((c for c in here if decoding[c.variant].method == "none"), None)
        measured = {
            window: ratio
            for cost in here
            if (made := decoding[cost.variant]).method == method
            and (window := made.window) is not None
            and (ratio := _in_baseline_steps(cost, plain)) is not None
        }
        if measured:
            drafts = {decoding[c.variant].draft or "" for c in here} - {""}
            source = (
                f"measured at {load.label} in run {card.run_id} on {serving.release} with "
                f"{', '.join(sorted(drafts))} (card {card.content_sha256[:12]})"
            )
            found[load] = CardStepCosts(measured=measured, source=source, load=load.label)
    if not found:
        raise UserInputError(f"card of run {card.run_id}: {_lacking(card, decoding, method)}")
    return found


def checked_serving(card: StepCostCard) -> ServingFacts:
    """What served the card's run, once every figure is one that can be.

    Raises:
        UserInputError: one cannot, or nobody says what served it.
    """
    if card.serving is None:
        raise UserInputError(
            f"card of run {card.run_id}: it does not say what served it; allowed: a card of a run "
            "of an experiment, not of `measure`"
        )
    for cost in card.costs:
        _check(cost, card.run_id, card.serving.decoding)
    return card.serving


def _lacking(card: StepCostCard, decoding: Mapping[str, Decoding], method: str) -> str:
    """Why no load of the card says what a step of the method costs."""
    methods = {decoding[cost.variant].method for cost in card.costs}
    if method not in methods:
        given = ", ".join(sorted(methods - {"none"})) or "no draft"
        return f"given: steps of {given}, allowed: of {method}; next: the card of a run with it"
    return (
        f"it has {method}, but at no load the time of both its step and the baseline's, so nothing "
        "says how much dearer a step is; next: the card of a run that measured both at one load"
    )


def _check(cost: StepCost, run_id: str, known: Mapping[str, Decoding]) -> None:
    """Raise UserInputError for a step that no server of the card's run can have taken."""
    where = f"card of run {run_id}: {cost.variant} at {cost.load.label}"
    if cost.variant not in known:
        raise UserInputError(
            f"{where}: variant: given {cost.variant!r}, allowed: those of its serving.decoding "
            f"({', '.join(known)}); {_COPY_AGAIN}"
        )
    given = (cost.step_latency_low_s, cost.step_latency_s, cost.step_latency_high_s)
    latencies = [latency for latency in given if latency is not None]
    if not all(MIN_SECONDS <= latency <= MAX_SECONDS for latency in latencies) or (
        latencies != sorted(latencies)
    ):
        shown = ", ".join(f"{latency:g}" for latency in latencies)
        raise UserInputError(
            f"{where}: step_latency_low_s, step_latency_s, step_latency_high_s: given {shown}, "
            f"allowed: {MIN_SECONDS:g} to {MAX_SECONDS:g}, none below the one before it; "
            f"{_COPY_AGAIN}"
        )


_COPY_AGAIN = "next: copy the card again from the run's folder"


def _in_baseline_steps(cost: StepCost, plain: StepCost | None) -> Range | None:
    """The widest that both intervals allow; a figure without an interval counts as it is."""
    if plain is None or not plain.step_latency_s or not cost.step_latency_s:
        return None
    return Range(
        low=(cost.step_latency_low_s or cost.step_latency_s)
        / (plain.step_latency_high_s or plain.step_latency_s),
        high=(cost.step_latency_high_s or cost.step_latency_s)
        / (plain.step_latency_low_s or plain.step_latency_s),
    )
