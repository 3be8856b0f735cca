"""`draftworth plan`: what an experiment means and costs, before anything is built."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from pathlib import Path

from draftworth.errors import UserInputError
from draftworth.experiment.loading import load_experiment
from draftworth.experiment.model import (
    Baseline,
    Experiment,
    HubSpeculative,
    NeuronExperiment,
    Variant,
)
from draftworth.experiment.placement import place
from draftworth.experiment.rules import prompt_files
from draftworth.planning.advice import advice_lines, time_advice
from draftworth.planning.assumptions import OPTION
from draftworth.planning.run_specification import loads, max_tokens_per_step
from draftworth.planning.timeline_text import COMPILED_OPTION, Given, plan_times, time_lines
from draftworth.serving.artifacts import artifact_key
from draftworth.serving.dialects import ModelPaths, serving_command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The experiment file, and what its time line takes for granted."""
    parser.add_argument("experiment", type=Path, help="experiment file, YAML")
    parser.add_argument(
        OPTION,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="replace an assumption of the time line (docs/timeline.md): node_start_minutes=5 or "
        "compile_minutes=30..60; may be given several times",
    )
    parser.add_argument(
        COMPILED_OPTION,
        action="append",
        default=[],
        metavar="VARIANT",
        help="this variant's compiled graph is in the bucket already; may be given several times",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the plan."""
    path: Path = arguments.experiment
    experiment = load_experiment(path)
    given = Given(assume=tuple(arguments.assume), compiled=tuple(arguments.compiled))
    # All of it before the first line: a wrong option is told alone.
    for line in list(plan_lines(experiment, path, given)):
        print(line)
    return 0


def plan_lines(experiment: Experiment, path: Path, given: Given) -> Iterator[str]:
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
    advice = list(advice_lines(experiment, path))
    if isinstance(experiment, NeuronExperiment):
        yield from _placement_lines(experiment)
        times = plan_times(experiment, cases=len(list(prompt_files(experiment, path))), given=given)
        yield from time_lines(times)
        advice += time_advice(times)
    elif given != Given():
        raise UserInputError(
            f"{OPTION}, {COMPILED_OPTION}: given for release {experiment.release}, allowed with a "
            "Neuron release: an experiment on this machine rents nothing and has no time line"
        )
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
