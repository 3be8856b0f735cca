"""Makes step-cost cards of runs of a shipped experiment, with planted step latencies."""

from dataclasses import replace
from typing import Any

from draftworth.planning import specify_run
from draftworth.records.step_costs import StepCost, StepCostCard
from tests.support.experiments import resolved
from tests.support.step_costs import cost

EXPERIMENT = resolved()
BASELINE, DRAFTED = (variant.name for variant in EXPERIMENT.variants)
LOAD = EXPERIMENT.loads[0]
FACTS = specify_run.serving_facts(EXPERIMENT)


def plain(seconds: float = 0.040, **other: Any) -> StepCost:
    """The cost of a step of the baseline, which takes `seconds` and yields one token."""
    return replace(cost(BASELINE, seconds, **{"load": LOAD, **other}), tokens_per_step=1.0)


def drafted(seconds: float = 0.080, **other: Any) -> StepCost:
    """The cost of a step with a draft, which takes `seconds` and yields four tokens."""
    return cost(DRAFTED, seconds, **{"load": LOAD, **other})


def card(*costs: StepCost, **facts: Any) -> StepCostCard:
    serving = replace(FACTS, **facts)
    return StepCostCard(run_id="r", experiment="x", serving=serving, costs=costs).sealed()
