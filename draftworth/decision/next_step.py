"""Decides what to do next after a run: what gives a decision or, after a search, confirms it."""

from draftworth.decision.run_decision import Decision, Missing, NextStep
from draftworth.records.search_result import SearchResult

# For each thing that is missing, what to do.
_STEPS = {
    Missing.COMPLETE_RUN: NextStep.MEASURE_AGAIN,
    Missing.ANOTHER_SERVER: NextStep.MEASURE_A_VARIANT,
    Missing.VARIANT: NextStep.MEASURE_A_VARIANT,
    Missing.VERDICT: NextStep.MEASURE_MORE,
    Missing.COLD_PROMPTS: NextStep.MEASURE_COLD,
    Missing.WARM_SERVERS: NextStep.MEASURE_WARM_SERVERS,
    Missing.EQUAL_WORK: NextStep.MAKE_WORK_EQUAL,
    Missing.LIMITS: NextStep.SET_LIMITS,
    Missing.LONGER_WARMUP: NextStep.WARM_UP_LONGER,
    Missing.HIGHER_RATES: NextStep.MEASURE_HIGHER_RATES,
    Missing.LOWER_RATES: NextStep.MEASURE_LOWER_RATES,
    Missing.OTHER_RATES: NextStep.MEASURE_RATES_BETWEEN,
}


def next_step(decision: Decision, search: SearchResult | None) -> NextStep | None:
    """Return what to do next; None: nothing is missing, and the run had no search.

    search: the result of the run's search; None: it had none.
    """
    if search and Missing.COMPLETE_RUN not in decision.missing:
        return step_after_search(search, serves_baseline=decision.serves_baseline)
    return _STEPS[decision.missing[0]] if decision.missing else None


def step_after_search(search: SearchResult, *, serves_baseline: bool) -> NextStep:
    """Return what to do after a complete search, whether or not there is a decision.

    serves_baseline: whether the decision after this search is to serve without speculation.
    """
    if not search.best:
        return NextStep.SEARCH_AGAIN
    return NextStep.TRY_OTHER_DRAFTS if serves_baseline else NextStep.CONFIRM_BEST
