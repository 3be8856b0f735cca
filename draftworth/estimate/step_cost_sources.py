"""Finds what a speculative step costs in baseline steps, as published or as a run measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from draftworth.errors import UserInputError
from draftworth.experiment.catalog import NO_SPECULATION, catalog
from draftworth.records.findings import StepCost, StepCostCard
from draftworth.records.results import MAX_SECONDS, MIN_SECONDS
from draftworth.records.servers import Decoding, ServingFacts


@dataclass(frozen=True, kw_only=True)
class CostRange:
    """A cost in the best and in the worst case."""

    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class StepCosts:
    """What a step costs with a draft, in baseline steps.

    known: the costs that are known, by window. source: where they are from, in words.
    load: label of the load at which they were measured; None: they are published.
    """

    known: Mapping[int, CostRange]
    source: str
    load: str | None = None

    def is_measured(self, window: int) -> bool:
        return self.load is not None and window in self.known

    def of_window(self, window: int) -> CostRange:
        """Return what a step costs with this window: as known, or a range from the known windows.

        The cost of a step is a fixed part plus a part for each drafted token. If one window is
        known, one end of the range takes the whole cost as fixed; the other takes what is above one
        baseline step as proportional to the window, but at least half of the known cost. If
        several windows are known, the cost is interpolated linearly between neighbours, and
        extrapolated beyond the first and the last. A jump between two windows (an engine may pad
        to the next size) is not seen.
        """
        if window in self.known:
            return self.known[window]
        windows = sorted(self.known)
        if len(windows) == 1:
            return _scaled(self.known[windows[0]], window / windows[0])
        below, above = next(
            ((a, b) for a, b in pairwise(windows) if window < b), (windows[-2], windows[-1])
        )
        part = (window - below) / (above - below)
        ends = sorted(
            max(1e-3, low + part * (high - low))
            for low, high in (
                (self.known[below].low, self.known[above].low),
                (self.known[below].high, self.known[above].high),
            )
        )
        return CostRange(low=ends[0], high=ends[1])


def published_costs(low: float, high: float, source: str) -> StepCosts:
    """Return step costs where each drafted token adds `low` to `high` baseline steps."""
    one = CostRange(low=1 + low, high=1 + high)
    return StepCosts(known={0: CostRange(low=1, high=1), 1: one}, source=source)


def _scaled(measured: CostRange, part: float) -> CostRange:
    ends = [
        end
        for cost in (measured.low, measured.high)
        for end in (cost, max(cost / 2, 1 + (cost - 1) * part))
    ]
    return CostRange(low=min(ends), high=max(ends))


def step_costs_of(card: StepCostCard | None, method: str) -> Sequence[StepCosts]:
    """Return what a step of the method costs in baseline steps, at each load of the card; without
    a card, as published. UserInputError: the card lacks steps of the method or the baseline.
    """
    if card is None:
        low, high = catalog().methods[method].step_cost_per_draft or (0.0, 0.0)
        source = f"published for {method}: each drafted token adds {low:g} to {high:g} of a step"
        return [published_costs(low, high, source)]
    serving = checked_serving(card)
    decoding = serving.decoding
    found = []
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
                f"measured at {load.label} in run {card.run_id} on {serving.release} with "
                f"{', '.join(sorted(drafts))} (card {card.content_sha256[:12]})"
            )
            found.append(StepCosts(known=measured, source=source, load=load.label))
    if not found:
        raise UserInputError(f"card of run {card.run_id}: {_lacking(card, decoding, method)}")
    return found


def checked_serving(card: StepCostCard) -> ServingFacts:
    """Return the card's serving facts; UserInputError: it has none, or a cost in it is wrong."""
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
        given = ", ".join(sorted(methods - {NO_SPECULATION})) or "no draft"
        return f"given: steps of {given}, allowed: of {method}; next: the card of a run with it"
    return (
        f"it has {method}, but at no load the time of both its step and the baseline's, so nothing "
        "says how much more a step costs; next: the card of a run that measured both at one load"
    )


def _check(cost: StepCost, run_id: str, known: Mapping[str, Decoding]) -> None:
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


def _in_baseline_steps(cost: StepCost, plain: StepCost | None) -> CostRange | None:
    """Return the range of a step's latency divided by the baseline's; None: one is not measured."""
    if plain is None or not plain.step_latency_s or not cost.step_latency_s:
        return None
    return CostRange(
        low=(cost.step_latency_low_s or cost.step_latency_s)
        / (plain.step_latency_high_s or plain.step_latency_s),
        high=(cost.step_latency_high_s or cost.step_latency_s)
        / (plain.step_latency_low_s or plain.step_latency_s),
    )
