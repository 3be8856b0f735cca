"""`draftworth plan`, its notes: what is allowed but rarely meant."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from draftworth.experiment.catalog import catalog
from draftworth.experiment.model import Experiment, HubModel, HubSpeculative, NeuronExperiment
from draftworth.experiment.rules import prompt_files
from draftworth.planning.run_specification import loads
from draftworth.planning.timeline import BUDGET, DEADLINE, DEPLOY, TEARDOWN
from draftworth.planning.timeline_text import Times
from draftworth.records.prompts import load_case


def time_advice(times: Times) -> Iterator[str]:
    """Where the worst case, or even the best one, does not fit the experiment's limits."""
    yield from _deadline_advice(times)
    yield from _budget_advice(times)


def _deadline_advice(times: Times) -> Iterator[str]:
    aws, forecast = times.experiment.aws, times.first
    runs = (forecast.unlimited_low, forecast.unlimited_high)
    # What must be over by the deadline: everything up to the moment the nodes are let go.
    low, high = (math.ceil(run.spans[TEARDOWN].start - run.spans[DEPLOY].end) for run in runs)
    given = f"{DEADLINE} {aws.deadline_minutes}"
    if low > aws.deadline_minutes:
        yield (
            f"{given} ends the run unfinished: even the best case needs {low} minutes after the "
            f"deploy, the worst {high}"
        )
    elif high > aws.deadline_minutes:
        yield (
            f"{given} may end the run unfinished: the worst case needs {high} minutes after the "
            "deploy; raise it, or ask for less (workload.max_requests, cases, output_tokens)"
        )


def _budget_advice(times: Times) -> Iterator[str]:
    budget_usd, forecast = times.experiment.aws.budget_usd, times.first
    needed = forecast.usd(forecast.needed_minutes)
    given = f"{BUDGET} {budget_usd:.2f}"
    if needed.low > budget_usd:
        yield (
            f"{given} ends the run unfinished: even the best case costs {needed.low:.2f} USD, the "
            f"worst {needed.high:.2f}"
        )
    elif needed.high > budget_usd:
        yield (
            f"{given} may end the run unfinished: the worst case costs {needed.high:.2f} USD; "
            "raise it, or ask for less (workload.max_requests, cases, output_tokens)"
        )


def advice_lines(experiment: Experiment, path: Path) -> Iterator[str]:
    """What is allowed but rarely meant."""
    work, serving = experiment.workload, experiment.serving
    most = max(load.concurrency for load in loads(work))
    if most > serving.max_num_seqs:
        yield (
            f"{most} requests in flight are more than serving.max_num_seqs "
            f"{serving.max_num_seqs}: requests queue in the server and TTFT holds the queue's time"
        )
    longest = _longest_prompt_words(experiment, path)
    if longest > work.input_tokens:
        yield (
            f"the longest prompt has {longest} words, so more tokens than workload.input_tokens "
            f"{work.input_tokens}: requests may not fit serving.max_model_len"
        )
    if isinstance(experiment, NeuronExperiment) and not experiment.aws.admin_principal_arns:
        yield (
            "aws.admin_principal_arns is empty: nobody may use kubectl on the cluster; a run needs "
            "no kubectl, and can be watched and stopped without it; the pods' logs take it"
        )
    yield from _gated_advice(experiment)
    if not work.fixed_output_length:
        yield "outputs end where the model ends them: variants may produce different lengths"
    for model in _hub_models(experiment):
        if model.revision == "main":
            yield f"{model.model} is not pinned: `revision: main` moves; give a commit"


def _gated_advice(experiment: Experiment) -> Iterator[str]:
    if not isinstance(experiment, NeuronExperiment) or experiment.aws.hub_token_secret:
        return
    models = catalog().models
    for model in experiment.models:
        if model.model in models and models[model.model].gated:
            yield (
                f"{model.model} is gated and aws.hub_token_secret names no secret: staging it "
                "fails, and no accelerator node starts"
            )


def _longest_prompt_words(experiment: Experiment, path: Path) -> int:
    """Words of the longest prompt: a lower bound of its tokens in languages with spaces."""
    cases = (load_case(f, prompt_class=f.parent.name) for f in prompt_files(experiment, path))
    prompts = (prompt for case in cases for prompt in case.prompts)
    return max(sum(len(m["content"].split()) for m in prompt.messages) for prompt in prompts)


def _hub_models(experiment: Experiment) -> Iterator[HubModel]:
    if isinstance(experiment, NeuronExperiment):
        yield experiment.target
        yield from (v.draft for v in experiment.variants if isinstance(v, HubSpeculative))
