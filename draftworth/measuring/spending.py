"""Whether a search may go on: what it has taken, and what another candidate costs and may save."""

from __future__ import annotations

from dataclasses import dataclass

from draftworth.measuring.run_specification import RunSpec
from draftworth.metrics.cost import (
    SECONDS_PER_HOUR,
    nodes_usd_per_second,
    usd_per_million_tokens,
)
from draftworth.records.load import ConcurrencyLoad
from draftworth.searching.policy import Forecast, State


@dataclass(frozen=True, kw_only=True)
class Spending:
    """elapsed_s: since the run began, with all that its servers took to start."""

    spec: RunSpec
    elapsed_s: float

    def why_over(self, expected: Forecast | None, state: State) -> str:
        """Why no further candidate may be begun; empty: one may.

        expected: of the next one; None where nothing can be expected yet.
        """
        hours, limit = self.elapsed_s / SECONDS_PER_HOUR, state.search
        if limit.hours is not None and hours >= limit.hours:
            return f"it has lasted {hours:.2f} hours; search.stop.hours is {limit.hours:g}"
        spent_usd = self.elapsed_s * self._usd_per_second
        if limit.usd is not None and spent_usd >= limit.usd:
            return f"it has cost {spent_usd:.2f} USD; search.stop.usd is {limit.usd:g}"
        return self._why_not_worth_it(expected, state) if expected else ""

    def _why_not_worth_it(self, expected: Forecast, state: State) -> str:
        traffic_usd = self._traffic_usd(state)
        if traffic_usd is None or not state.measured:
            return ""
        minutes = self.elapsed_s / len(state.measured) / 60
        costs_usd = minutes * 60 * self._usd_per_second
        saves_usd = expected.gain * traffic_usd
        if saves_usd >= costs_usd:
            return ""
        return (
            f"measuring {expected.candidate.variant} would cost {costs_usd:.2f} USD ({minutes:.0f} "
            f"minutes, as each so far) and can be expected to save {saves_usd:.2f} USD: "
            f"{expected.gain:.2%} of {traffic_usd:,.0f} USD, which {state.search.days:g} days of "
            f"{state.search.tokens_per_day:,.0f} output tokens cost without a draft"
        )

    def _traffic_usd(self, state: State) -> float | None:
        """What the user's tokens cost without a draft; None where it is not known."""
        load, a_day = self.spec.loads[0], state.search.tokens_per_day
        if a_day is None or not isinstance(load, ConcurrencyLoad):
            return None
        throughput = load.concurrency / state.baseline_s
        million = usd_per_million_tokens(self.spec.price, self.spec.baseline, throughput)
        return None if million is None else million * a_day * state.search.days / 1e6

    @property
    def _usd_per_second(self) -> float:
        """All nodes; 0 without a price."""
        return nodes_usd_per_second(self.spec.price) or 0.0
