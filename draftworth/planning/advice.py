"""`draftworth plan`, its notes: what is allowed, but probably not intended."""

from __future__ import annotations

import math
from collections.abc import Iterator

from draftworth.experiment.aws import CapacityBlock
from draftworth.experiment.model import NeuronExperiment
from draftworth.planning.bounds import Bounds
from draftworth.planning.capacity_block import PaidBlock
from draftworth.planning.resolved import ResolvedExperiment
from draftworth.planning.timeline import BUDGET, DEADLINE, DEPLOY, TEARDOWN, Forecast


def time_advice(run: Forecast) -> Iterator[str]:
    """Where the worst case, or even the best one, does not fit the experiment's limits."""
    aws = run.experiment.spec.aws
    # What must be over by the deadline: everything up to the moment the nodes are released.
    minutes = run.unlimited.bounds(
        lambda schedule: math.ceil(schedule.spans[TEARDOWN].start - schedule.spans[DEPLOY].end)
    )
    deadline, budget = f"{DEADLINE} {aws.deadline_minutes}", f"{BUDGET} {aws.budget_usd:.2f}"
    needs = "needs {:.0f} minutes after the deploy"
    yield from _limit_advice(deadline, aws.deadline_minutes, minutes, needs)
    if aws.price is not None:
        usd = run.usd(run.needed_minutes)
        yield from _limit_advice(budget, aws.budget_usd, usd, "costs {:.2f} USD")
    if isinstance(aws.capacity, CapacityBlock):
        yield from _block_advice(run, PaidBlock.of(run.experiment, aws.capacity))


def _block_advice(run: Forecast, block: PaidBlock) -> Iterator[str]:
    """A block that is too short, or whose paid time a budget cuts."""
    usable, needed = block.usable_minutes, run.needed_minutes
    if needed.worst > usable:
        may = "ends" if needed.best > usable else "may end"
        yield (
            f"a Capacity Block of {block.hours:g} hours {may} the run unfinished: its nodes may "
            f"run for {usable:.0f} minutes, the run needs {needed.text(digits=0)}"
        )
    if run.experiment.spec.aws.budget_usd < block.usd:
        yield (
            f"{BUDGET} {run.experiment.spec.aws.budget_usd:.2f} is less than the Capacity Block's "
            f"{block.usd:.2f} USD, which are paid in any case: to end a run at the budget saves "
            "nothing; give the block's price"
        )


def _limit_advice(given: str, limit: float, needed: Bounds, needs: str) -> Iterator[str]:
    best, worst = needs.format(needed.best), needs.format(needed.worst)
    if needed.best > limit:
        yield f"{given} ends the run unfinished: even the best case {best}, the worst case {worst}"
    elif needed.worst > limit:
        yield (
            f"{given} may end the run unfinished: the worst case {worst}; raise it, or ask for "
            "less (workload.max_requests, cases, output_tokens)"
        )


def advice_lines(experiment: ResolvedExperiment) -> Iterator[str]:
    """Settings that are allowed, but probably not intended."""
    spec = experiment.spec
    work, serving = spec.workload, spec.serving
    most = max(load.needed_in_flight(work.requests_per_round) for load in experiment.loads)
    if most > serving.max_num_seqs:
        yield (
            f"{most} requests in flight are more than serving.max_num_seqs "
            f"{serving.max_num_seqs}: requests queue in the server and TTFT includes that time"
        )
    # Words: a lower bound of the tokens in languages with spaces.
    prompts = (prompt for case in experiment.cases for prompt in case.prompts)
    longest = max(sum(len(m["content"].split()) for m in prompt.messages) for prompt in prompts)
    if longest > work.input_tokens:
        yield (
            f"the longest prompt has {longest} words, so more tokens than workload.input_tokens "
            f"{work.input_tokens}: requests may not fit serving.max_model_len"
        )
    if not work.fixed_output_length:
        yield "outputs end where the model ends them: variants may produce different lengths"
    if isinstance(spec, NeuronExperiment):
        yield from _aws_advice(spec)


def _aws_advice(spec: NeuronExperiment) -> Iterator[str]:
    if not spec.aws.admin_principal_arns:
        yield (
            "aws.admin_principal_arns is empty: nobody may use kubectl on the cluster; a run needs "
            "no kubectl, and can be watched (`make logs`) and stopped (`make stop`) without it"
        )
    for model in spec.gated_models if spec.aws.hub_token_secret is None else ():
        yield (
            f"{model} is gated and aws.hub_token_secret names no secret: staging it fails, and no "
            "accelerator node starts"
        )
    for model in spec.unpinned_models:
        yield f"{model} is not pinned to a commit: a branch or tag may move; give a commit"
