"""`draftbench plan`: what an experiment means and costs, before anything is built."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from pathlib import Path

from draftbench.artifacts import artifact_key
from draftbench.dialects import ModelPaths, serving_command
from draftbench.experiment import (
    Baseline,
    Experiment,
    HubModel,
    HubSpeculative,
    NeuronExperiment,
    Variant,
)
from draftbench.loading import load_experiment
from draftbench.placement import place
from draftbench.prompts import load_case
from draftbench.rules import prompt_files
from draftbench.workload import loads, max_tokens_per_step


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The experiment file."""
    parser.add_argument("experiment", type=Path, help="experiment file, YAML")


def run(arguments: argparse.Namespace) -> int:
    """Print the plan."""
    path: Path = arguments.experiment
    for line in plan_lines(load_experiment(path), path):
        print(line)
    return 0


def plan_lines(experiment: Experiment, path: Path) -> Iterator[str]:
    """The plan as lines of text."""
    release = experiment.release_facts
    yield f"experiment  {experiment.name}"
    yield f"release     {experiment.release} (vLLM {release.vllm_version})"
    if release.image:
        yield f"image       {release.image}"
    yield ""
    for variant in experiment.variants:
        yield from _variant_lines(experiment, variant)
    yield from _workload_lines(experiment, path)
    if isinstance(experiment, NeuronExperiment):
        yield from _placement_lines(experiment)
        yield from _cost_lines(experiment)
    advice = list(advice_lines(experiment, path))
    if advice:
        yield ""
        yield from (f"note: {line}" for line in advice)


def _variant_lines(experiment: Experiment, variant: Variant) -> Iterator[str]:
    yield f"variant     {variant.name}: {_decoding(experiment, variant)}"
    command = serving_command(experiment, variant, ModelPaths())
    if isinstance(experiment, NeuronExperiment):
        yield f"  artifact key  {artifact_key(experiment, variant)}"
    yield f"  environment   {' '.join(f'{k}={v}' for k, v in sorted(command.environment.items()))}"
    yield f"  command       vllm serve {shlex.join(command.arguments)}"
    yield ""


def _decoding(experiment: Experiment, variant: Variant) -> str:
    if isinstance(variant, Baseline):
        return "one token a step (the baseline)"
    draft = variant.draft.model if isinstance(variant, HubSpeculative) else variant.draft.path
    most = max_tokens_per_step(experiment, variant)
    return f"{variant.method}, draft {draft}, window {variant.window}, at most {most} tokens a step"


def _workload_lines(experiment: Experiment, path: Path) -> Iterator[str]:
    work = experiment.workload
    files = list(prompt_files(experiment, path))
    shapes = loads(work)
    blocks = len(files) * len(experiment.variants) * len(shapes)
    yield (
        f"workload    {len(files)} cases x {len(experiment.variants)} variants x "
        f"{work.min_requests} to {work.max_requests} requests at "
        f"{', '.join(load.label for load in shapes)} = {blocks * work.min_requests} to "
        f"{blocks * work.max_requests} requests of {work.output_tokens} output tokens"
    )
    for file in files:
        yield f"  {file.parent.name}/{file.stem}"


def _placement_lines(experiment: NeuronExperiment) -> Iterator[str]:
    placement = place(experiment)
    yield ""
    yield (
        f"placement   {placement.nodes} x {experiment.instance_type} in "
        f"{experiment.aws.availability_zone}, {experiment.aws.capacity.kind}"
    )
    for slot in placement.slots:
        share = placement.node_share(slot)
        yield f"  node {slot.node}: {slot.variant}, {slot.devices} devices, {share:.1%} of the node"


def _cost_lines(experiment: NeuronExperiment) -> Iterator[str]:
    price, nodes = experiment.aws.price, place(experiment).nodes
    hourly_usd = nodes * price.usd_per_hour
    hours = experiment.aws.deadline_minutes / 60
    yield ""
    yield (
        f"cost        {hourly_usd:.2f} USD an hour while the accelerator nodes are up "
        f"({nodes} x {price.usd_per_hour:.2f}; {price.source}, {price.as_of.isoformat()})"
    )
    yield (
        f"  at most {hourly_usd * hours:.2f} USD for the {experiment.aws.deadline_minutes} minutes "
        "that the measuring Job may take; cluster, NAT and CPU nodes are extra"
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
            "aws.admin_principal_arns is empty: nobody may use kubectl on the cluster; a run "
            "starts without it, watching its logs and stopping the services takes it"
        )
    if not work.fixed_output_length:
        yield "outputs end where the model ends them: variants may produce different lengths"
    for model in _hub_models(experiment):
        if model.revision == "main":
            yield f"{model.model} is not pinned: `revision: main` moves; give a commit"


def _longest_prompt_words(experiment: Experiment, path: Path) -> int:
    """Words of the longest prompt: a lower bound of its tokens in languages with spaces."""
    cases = (load_case(f, prompt_class=f.parent.name) for f in prompt_files(experiment, path))
    prompts = (prompt for case in cases for prompt in case.prompts)
    return max(sum(len(m["content"].split()) for m in prompt.messages) for prompt in prompts)


def _hub_models(experiment: Experiment) -> Iterator[HubModel]:
    if isinstance(experiment, NeuronExperiment):
        yield experiment.target
        yield from (v.draft for v in experiment.variants if isinstance(v, HubSpeculative))
