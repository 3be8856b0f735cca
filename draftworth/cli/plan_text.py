"""The text of `draftworth plan`: traffic, experiment, variants, workload, search and notes.

`plan_run_text.py` adds the time and cost of a run, for experiments on AWS.
"""

import shlex
from collections.abc import Iterator, Sequence

from draftworth.analysis.repeated_looks import confidence_at_each_look
from draftworth.cli.plan_run_text import cost_lines, run_lines
from draftworth.errors import counted
from draftworth.experiment.node_images import DriverAndRuntime
from draftworth.planning.assumptions import Bounds
from draftworth.planning.durations import round_counts
from draftworth.planning.resolved import (
    NeuronVariant,
    ResolvedExperiment,
    ResolvedNeuron,
    ResolvedVariant,
)
from draftworth.planning.timeline import RunForecast
from draftworth.records.search_result import Search
from draftworth.searching.candidate_count import STUDY, Extent
from draftworth.serving.dialects import serving_command
from draftworth.serving.server_command import ModelPaths, ServingCommand


def plan_text(
    experiment: ResolvedExperiment,
    first: RunForecast | None,
    second: RunForecast | None,
    notes: Sequence[str],
    *,
    verbose: bool,
) -> str:
    """Return the plan's text.

    first, second: the forecasts of a first and a second run; None: the experiment is local.
    """
    lines = [f"traffic     {_mix(experiment)} of the output tokens"]
    if first and second:
        lines += [*cost_lines(first, second, verbose=verbose), ""]
    lines += _experiment_lines(experiment, verbose=verbose)
    for group in _groups(experiment):
        lines += _variant_lines(experiment, group, verbose=verbose)
    lines += _workload_lines(experiment, verbose=verbose)
    if experiment.search and experiment.extent:
        lines += _search_lines(experiment.search, experiment.extent)
    if first:
        lines += run_lines(first, verbose=verbose)
    if notes:
        lines += ["", counted(len(notes), "note"), *(f"note: {note}" for note in notes)]
    if not first:
        path = shlex.quote(str(experiment.path))
        lines += ["", f"next: draftworth rehearse --experiment {path}"]
    return "\n".join(lines)


def _mix(experiment: ResolvedExperiment) -> str:
    classes = experiment.spec.workload.classes
    percent = 100 / sum(c.weight for c in classes)
    return ", ".join(f"{percent * c.weight:.3g}% {c.name}" for c in classes)


def _experiment_lines(experiment: ResolvedExperiment, *, verbose: bool) -> Iterator[str]:
    spec, release = experiment.spec, experiment.spec.release_facts
    yield f"experiment  {experiment.name} on {spec.release} (vLLM {release.vllm_version})"
    if verbose and release.image:
        yield f"image       {release.image}"
    if verbose and isinstance(experiment, ResolvedNeuron):
        yield f"node image  {DriverAndRuntime.of(experiment.spec).words}"


def _groups(experiment: ResolvedExperiment) -> Sequence[Sequence[ResolvedVariant]]:
    """Return the variants, grouped as they are printed.

    If the experiment has a search, variants with the same drafting method are printed together;
    otherwise each variant is printed alone. Variants whose servers start when the run starts come
    first.
    """
    soonest = sorted(experiment.variants, key=lambda variant: not experiment.starts_up(variant))
    groups: dict[str, list[ResolvedVariant]] = {}
    for variant in soonest:
        kind = variant.spec.method if experiment.search else variant.name
        groups.setdefault(kind, []).append(variant)
    return [*groups.values()]


def _variant_lines(
    experiment: ResolvedExperiment, group: Sequence[ResolvedVariant], *, verbose: bool
) -> Iterator[str]:
    """Yield the lines on variants that are printed together.

    They describe the first variant and, if `verbose`, also the others.
    """
    first, *further = group
    yield _variant_line(first)
    if verbose:
        command = _command(experiment, first)
        environment = (f"{name}={value}" for name, value in sorted(command.environment.items()))
        yield from _artifact_line(first)
        yield f"  environment   {' '.join(environment)}"
        yield f"  command       vllm serve {shlex.join(command.arguments)}"
        for variant in further:
            yield _variant_line(variant)
            yield from _artifact_line(variant)
    if further:
        number = counted(len(further), "variant")
        yield f"  like {first.name}, with another draft or window: {number}"


def _variant_line(variant: ResolvedVariant) -> str:
    line = f"variant     {variant.name}: {variant.spec.words}"
    if variant.speculates:
        line += f", at most {variant.max_tokens_per_step} tokens per step"
    return line


def _artifact_line(variant: ResolvedVariant) -> Iterator[str]:
    if isinstance(variant, NeuronVariant):
        yield f"  artifact key  {variant.artifact_key}"


def _command(experiment: ResolvedExperiment, variant: ResolvedVariant) -> ServingCommand:
    if isinstance(variant, NeuronVariant):
        return variant.command
    return serving_command(experiment.spec, variant.spec, ModelPaths())


def _workload_lines(experiment: ResolvedExperiment, *, verbose: bool) -> Iterator[str]:
    spec, cases = experiment.spec, len(experiment.cases)
    servers = sum(map(experiment.starts_up, experiment.variants))
    requests = _requests_per_server(experiment)
    loads = ", ".join(load.label for load in experiment.loads)
    repetitions = f" in {spec.repetitions} repetitions" if spec.repetitions > 1 else ""
    per_candidate = " for each candidate" if experiment.search else ""
    yield (
        f"workload    {counted(cases, 'case')} x {servers} variants x {requests} requests at "
        f"{loads}{repetitions} = {requests.times(cases * servers)} requests of "
        f"{spec.workload.output_tokens} output tokens{per_candidate}, by "
        f"{spec.workload.load_generator}"
    )
    if spec.control:
        yield (
            f"  control: {_control_requests(experiment)} requests more, to the baseline in both "
            "its slots"
        )
    if spec.workload.stop == "decided":
        yield _decided_line(experiment)
    if verbose:
        yield f"  {', '.join(f'{case.prompt_class}/{case.name}' for case in experiment.cases)}"


def _requests_per_server(experiment: ResolvedExperiment) -> Bounds:
    """Return how many requests per prompt file a server gets in a run, at least and at most."""
    counts = round_counts(experiment)
    least = counts.all_least + counts.needed_further(1)
    rounds = Bounds(least, counts.all_least + counts.all_further)
    return rounds.times(experiment.spec.workload.requests_per_round)


def _decided_line(experiment: ResolvedExperiment) -> str:
    looks = round_counts(experiment).looks
    return (
        f"  stop when decided: the fewest requests only where they decide every verdict; the run "
        f"looks at a verdict up to {counted(looks, 'time')}, so intervals are of "
        f"{confidence_at_each_look(looks):.1%}"
    )


def _control_requests(experiment: ResolvedExperiment) -> int:
    rounds = round_counts(experiment).all_least
    return 2 * len(experiment.cases) * rounds * experiment.spec.workload.requests_per_round


def _search_lines(search: Search, extent: Extent) -> Iterator[str]:
    windows_by_draft: dict[str, list[int]] = {}
    for candidate in search.candidates:
        windows_by_draft.setdefault(candidate.draft, []).append(candidate.window)
    yield f"search      {counted(extent.most, 'candidate')}, one at a time beside the baseline"
    for draft, windows in windows_by_draft.items():
        yield f"  {draft}: {len(windows)}, with window {_range_or_list(windows)}"
    yield f"  certainly measured: {', '.join(candidate.variant for candidate in extent.certain)}"
    if extent.possible:
        yield (
            f"  may be measured: {len(extent.possible)} more; simulated searches of the kind took "
            f"{extent.average:.1f} in all, on average ({STUDY})"
        )


def _range_or_list(windows: Sequence[int]) -> str:
    """Return windows as `3 to 15`, or as `3, 5, 12` where there are gaps."""
    first, last = min(windows), max(windows)
    if len(windows) > 2 and sorted(windows) == [*range(first, last + 1)]:
        return f"{first} to {last}"
    return ", ".join(map(str, windows))
