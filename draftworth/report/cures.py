"""Says in a few words what removes a doubt about a run's figures, for the ten lines.

`sentences.step_words` says the same at length.
"""

from draftworth.decision.facts import RunFacts
from draftworth.decision.run_decision import NextStep


def cure(facts: RunFacts) -> str:
    """Say in a few words what removes a doubt; empty if the next step is not about one."""
    step = facts.decision.next_step
    if step is None or not step.removes_a_doubt:
        return ""
    of_own = _CURES_OF_OWN_SERVERS if facts.run.result.of_own_servers else {}
    return of_own.get(step, _CURES.get(step, ""))


# For the ten lines, of which none is longer than 80 characters.
_CURES = {
    NextStep.MEASURE_COLD: "start the servers with no prefix cache (--verbose: how)",
    NextStep.MEASURE_WARM_SERVERS: "send more requests of warm-up (workload.warmup_requests)",
    NextStep.COUNT_TOKENS: "let each server's answers say how many tokens they have (usage)",
    NextStep.MAKE_WORK_EQUAL: (
        "serve one model on both sides, counted alike, without a response cache"
    ),
    NextStep.LET_REQUESTS_SUCCEED: "remove what makes requests fail, or give them more time",
    NextStep.FREE_THE_CLIENT: "give the client a core of its own",
}
_CURES_OF_OWN_SERVERS = {
    NextStep.MEASURE_COLD: (
        "start the servers with no prefix cache (--verbose: how), or --cache warm"
    ),
    NextStep.MEASURE_SALTED: (
        "salt each request, or --cache warm if your traffic repeats prompts too"
    ),
    NextStep.MEASURE_WARM_SERVERS: (
        "measure the same servers again, now that they have run for a while"
    ),
}
