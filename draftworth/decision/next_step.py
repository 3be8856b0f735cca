"""Decides what to do next after a run: what gives a decision or, after a search, confirms it."""

from draftworth.decision.run_decision import Decision, Missing, NextStep
from draftworth.records.run_folder import Run
from draftworth.records.search_result import SearchResult

# For each thing that is missing, what to do.
_STEPS = {
    Missing.COMPLETE_RUN: NextStep.MEASURE_AGAIN,
    Missing.ANOTHER_SERVER: NextStep.MEASURE_A_VARIANT,
    Missing.VARIANT: NextStep.MEASURE_A_VARIANT,
    Missing.VERDICT: NextStep.MEASURE_MORE,
    Missing.COLD_PROMPTS: NextStep.MEASURE_COLD,
    Missing.WARM_SERVERS: NextStep.MEASURE_WARM_SERVERS,
    Missing.COUNTED_TOKENS: NextStep.COUNT_TOKENS,
    Missing.EQUAL_WORK: NextStep.MAKE_WORK_EQUAL,
    Missing.ANSWERS: NextStep.LET_REQUESTS_SUCCEED,
    Missing.FREE_CLIENT: NextStep.FREE_THE_CLIENT,
    Missing.LIMITS: NextStep.SET_LIMITS,
    Missing.LONGER_WARMUP: NextStep.WARM_UP_LONGER,
    Missing.HIGHER_RATES: NextStep.MEASURE_HIGHER_RATES,
    Missing.LOWER_RATES: NextStep.MEASURE_LOWER_RATES,
    Missing.OTHER_RATES: NextStep.MEASURE_RATES_BETWEEN,
}


def next_step(decision: Decision, run: Run) -> NextStep | None:
    """Return what to do next; None: nothing is missing, and the run had no search.

    A doubt about the best candidate of a search is removed before the candidate is confirmed.
    """
    step = _STEPS[decision.missing[0]] if decision.missing else None
    if step is NextStep.MEASURE_COLD and _takes_salts(run):
        return NextStep.MEASURE_SALTED
    if run.search is None or step is NextStep.MEASURE_AGAIN or (step and step.removes_a_doubt):
        return step
    return step_after_search(run.search, serves_baseline=decision.serves_baseline)


def _takes_salts(run: Run) -> bool:
    """Return whether a `cache_salt` is untried and all servers take one, as vLLM does.

    Only vLLM has the counters of its prefix cache that a block records.
    """
    is_of_vllm = all(block.prefix_cache is not None for block in run.blocks)
    return is_of_vllm and run.result.of_own_servers and run.result.prompt_cache == "cold"


def step_after_search(search: SearchResult, *, serves_baseline: bool) -> NextStep:
    """Return what to do after a complete search, whether or not there is a decision.

    serves_baseline: whether the decision after this search is to serve without speculation.
    """
    if not search.best:
        return NextStep.SEARCH_AGAIN
    return NextStep.TRY_OTHER_DRAFTS if serves_baseline else NextStep.CONFIRM_BEST
