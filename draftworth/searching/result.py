"""The result of a search, for `search.json`."""

import math
from collections.abc import Mapping, Sequence

from draftworth.records.search import Candidate, CandidateResult, CostInterval, SearchResult
from draftworth.searching.policy import NORMAL_95, CandidateForecast, SearchState


def search_result(
    state: SearchState,
    *,
    run_id: str,
    load: str,
    order: Sequence[Candidate],
    expected: Mapping[Candidate, CandidateForecast],
    failed: Mapping[str, str],
    ended: str,
) -> SearchResult:
    """Return the record of a search.

    expected: the forecast of each measured candidate before it was measured.
    """
    found = bool(state.measured)
    return SearchResult(
        run_id=run_id,
        search=state.search,
        load=load,
        results=tuple(_result(state, f, expected.get(f.candidate)) for f in state.forecasts),
        order=tuple(candidate.variant for candidate in order),
        best=state.best.variant if found else "",
        expected_to_pay=state.pays if found else False,
        sureness=state.sureness if found else 0.0,
        ended=ended,
        failed=failed,
    )


def _result(
    state: SearchState, forecast: CandidateForecast, expected: CandidateForecast | None
) -> CandidateResult:
    return CandidateResult(
        variant=forecast.candidate.variant,
        cost=_range(forecast),
        cost_by_class=forecast.cost_by_class,
        measured=_measured(state, forecast.candidate),
        predicted=_range(expected) if expected else None,
        step_cost=forecast.step_cost,
        tokens_per_step=forecast.tokens,
        chance=forecast.chance,
    )


def _range(forecast: CandidateForecast) -> CostInterval:
    return CostInterval(value=forecast.cost, low=forecast.low, high=forecast.high)


def _measured(state: SearchState, candidate: Candidate) -> CostInterval | None:
    seen = state.measured.get(candidate)
    if seen is None:
        return None
    factor = math.exp(NORMAL_95 * seen.deviation)
    return CostInterval(value=seen.cost, low=seen.cost / factor, high=seen.cost * factor)
