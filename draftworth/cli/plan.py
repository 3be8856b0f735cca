"""`draftworth plan`: shows what an experiment runs and costs, before anything is built."""

import argparse
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from draftworth.cli import plan_figures, plan_notes
from draftworth.errors import UserInputError, counted, suggestion
from draftworth.experiment.node_images import DriverAndRuntime
from draftworth.planning import durations, prices, resolved, timeline
from draftworth.planning.assumptions import OPTION, assumption_data
from draftworth.records.codec import dump_json
from draftworth.serving.command import ModelPaths
from draftworth.serving.dialects import serving_command

COMPILED_OPTION = "--compiled"
VERBOSE_OPTION = "--verbose"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the experiment file and the options of its time line."""
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
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument(
        "--json", action="store_true", help="print the plan as JSON, as docs/json.md describes it"
    )
    forms.add_argument(
        VERBOSE_OPTION,
        action="store_true",
        help="also show the time line with its assumptions, cases, placement, images, and each "
        "server's artifact key, environment and command",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the plan."""
    experiment = resolved.load(arguments.experiment)
    if isinstance(experiment, resolved.ResolvedNeuron):
        experiment = prices.with_looked_up_price(experiment)
    # All lines are computed before printing starts, so that a wrong option prints only its error.
    lines = list(_plan_lines(experiment, arguments))
    if arguments.json:
        lines = [_json_text(experiment, arguments)]
    for line in lines:
        print(line)
    return 0


def _json_text(experiment: resolved.ResolvedExperiment, arguments: argparse.Namespace) -> str:
    document: dict[str, object] = {
        "schema": "draftworth.plan/1",
        "experiment": experiment.name,
        "release": experiment.spec.release,
        "variants": [variant.name for variant in experiment.variants],
        "loads": [load.label for load in experiment.loads],
    }
    run = None
    if isinstance(experiment, resolved.ResolvedNeuron):
        run, second = _first_and_second(experiment, arguments.assume, arguments.compiled)
        document |= plan_figures.run_figures(run) | {"second": plan_figures.run_figures(second)}
    today = datetime.now(UTC).date()
    document["notes"] = [*plan_notes.notes(experiment, run=run, today=today)]
    return dump_json(document, indent=2).decode().rstrip()


def _plan_lines(
    experiment: resolved.ResolvedExperiment, arguments: argparse.Namespace
) -> Iterator[str]:
    assume, compiled, verbose = arguments.assume, arguments.compiled, arguments.verbose
    release = experiment.spec.release_facts
    first = None
    if isinstance(experiment, resolved.ResolvedNeuron):
        first, second = _first_and_second(experiment, assume, compiled)
        plan_notes.refuse_hopeless_limits(first)
        yield from plan_figures.cost_lines(first, second, verbose=verbose)
        yield ""
    elif assume or compiled:
        raise UserInputError(
            f"{OPTION}, {COMPILED_OPTION}: given for release {experiment.spec.release}, allowed "
            "with a Neuron release: a local experiment uses no AWS nodes and has no time line"
        )
    engine = f"{experiment.spec.release} (vLLM {release.vllm_version})"
    yield f"experiment  {experiment.name} on {engine}"
    if release.image and verbose:
        yield f"image       {release.image}"
    if isinstance(experiment, resolved.ResolvedNeuron) and verbose:
        yield f"node image  {DriverAndRuntime.of(experiment.spec).words}"
    classes = experiment.spec.workload.classes
    percent = 100 / sum(c.weight for c in classes)
    mix = ", ".join(f"{percent * c.weight:.3g}% {c.name}" for c in classes)
    yield f"traffic     {mix} of the output tokens"
    yield from _variants_lines(experiment, verbose=verbose)
    yield from _workload_lines(experiment, verbose=verbose)
    yield from plan_figures.candidate_lines(experiment)
    if isinstance(experiment, resolved.ResolvedNeuron) and first:
        yield from _placement_lines(experiment, verbose=verbose)
        yield from plan_figures.time_lines(first, verbose=verbose)
    if told := list(plan_notes.notes(experiment, run=first, today=datetime.now(UTC).date())):
        yield f"\n{counted(len(told), 'note')}"
        yield from (f"note: {line}" for line in told)
    if isinstance(experiment, resolved.ResolvedLocal):
        file = shlex.quote(str(experiment.path))
        yield from ("", f"next: python -m draftworth rehearse --experiment {file}")


def _first_and_second(
    experiment: resolved.ResolvedNeuron, assume: Sequence[str], compiled: Sequence[str]
) -> tuple[timeline.RunForecast, timeline.RunForecast]:
    assumed = assumption_data().for_target(experiment.spec.target.model).replaced(assume)
    known = [variant.name for variant in experiment.variants]
    for name in compiled:
        if name not in known:
            raise UserInputError(
                f"{COMPILED_OPTION}: given {name!r}, allowed: {', '.join(known)}"
                f"{suggestion(name, known)}"
            )
    first = timeline.forecast(experiment, assumed, compiled=compiled)
    return first, timeline.forecast(experiment, assumed, second=True)


def _variants_lines(experiment: resolved.ResolvedExperiment, *, verbose: bool) -> Iterator[str]:
    """Yield the lines of every variant; a search's candidates of one method share one command."""
    soonest = sorted(experiment.variants, key=lambda variant: not experiment.starts_up(variant))
    groups: dict[str, list[resolved.ResolvedVariant]] = {}
    for variant in soonest:
        kind = variant.spec.method if experiment.search else variant.name
        groups.setdefault(kind, []).append(variant)
    for shown, *alike in groups.values():
        yield from _variant_lines(experiment, shown, verbose=verbose)
        if not alike:
            continue
        for variant in alike if verbose else ():
            yield _decoding_line(variant)
            yield from _key_lines(variant)
        yield (
            f"  like {shown.name}, with another draft or window: {counted(len(alike), 'variant')}"
        )


def _decoding_line(variant: resolved.ResolvedVariant) -> str:
    most = f", at most {variant.max_tokens_per_step} tokens a step" if variant.speculates else ""
    return f"variant     {variant.name}: {variant.spec.words}{most}"


def _key_lines(variant: resolved.ResolvedVariant) -> Iterator[str]:
    if isinstance(variant, resolved.NeuronVariant):
        yield f"  artifact key  {variant.artifact_key}"


def _variant_lines(
    experiment: resolved.ResolvedExperiment, variant: resolved.ResolvedVariant, *, verbose: bool
) -> Iterator[str]:
    yield _decoding_line(variant)
    if not verbose:
        return
    yield from _key_lines(variant)
    if isinstance(variant, resolved.NeuronVariant):
        command = variant.command
    else:
        command = serving_command(experiment.spec, variant.spec, ModelPaths())
    yield f"  environment   {' '.join(f'{k}={v}' for k, v in sorted(command.environment.items()))}"
    yield f"  command       vllm serve {shlex.join(command.arguments)}"


def _workload_lines(experiment: resolved.ResolvedExperiment, *, verbose: bool) -> Iterator[str]:
    work, cases, loads = experiment.spec.workload, experiment.cases, experiment.loads
    repetitions, counts = experiment.spec.repetitions, durations.RoundCounts.of(experiment)
    least = counts.all_least + counts.needed_further(1)
    rounds = (least, counts.all_least + counts.all_further)
    requests = tuple(work.requests_per_round * n for n in rounds)
    at_once = sum(map(experiment.starts_up, experiment.variants))
    blocks = len(cases) * at_once
    each = " for each candidate" if experiment.search else ""
    repeated = f" in {repetitions} repetitions" if repetitions > 1 else ""
    yield (
        f"workload    {counted(len(cases), 'case')} x "
        f"{at_once} variants x {_range(*requests)} requests at "
        f"{', '.join(one.label for one in loads)}{repeated} = "
        f"{_range(*(blocks * n for n in requests))} "
        f"requests of {work.output_tokens} output tokens{each}, by {work.load_generator}"
    )
    if experiment.spec.control:
        sent = 2 * len(cases) * counts.all_least * work.requests_per_round
        yield f"  control: {sent} requests more, to the baseline in both its slots"
    if verbose:
        yield f"  {', '.join(f'{case.prompt_class}/{case.name}' for case in cases)}"


def _range(least: int, most: int) -> str:
    return f"{least}" if least == most else f"{least} to {most}"


def _placement_lines(experiment: resolved.ResolvedNeuron, *, verbose: bool) -> Iterator[str]:
    placement, aws = experiment.placement, experiment.spec.aws
    yield (
        f"placement   {placement.nodes} x {experiment.spec.instance_type} in "
        f"{aws.availability_zone}, {aws.capacity.kind}"
    )
    if not verbose:
        return
    by_node: dict[int, list[str]] = {}
    for variant in filter(experiment.starts_up, experiment.variants):
        slot, *others = variant.slots
        share = placement.node_share(slot)
        also = "".join(f", at times that of {placement.slots[o.number].variant}" for o in others)
        search = experiment.search
        if search and not variant.is_baseline and len(search.candidates) > 1:
            also = ", then other candidates in its place"
        devices = counted(slot.devices, "device")
        by_node.setdefault(slot.node, []).append(
            f"{variant.name}, {devices}, {share:.1%} of the node{also}"
        )
    for node, slots in by_node.items():
        yield f"  node {node}: {'; '.join(slots)}"
