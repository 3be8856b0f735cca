"""What a step-cost card says of speeds, in the place of assumptions.

Only the card of servers like the experiment's: on another accelerator, with another release or
another target, a step takes another time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from draftworth.errors import UserInputError
from draftworth.estimating.card import checked_serving
from draftworth.experiment.catalog import NO_SPECULATION
from draftworth.planning.assumptions import Assumption, Assumptions
from draftworth.planning.learning import assumption_of
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.run_specification import serving_facts
from draftworth.records.findings import StepCost, StepCostCard
from draftworth.records.results import AS_SHIPPED
from draftworth.records.servers import ServingFacts
from draftworth.untrusted import one_line

CARD_OPTION = "--card"


def by_card(
    card: StepCostCard, experiment: ResolvedNeuron, assumed: Assumptions
) -> dict[str, Assumption]:
    """Milliseconds per token by the card, from the lowest to the highest load.

    Raises:
        UserInputError: it is of other servers, or has no step of this experiment.
    """
    run = f"run {one_line(card.run_id, characters=80)}"
    theirs, ours = checked_serving(card), serving_facts(experiment)
    if differences := "; ".join(serving_differences(theirs, ours)):
        raise _unusable(
            run,
            f"of other servers ({differences}), allowed: of servers like the experiment's, because "
            "a step takes another time on others",
        )
    costs = [cost for cost in card.costs if cost.load in experiment.loads]
    plain = [c for c in costs if is_baseline(c, theirs)]
    drafted = [
        cost
        for cost in costs
        if (how := theirs.decoding[cost.variant]).method != NO_SPECULATION
        and how in ours.decoding.values()
    ]
    found = {}
    for name, own, what in (
        ("baseline_ms_per_token", plain, "step latency"),
        ("speculative_ms_per_token", drafted, "step latency / tokens a step of its own prompts"),
    ):
        values = [ms for cost in own for ms in _ms_per_token(cost)]
        source = f"card {card.content_sha256[:12]} of {run}: {what}, ends of its 95% intervals"
        if values and (row := assumption_of(assumed.named(name), values, source)):
            found[name] = row
    if not found:
        loads = ", ".join(load.label for load in experiment.loads)
        raise _unusable(
            run, f"no step of the experiment's variants at one of its loads, allowed: at {loads}"
        )
    return found


def serving_differences(theirs: ServingFacts, ours: ServingFacts) -> Iterator[str]:
    """Where servers differ in what every variant shares: `release X, here Y`."""
    for name in (field.name for field in fields(ServingFacts) if field.name != "decoding"):
        given, allowed = getattr(theirs, name), getattr(ours, name)
        if given != allowed:
            yield f"{name} {one_line(str(given), characters=80)}, here {allowed}"


def is_baseline(cost: StepCost, serving: ServingFacts) -> bool:
    """Whether it is what speculation is compared with."""
    method = serving.decoding[cost.variant].method
    return method == NO_SPECULATION and cost.variant != AS_SHIPPED


def _ms_per_token(cost: StepCost) -> Iterator[float]:
    """The ends of the interval; the figure itself where there is none."""
    if cost.step_latency_s is None or not cost.tokens_per_step:
        return
    for end_s in (cost.step_latency_low_s, cost.step_latency_high_s):
        yield 1e3 * (end_s or cost.step_latency_s) / cost.tokens_per_step


def _unusable(run: str, why: str) -> UserInputError:
    return UserInputError(
        f"{CARD_OPTION}: card of {run}: given: {why}; next: plan without {CARD_OPTION}, or with "
        "the card of a run of this experiment"
    )
