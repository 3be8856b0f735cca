"""`draftworth plan`: what an experiment means and costs, before anything is built."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from draftworth.cli.runs import RUN_WORDS, local_run
from draftworth.errors import UserInputError, suggestion
from draftworth.experiment.variants import AsShipped, Speculative
from draftworth.planning.advice import notes
from draftworth.planning.assumptions import OPTION, Assumption, Assumptions, assumption_data
from draftworth.planning.card import CARD_OPTION, by_card
from draftworth.planning.learning import LEARN_OPTION, learnt
from draftworth.planning.looked_up_price import with_looked_up_price
from draftworth.planning.measuring_time import RoundCounts
from draftworth.planning.resolved import (
    NeuronVariant,
    ResolvedExperiment,
    ResolvedLocal,
    ResolvedNeuron,
    ResolvedVariant,
    load,
)
from draftworth.planning.search_text import candidate_lines
from draftworth.planning.timeline import forecast
from draftworth.planning.timeline_text import learnt_lines, time_lines
from draftworth.records.findings import read_step_costs
from draftworth.records.reading import read_run
from draftworth.serving.command import ModelPaths, served_model_name
from draftworth.serving.dialects import serving_command

COMPILED_OPTION = "--compiled"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The experiment file, and changes to what its time line assumes."""
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
        LEARN_OPTION,
        metavar="RUN",
        help="durations and speeds from a run of the same target in the place of assumptions; "
        f"{OPTION} still replaces them; {RUN_WORDS}",
    )
    parser.add_argument(
        CARD_OPTION,
        metavar="PATH",
        type=Path,
        help="step-cost card of a run on the same servers, step_costs.json or the run's folder: "
        f"its speeds in the place of assumptions, and of what {LEARN_OPTION} says",
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
    experiment = load(arguments.experiment)
    if isinstance(experiment, ResolvedNeuron):
        experiment = with_looked_up_price(experiment)
    # Everything is worked out before the first line is printed: a wrong option is reported alone.
    for line in list(_plan_lines(experiment, arguments)):
        print(line)
    return 0


def _plan_lines(experiment: ResolvedExperiment, arguments: argparse.Namespace) -> Iterator[str]:
    """The plan as lines of text."""
    assume, compiled = arguments.assume, arguments.compiled
    release = experiment.spec.release_facts
    yield f"experiment  {experiment.name}"
    yield f"release     {experiment.spec.release} (vLLM {release.vllm_version})"
    if release.image:
        yield f"image       {release.image}"
    yield ""
    yield from _variants_lines(experiment)
    yield from _workload_lines(experiment)
    yield from candidate_lines(experiment)
    first = None
    if isinstance(experiment, ResolvedNeuron):
        yield from _placement_lines(experiment)
        known = assumption_data().for_target(experiment.spec.target.model)
        rows = _learnt(experiment, known, arguments.learn, arguments.card)
        assumed = known.model_copy(update=rows).replaced(assume)
        first = forecast(experiment, assumed, compiled=_known_variants(experiment, compiled))
        yield from time_lines(first, second=forecast(experiment, assumed, second=True))
        yield from learnt_lines(rows, assumed)
    elif assume or compiled or arguments.learn is not None or arguments.card is not None:
        raise UserInputError(
            f"{OPTION}, {COMPILED_OPTION}, {CARD_OPTION}, {LEARN_OPTION}: given for release "
            f"{experiment.spec.release}, allowed with a Neuron release: a local experiment uses no "
            "AWS nodes and has no time line"
        )
    if told := list(notes(experiment, run=first, today=datetime.now(UTC).date())):
        yield ""
        yield from (f"note: {line}" for line in told)
    if isinstance(experiment, ResolvedLocal):
        file = shlex.quote(str(experiment.path))
        yield from ("", f"next: python -m draftworth rehearse --experiment {file}")


def _learnt(
    experiment: ResolvedNeuron, assumed: Assumptions, run_at: str | None, card: Path | None
) -> dict[str, Assumption]:
    """What a run and a card say in the place of assumptions; nothing without them."""
    rows: dict[str, Assumption] = {}
    if run_at is not None:
        with local_run(run_at) as folder:
            rows = learnt(read_run(folder), assumed, model=served_model_name(experiment.spec))
    if card is not None:
        rows |= by_card(read_step_costs(card), experiment, assumed)
    return rows


def _known_variants(experiment: ResolvedNeuron, names: Sequence[str]) -> Sequence[str]:
    known = [variant.name for variant in experiment.variants]
    for name in names:
        if name not in known:
            raise UserInputError(
                f"{COMPILED_OPTION}: given {name!r}, allowed: {', '.join(known)}"
                f"{suggestion(name, known)}"
            )
    return names


def _variants_lines(experiment: ResolvedExperiment) -> Iterator[str]:
    """Every variant; of candidates whose servers differ in draft and window alone, one server."""
    soonest = sorted(experiment.variants, key=lambda variant: not experiment.starts_up(variant))
    groups: dict[str, list[ResolvedVariant]] = {}
    for variant in soonest:
        kind = variant.spec.method if experiment.search else variant.name
        groups.setdefault(kind, []).append(variant)
    for shown, *alike in groups.values():
        yield from _variant_lines(experiment, shown)
        for variant in alike:
            yield _decoding_line(variant)
            if isinstance(variant, NeuronVariant):
                yield f"  artifact key  {variant.artifact_key}"
        if alike:
            yield (
                f"  environment and command of {shown.name}, with another draft or window: "
                f"{len(alike)} variant{'s' if len(alike) > 1 else ''}"
            )
            yield ""


def _decoding_line(variant: ResolvedVariant) -> str:
    decoding = "one token a step (the baseline)"
    if isinstance(variant.spec, AsShipped):
        decoding = "one token a step, with the engine's own defaults (beside the baseline)"
    if isinstance(variant.spec, Speculative):
        decoding = (
            f"{variant.spec.method}, draft {variant.draft}, window {variant.spec.window}, at most "
            f"{variant.max_tokens_per_step} tokens a step"
        )
    return f"variant     {variant.name}: {decoding}"


def _variant_lines(experiment: ResolvedExperiment, variant: ResolvedVariant) -> Iterator[str]:
    yield _decoding_line(variant)
    if isinstance(variant, NeuronVariant):
        yield f"  artifact key  {variant.artifact_key}"
        command = variant.command
    else:
        command = serving_command(experiment.spec, variant.spec, ModelPaths())
    yield f"  environment   {' '.join(f'{k}={v}' for k, v in sorted(command.environment.items()))}"
    yield f"  command       vllm serve {shlex.join(command.arguments)}"
    yield ""


def _workload_lines(experiment: ResolvedExperiment) -> Iterator[str]:
    work, cases, loads = experiment.spec.workload, experiment.cases, experiment.loads
    repetitions, counts = experiment.spec.repetitions, RoundCounts.of(experiment)
    least = counts.all_least + counts.needed_further(1)
    rounds = (least, counts.all_least + counts.all_further)
    requests = tuple(work.requests_per_round * n for n in rounds)
    at_once = sum(map(experiment.starts_up, experiment.variants))
    blocks = len(cases) * at_once
    each = " for each candidate" if experiment.search else ""
    repeated = f" in {repetitions} repetitions" if repetitions > 1 else ""
    yield (
        f"workload    {len(cases)} case{'s' if len(cases) > 1 else ''} x "
        f"{at_once} variants x {_range(*requests)} requests at "
        f"{', '.join(load.label for load in loads)}{repeated} = "
        f"{_range(*(blocks * n for n in requests))} "
        f"requests of {work.output_tokens} output tokens{each}, sent by {work.load_generator}"
    )
    if experiment.spec.control:
        sent = 2 * len(cases) * counts.all_least * work.requests_per_round
        yield f"  control: {sent} requests more, to the baseline in both its slots"
    for case in cases:
        yield f"  {case.prompt_class}/{case.name}"


def _range(least: int, most: int) -> str:
    return f"{least}" if least == most else f"{least} to {most}"


def _placement_lines(experiment: ResolvedNeuron) -> Iterator[str]:
    placement, aws = experiment.placement, experiment.spec.aws
    yield ""
    yield (
        f"placement   {placement.nodes} x {experiment.spec.instance_type} in "
        f"{aws.availability_zone}, {aws.capacity.kind}"
    )
    for variant in filter(experiment.starts_up, experiment.variants):
        slot, *others = variant.slots
        share = placement.node_share(slot)
        devices = f"{slot.devices} device{'s' if slot.devices > 1 else ''}"
        also = "".join(f", at times that of {placement.slots[o.number].variant}" for o in others)
        if experiment.search and not variant.is_baseline:
            also = ", then other candidates in its place" * (len(experiment.search.candidates) > 1)
        yield f"  node {slot.node}: {variant.name}, {devices}, {share:.1%} of the node{also}"
