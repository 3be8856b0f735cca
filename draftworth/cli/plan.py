"""`draftworth plan`: shows what an experiment runs and costs, before anything is built.

The printed text is in the template `plan.txt.jinja`.
"""

import argparse
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from draftworth.cli.templates import filled
from draftworth.errors import UserInputError, counted, suggestion
from draftworth.experiment.node_images import DriverAndRuntime
from draftworth.metrics.definitions import FINDING_METRICS, charged
from draftworth.planning import durations, prices, resolved, timeline
from draftworth.planning.assumptions import HOURS_A_MONTH, OPTION, Bounds, assumption_data, replaced
from draftworth.planning.capacity_block import PaidBlock, free_slots
from draftworth.planning.notes import notes
from draftworth.planning.notes.limit_notes import refuse_hopeless_limits
from draftworth.planning.timeline import RunForecast
from draftworth.records.codec import dump_json
from draftworth.records.deployment import BLOCK_MARGIN_SECONDS
from draftworth.searching.extent import STUDY, Extent
from draftworth.serving.command import ModelPaths, ServingCommand
from draftworth.serving.dialects import serving_command
from draftworth.terminal import table_lines


def phase_lines(run: RunForecast) -> Iterator[str]:
    """Return the lines of a table with a row for each phase."""
    headings = ("* nodes are billed", "starts best", "worst", "takes best", "worst")
    phases = (_phase_row(run, name) for name in run.unlimited.best.spans)
    return table_lines(phases, headings, numbers=range(1, 5), ruled=True)


def _phase_row(run: RunForecast, name: str) -> tuple[str, ...]:
    spans = [schedule.spans.get(name) for schedule in (run.limited.best, run.limited.worst)]
    minutes = [*(span and span.start for span in spans), *(span and span.minutes for span in spans)]
    cells = ("-" if number is None else f"{number:.1f}" for number in minutes)
    mark = "*" if run.unlimited.best.spans[name].billed else " "
    return (f"{mark} {name}", *cells)


def windows_text(windows: Sequence[int]) -> str:
    """Return windows as `3 to 15`, or as `3, 5, 12` where there are gaps."""
    first, last = min(windows), max(windows)
    if len(windows) > 2 and sorted(windows) == [*range(first, last + 1)]:
        return f"{first} to {last}"
    return ", ".join(map(str, windows))


def amount_lines(run: RunForecast) -> Iterator[str]:
    """Return table lines: billed hours and USD by number of candidates; none without a search."""
    return table_lines(
        [_amount_row(run, *amount) for amount in _amounts(run.search.extent)] if run.search else (),
        ("", "candidates", "billed hours", "USD"),
        numbers=range(1, 4),
        ruled=True,
    )


def _amounts(extent: Extent) -> Iterator[tuple[str, float]]:
    yield "certainly measured", len(extent.certain)
    if extent.others:
        yield "on average, without stop", extent.average
        yield "all", extent.most


def _amount_row(run: RunForecast, name: str, candidates: float) -> tuple[str, ...]:
    minutes, aws = run.minutes_of(candidates), run.experiment.spec.aws
    is_paid_by_hour = aws.price is not None and not aws.capacity.is_block
    usd = f"{run.usd(minutes):.2f}" if is_paid_by_hour else "-"
    return (name, f"{candidates:g}", f"{minutes.times(1 / 60):.1f}", usd)


def run_figures(run: RunForecast) -> dict[str, object]:
    """Return figures of a run for `--json`, at best and at worst; `usd` is None without a price."""
    aws = run.experiment.spec.aws
    figures = {
        "usd": None if aws.price is None else run.usd(run.billed_minutes),
        "billed_minutes": run.billed_minutes,
        "ready_minutes": run.over_minutes,
    }
    cases = {
        key: found and {"best": found.best, "worst": found.worst} for key, found in figures.items()
    }
    budget = {"accelerator_budget_usd": aws.accelerator_budget_usd}
    return {**cases, "nodes": run.experiment.placement.nodes, **budget}


def metrics_charged(experiment: resolved.ResolvedNeuron) -> int:
    """Return how many metrics of a run AWS charges; each name with a set of dimensions is one."""
    classes, loads = len(experiment.spec.workload.classes), len(experiment.loads)
    of_variants = sum(len(charged(speculates=v.speculates)) for v in experiment.variants)
    of_verdict = len(FINDING_METRICS) * (len(experiment.variants) - 1)
    traffics = classes + 1 if classes > 1 else classes  # each class, and their mix
    return (of_variants * classes + of_verdict * traffics) * loads


COMPILED_OPTION = "--compiled"
VERBOSE_OPTION = "--verbose"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the experiment file, the options of its time line, and the form of the output."""
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
    experiment, first, second = resolved.load(arguments.experiment), None, None
    assume, compiled = arguments.assume, arguments.compiled
    if isinstance(experiment, resolved.ResolvedNeuron):
        experiment = prices.with_looked_up_price(experiment)
        first, second = _first_and_second(experiment, assume, compiled)
        refuse_hopeless_limits(first)
    elif assume or compiled:
        raise UserInputError(
            f"{OPTION}, {COMPILED_OPTION}: given for release {experiment.spec.release}, allowed "
            "with a Neuron release: a local experiment uses no AWS nodes and has no time line"
        )
    today = datetime.now(UTC).date()
    sentences = [note.sentence for note in notes(experiment, run=first, today=today)]
    if arguments.json:
        print(_json_text(experiment, first, second, sentences))
        return 0
    values = _values(experiment) | {"notes": sentences, "verbose": arguments.verbose}
    if isinstance(experiment, resolved.ResolvedNeuron) and first and second:
        values |= _aws_values(experiment, first, second)
    print(filled("plan.txt.jinja", values).rstrip("\n"))
    return 0


def _json_text(
    experiment: resolved.ResolvedExperiment,
    first: timeline.RunForecast | None,
    second: timeline.RunForecast | None,
    notes: Sequence[str],
) -> str:
    document: dict[str, object] = {
        "schema": "draftworth.plan/1",
        "experiment": experiment.name,
        "release": experiment.spec.release,
        "variants": [variant.name for variant in experiment.variants],
        "loads": [load.label for load in experiment.loads],
    }
    if first and second:
        own = run_figures(second)
        document |= run_figures(first) | {"second": own}
    return dump_json(document | {"notes": notes}, indent=2).decode().rstrip()


def _first_and_second(
    experiment: resolved.ResolvedNeuron, assume: Sequence[str], compiled: Sequence[str]
) -> tuple[timeline.RunForecast, timeline.RunForecast]:
    assumed = replaced(assumption_data().for_target(experiment.spec.target.model), assume)
    known = [variant.name for variant in experiment.variants]
    for name in compiled:
        if name not in known:
            raise UserInputError(
                f"{COMPILED_OPTION}: given {name!r}, allowed: {', '.join(known)}"
                f"{suggestion(name, known)}"
            )
    first = timeline.forecast(experiment, assumed, compiled=compiled)
    return first, timeline.forecast(experiment, assumed, second=True)


def _values(experiment: resolved.ResolvedExperiment) -> dict[str, object]:
    work, counts = experiment.spec.workload, durations.round_counts(experiment)
    percent = 100 / sum(c.weight for c in work.classes)
    least = counts.all_least + counts.needed_further(1)
    rounds = Bounds(least, counts.all_least + counts.all_further)
    windows: dict[str, list[int]] = {}
    for candidate in experiment.search.candidates if experiment.search else ():
        windows.setdefault(candidate.draft, []).append(candidate.window)
    return {
        "experiment": experiment,
        "mix": ", ".join(f"{percent * c.weight:.3g}% {c.name}" for c in work.classes),
        "groups": _groups(experiment),
        "at_once": sum(map(experiment.starts_up, experiment.variants)),
        "requests": rounds.times(work.requests_per_round),
        "control_requests": 2 * len(experiment.cases) * counts.all_least * work.requests_per_round,
        "case_names": [f"{case.prompt_class}/{case.name}" for case in experiment.cases],
        "windows_by_draft": windows,
        "command_of": lambda variant: shlex.join(_command(experiment, variant).arguments),
        "environment_of": lambda variant: " ".join(
            f"{k}={v}" for k, v in sorted(_command(experiment, variant).environment.items())
        ),
        "windows_text": windows_text,
        "study": STUDY,
        "quote": shlex.quote,
    }


def _groups(
    experiment: resolved.ResolvedExperiment,
) -> Sequence[Sequence[resolved.ResolvedVariant]]:
    """Return the variants in groups that are printed together; a search's are grouped by method."""
    soonest = sorted(experiment.variants, key=lambda variant: not experiment.starts_up(variant))
    groups: dict[str, list[resolved.ResolvedVariant]] = {}
    for variant in soonest:
        kind = variant.spec.method if experiment.search else variant.name
        groups.setdefault(kind, []).append(variant)
    return [*groups.values()]


def _command(
    experiment: resolved.ResolvedExperiment, variant: resolved.ResolvedVariant
) -> ServingCommand:
    if isinstance(variant, resolved.NeuronVariant):
        return variant.command
    return serving_command(experiment.spec, variant.spec, ModelPaths())


def _aws_values(
    experiment: resolved.ResolvedNeuron, first: timeline.RunForecast, second: timeline.RunForecast
) -> Mapping[str, object]:
    data = assumption_data()
    return {
        "run": first,
        "second": second,
        "standing_usd": data.standing_usd_per_hour,
        "metrics": metrics_charged(experiment),
        "metric": data.prices["custom_metric"],
        "hours_a_month": HOURS_A_MONTH,
        "driver": DriverAndRuntime.of(experiment.spec),
        "slots": _slots(experiment),
        "phases": [*phase_lines(first)],
        "amounts": [*amount_lines(first)],
        "assumed": [f"{name} {Bounds(row.low, row.high):g}" for name, row in first.assumed.items()],
        "assume": OPTION,
        "node_start": timeline.NODE_START,
        "infinity": math.inf,
        "block": PaidBlock.of(experiment),
        "free_slots": free_slots,
        "margin_minutes": BLOCK_MARGIN_SECONDS // 60,
    }


def _slots(experiment: resolved.ResolvedNeuron) -> Mapping[int, Sequence[str]]:
    placement, search = experiment.placement, experiment.search
    by_node: dict[int, list[str]] = {}
    for variant in filter(experiment.starts_up, experiment.variants):
        slot, *others = variant.slots
        also = "".join(f", at times that of {placement.slots[o.number].variant}" for o in others)
        if search and not variant.is_baseline and len(search.candidates) > 1:
            also = ", then other candidates in its place"
        held = f"{counted(slot.devices, 'device')}, {placement.node_share(slot):.1%} of the node"
        by_node.setdefault(slot.node, []).append(f"{variant.name}, {held}{also}")
    return by_node
