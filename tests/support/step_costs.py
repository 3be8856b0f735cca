"""Makes step costs like those that a run measures: step latencies of a variant at one load."""

from typing import Any

from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.step_costs import StepCost

C1, C4 = ConcurrencyLoad(concurrency=1), ConcurrencyLoad(concurrency=4)


def cost(variant: str, seconds: float, *, width: float = 0.1, load: Any = C1) -> StepCost:
    return StepCost(
        variant=variant,
        load=load,
        mean_context_tokens=300.0,
        step_latency_s=seconds,
        step_latency_low_s=seconds * (1 - width),
        step_latency_high_s=seconds * (1 + width),
        steps_by="chunks",
        steps=1000,
        requests=20,
        tokens_per_step=4.0,
    )
