"""Finds what a step with a draft costs, in baseline steps, as published or as a run measured it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from draftworth.errors import UserInputError
from draftworth.experiment.catalog import NO_SPECULATION, catalog
from draftworth.records.results import MAX_SECONDS, MIN_SECONDS
from draftworth.records.servers import Decoding, ServingFacts
from draftworth.records.step_costs import StepCost, StepCostCard


@dataclass(frozen=True, kw_only=True)
class CostRange:
    """A cost in the best case (`low`) and the worst case (`high`), divided by the baseline's."""

    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class StepCosts:
    """What a step with a draft costs, in baseline steps: divided by the cost of a baseline step.

    by_window: the cost of a step, for those windows for which it is known.
    source: where these costs are from, in words.
    load: label of the load at which they were measured; None: they are published.
    """

    by_window: Mapping[int, CostRange]
    source: str
    load: str | None = None

    def is_measured(self, window: int) -> bool:
        return self.load is not None and window in self.by_window

    def of_window(self, window: int) -> CostRange:
        """Return a step's cost with `window`, estimated if `by_window` has only other windows.

        The estimate assumes that a step costs a fixed amount plus an amount per drafted token. If
        the costs of several windows are known, the cost is interpolated linearly between
        neighbours, and extrapolated beyond the first and the last. Jumps between two windows (an
        engine may pad to the next size) are neglected. If the cost of only one window is known, it
        does not show how much of it is fixed, so the estimate is a range. One end assumes that all
        of it is fixed, and equals the known cost. The other end assumes that only one baseline step
        is fixed and that the rest grows in proportion to the window; this end is at least half of
        the known cost.
        """
        if window in self.by_window:
            return self.by_window[window]
        windows = sorted(self.by_window)
        if len(windows) == 1:
            return _scaled(self.by_window[windows[0]], window / windows[0])
        below, above = next(
            ((a, b) for a, b in pairwise(windows) if window < b), (windows[-2], windows[-1])
        )
        part = (window - below) / (above - below)
        ends = sorted(
            max(1e-3, low + part * (high - low))
            for low, high in (
                (self.by_window[below].low, self.by_window[above].low),
                (self.by_window[below].high, self.by_window[above].high),
            )
        )
        return CostRange(low=ends[0], high=ends[1])


def published_costs(low: float, high: float, source: str) -> StepCosts:
    """Return step costs where each drafted token adds `low` to `high` baseline steps.

    source: where these numbers are published, in words.
    """
    one = CostRange(low=1 + low, high=1 + high)
    return StepCosts(by_window={0: CostRange(low=1, high=1), 1: one}, source=source)


def _scaled(measured: CostRange, part: float) -> CostRange:
    ends = [
        end
        for cost in (measured.low, measured.high)
        for end in (cost, max(cost / 2, 1 + (cost - 1) * part))
    ]
    return CostRange(low=min(ends), high=max(ends))


def step_costs_of(card: StepCostCard | None, method: str) -> Sequence[StepCosts]:
    """Return what a step costs with a drafting method, for each load at which a run measured it.

    card: the run's step costs. Without a card, return the published costs alone. UserInputError:
    the card has no load at which steps of both the method and the baseline were measured, it does
    not say which image and models were measured, or a cost in it is wrong.
    """
    if card is None:
        low, high = catalog().methods[method].step_cost_per_draft or (0.0, 0.0)
        source = f"published for {method}: each drafted token adds {low:g} to {high:g} of a step"
        return [published_costs(low, high, source)]
    serving = checked_serving(card)
    decoding = serving.decoding
    by_load = []
    for load in dict.fromkeys(cost.load for cost in card.costs):
        here = [cost for cost in card.costs if cost.load == load]
        plain = next((c for c in here if decoding[c.variant].method == NO_SPECULATION), None)
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
                f"measured at {load.words} in run {card.run_id} on {serving.release} with "
                f"{', '.join(sorted(drafts))} (card {card.content_sha256[:12]})"
            )
            by_load.append(StepCosts(by_window=measured, source=source, load=load.label))
    if not by_load:
        raise UserInputError(f"card of run {card.run_id}: {_lacking(card, decoding, method)}")
    return by_load


def checked_serving(card: StepCostCard) -> ServingFacts:
    """Return image, models and devices of the run that measured the costs in `card`; check these.

    UserInputError: the card does not have these facts, or a cost in it is wrong.
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
    methods = {decoding[cost.variant].method for cost in card.costs}
    if method not in methods:
        on_card = ", ".join(sorted(methods - {NO_SPECULATION})) or "no draft"
        return f"given: steps of {on_card}, allowed: of {method}; next: the card of a run with it"
    return (
        f"it has {method}, but at no load the time of both its step and the baseline's, so nothing "
        "says how much more a step costs; next: the card of a run that measured both at one load"
    )


def _check(cost: StepCost, run_id: str, decoding: Mapping[str, Decoding]) -> None:
    where = f"card of run {run_id}: {cost.variant} at {cost.load.label}"
    if cost.variant not in decoding:
        raise UserInputError(
            f"{where}: variant: given {cost.variant!r}, allowed: those of its serving.decoding "
            f"({', '.join(decoding)}); {_COPY_AGAIN}"
        )
    ends = (cost.step_latency_low_s, cost.step_latency_s, cost.step_latency_high_s)
    latencies = [latency for latency in ends if latency is not None]
    if not all(MIN_SECONDS <= latency <= MAX_SECONDS for latency in latencies) or (
        latencies != sorted(latencies)
    ):
        printed = ", ".join(f"{latency:g}" for latency in latencies)
        raise UserInputError(
            f"{where}: step_latency_low_s, step_latency_s, step_latency_high_s: given {printed}, "
            f"allowed: {MIN_SECONDS:g} to {MAX_SECONDS:g}, none below the one before it; "
            f"{_COPY_AGAIN}"
        )


_COPY_AGAIN = "next: copy the card again from the run's folder"


def _in_baseline_steps(cost: StepCost, plain: StepCost | None) -> CostRange | None:
    """Return a step's latency divided by a baseline step's; None: one of the two is not measured.

    The ends of the range are from the ends of both latencies' intervals, where these are known.
    cost: the measured step of a variant. plain: the baseline's, at the same load.
    """
    if plain is None or not plain.step_latency_s or not cost.step_latency_s:
        return None
    return CostRange(
        low=(cost.step_latency_low_s or cost.step_latency_s)
        / (plain.step_latency_high_s or plain.step_latency_s),
        high=(cost.step_latency_high_s or cost.step_latency_s)
        / (plain.step_latency_low_s or plain.step_latency_s),
    )
