"""What is said of a verdict, the same in the terminal and in the files."""

from __future__ import annotations

from collections.abc import Iterator

from draftworth.analysis.facts import RunFacts, VariantFacts

TRAFFIC_MIX = "traffic mix"


def mix_sentences(facts: RunFacts) -> Iterator[str]:
    """The verdict on the whole traffic, and what it is a mix of."""
    weights = facts.run.result.class_weights
    parts = ", ".join(f"{weight:.0%} {name}" for name, weight in weights.items())
    for mix in facts.mixes:
        saving = mix.saving_share
        cost = f" It changes the cost of output tokens by {-saving:+.1%}." if saving else ""
        yield (
            f"{TRAFFIC_MIX} ({parts}) at {mix.load.label}, {mix.variant}: {mix.judgement}; "
            f"{mix.reason}.{cost}"
        )


def missing_requests(facts: RunFacts, variant: VariantFacts) -> str:
    """How many more samples the interval would take; empty where it is as narrow as asked for."""
    target, more = facts.run.result.target_interval_width, variant.requests_short
    if not more:
        return ""
    return f" About {more} more requests would narrow the interval to the {target:.0%} asked for."
