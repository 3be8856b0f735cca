"""Compiled graphs of earlier runs: would a server on a paid node refuse what is there?"""

from __future__ import annotations

from account.artifacts import listings
from account.checks.check import Outcome, Situation, failed, passed
from account.checks.deployment import stack_states


def compiled_graphs(situation: Situation) -> Outcome:
    """No server would refuse the graphs that it finds under its key."""
    if situation.experiment.names.stack("storage") not in stack_states(situation):
        return passed("nothing is deployed yet: first starts compile")
    (listing,) = listings([situation.experiment], bucket=None, now=situation.now)
    told = [f"{wanted.variant}: {wanted.refusal[0]}" for wanted in listing.wanted if wanted.refusal]
    if told:
        return failed(
            f"would be refused: {'; '.join(told)}",
            f"python -m draftworth artifacts {situation.experiment.path} --run; the next start "
            "compiles",
        )
    found = sum(wanted.start(listing.now) == "load" for wanted in listing.wanted)
    return passed(f"{found} of {len(listing.wanted)} variants load, the others compile")
