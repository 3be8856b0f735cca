"""The lines of `draftworth plan` on a run on AWS: its cost, its nodes, and its time line."""

import math
from collections.abc import Iterator

from draftworth.cli.price_words import billed_words, block_words, dated_source, unknown_price
from draftworth.errors import counted
from draftworth.metrics.definitions import FINDING_METRICS, charged
from draftworth.planning.assumptions import HOURS_PER_MONTH, OPTION, Bounds, assumption_data
from draftworth.planning.capacity_block import PaidBlock, free_slots
from draftworth.planning.durations import SearchTime
from draftworth.planning.hold import Hold
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron
from draftworth.planning.timeline import NODE_START, RunForecast
from draftworth.records.deployment import BLOCK_MARGIN_SECONDS
from draftworth.terminal import table_lines


def cost_lines(first: RunForecast, second: RunForecast, *, verbose: bool) -> Iterator[str]:
    """Yield lines on the cost of a first and a second run, and on costs other than those of nodes.

    The second run reuses graphs that the first one compiled. If the experiment is on hold, the
    first line is on the cost of the hold, and the runs are those of deploys without it.
    """
    if hold := Hold.of(first.experiment, first.assumed):
        yield from _hold_lines(hold)
    if block := PaidBlock.of(first.experiment):
        yield from _block_lines(block, first, second)
    else:
        yield from _hourly_lines(first, second)
    yield (
        f"beside it   not in the budget: about {assumption_data().standing_usd_per_hour:.2f} USD "
        "per hour, deploy to destroy; storage, logs, other traffic"
    )
    yield (
        f"NAT gateway {first.nat_usd:.2f} USD for {first.nat_gib:.0f} GiB of a first run "
        f"({'images' if hold else 'checkpoints, images'}), {second.nat_usd:.2f} of a second"
    )
    if verbose:
        yield _metrics_line(first.experiment)


def _hold_lines(hold: Hold) -> Iterator[str]:
    yield (
        f"on hold     {hold.usd:.2f} USD for {hold.minutes:.0f} minutes, then the canaries; no "
        "accelerator"
    )
    yield (
        f"  {hold.nat_usd:.2f} of them for {hold.nat_gib:.0f} GiB of checkpoints through the NAT "
        "gateway, the rest for the cluster"
    )
    yield "  what follows is of deploys without aws.hold"


def _block_lines(block: PaidBlock, first: RunForecast, second: RunForecast) -> Iterator[str]:
    experiment = first.experiment
    nodes = counted(experiment.placement.nodes, "node")
    yield f"cost        {block_words(block, experiment)}"
    for name, run in (("first run ", first), ("second run", second)):
        idle_percent = block.idle_share(run.billed_minutes).times(100)
        yield (
            f"{name}  {run.billed_minutes:.0f} minutes of {nodes}: {idle_percent:.0f}% of the "
            "block stays idle"
        )
    yield (
        f"would fit   {block.further_runs(first, second):g} more runs on compiled graphs, one "
        "after the other (raise `rerun`, or change the workload), and "
        f"{free_slots(experiment, block.instances)} more variants at the same time; the nodes go "
        f"{BLOCK_MARGIN_SECONDS // 60} minutes before the block ends"
    )


def _hourly_lines(first: RunForecast, second: RunForecast) -> Iterator[str]:
    experiment, aws = first.experiment, first.experiment.spec.aws
    graphs = "the certain candidates' graphs" if first.search else "compiled graphs"
    yield (
        f"first run   {billed_words(first)}, within limits; budget {aws.accelerator_budget_usd:.2f}"
    )
    yield f"second run  {billed_words(second)}, on {graphs}"
    if aws.price is None:
        yield f"price       {unknown_price(experiment)}"
    else:
        yield (
            f"price       {experiment.usd_per_hour:.2f} USD per hour ({experiment.placement.nodes} "
            f"x {aws.price.usd_per_hour:.2f}; {dated_source(aws.price)})"
        )


def _metrics_line(experiment: ResolvedNeuron) -> str:
    metrics, price = _charged_metrics(experiment), assumption_data().prices["custom_metric"]
    usd_per_month = metrics * price.usd_per_month
    usd_per_hour = usd_per_month / HOURS_PER_MONTH
    return (
        f"metrics     {metrics} in CloudWatch: at most {usd_per_hour:.3f} USD per hour while "
        f"results come in, {usd_per_month:.2f} USD in a month that measures all the "
        f"time ({price.usd_per_month:.2f} each per month, {price.as_of.isoformat()})"
    )


def _charged_metrics(experiment: ResolvedNeuron) -> int:
    """Return for how many CloudWatch metrics of a run AWS charges.

    AWS counts each combination of a name and values of dimensions as one metric.
    """
    classes, loads = len(experiment.spec.workload.classes), len(experiment.loads)
    of_variants = sum(len(charged(speculates=v.speculates)) for v in experiment.variants)
    of_verdict = len(FINDING_METRICS) * (len(experiment.variants) - 1)
    # A verdict is about each class and, if there are several, about the mix of all classes.
    traffics = classes + 1 if classes > 1 else classes
    return (of_variants * classes + of_verdict * traffics) * loads


def run_lines(run: RunForecast, *, verbose: bool) -> Iterator[str]:
    """Yield lines on where a run's servers are placed, and after how long its verdict is ready."""
    yield from _placement_lines(run.experiment, verbose=verbose)
    if verbose:
        yield ""
        yield (
            "time line   minutes from the start of `cdk deploy`, best and worst case "
            "(docs/timeline.md)"
        )
        yield from _phase_table(run)
    yield from _verdict_lines(run)
    if verbose:
        assumed = (f"{name} {Bounds(row.low, row.high):g}" for name, row in run.assumed.items())
        yield f"  assumed ({OPTION} replaces one): {', '.join(assumed)}"
        if run.search:
            yield from _search_time_lines(run, run.search)


def _placement_lines(experiment: ResolvedNeuron, *, verbose: bool) -> Iterator[str]:
    spec, nodes = experiment.spec, experiment.placement.nodes
    zone, capacity = spec.aws.availability_zone, spec.aws.capacity.kind
    yield f"placement   {nodes} x {spec.instance_type} in {zone}, {capacity}"
    if verbose:
        slots_by_node: dict[int, list[str]] = {}
        for variant in filter(experiment.starts_up, experiment.variants):
            words = _slot_words(experiment, variant)
            slots_by_node.setdefault(variant.slot.node, []).append(words)
        for node, slots in slots_by_node.items():
            yield f"  node {node}: {'; '.join(slots)}"


def _slot_words(experiment: ResolvedNeuron, variant: NeuronVariant) -> str:
    placement, search = experiment.placement, experiment.search
    slot, *after_swap = variant.slots
    devices = counted(slot.devices, "device")
    words = f"{variant.name}, {devices}, {placement.node_share(slot):.1%} of the node"
    if search and not variant.is_baseline and len(search.candidates) > 1:
        return f"{words}, then other candidates in its place"
    neighbours = (placement.slots[other.number].variant for other in after_swap)
    return words + "".join(f", at times that of {neighbour}" for neighbour in neighbours)


def _phase_table(run: RunForecast) -> Iterator[str]:
    headings = ("* nodes are billed", "starts best", "worst", "takes best", "worst")
    phases = (_phase_row(run, name) for name in run.unlimited.best.spans)
    return table_lines(phases, headings, numbers=range(1, 5), ruled=True)


def _phase_row(run: RunForecast, name: str) -> tuple[str, ...]:
    spans = [schedule.spans.get(name) for schedule in (run.limited.best, run.limited.worst)]
    minutes = [*(span and span.start for span in spans), *(span and span.minutes for span in spans)]
    cells = ("-" if number is None else f"{number:.1f}" for number in minutes)
    mark = "*" if run.unlimited.best.spans[name].billed else " "
    return (f"{mark} {name}", *cells)


def _verdict_lines(run: RunForecast) -> Iterator[str]:
    deploy = "`cdk deploy` without aws.hold" if run.experiment.spec.aws.hold else "`cdk deploy`"
    yield (
        f"verdict     {run.all_measured_minutes:.0f} minutes after {deploy} starts, without "
        "limits or a wait for capacity"
    )
    for case, schedule in (("best", run.limited.best), ("worst", run.limited.worst)):
        if schedule.ended_by:
            yield f"  {schedule.ended_by} ends the run in the {case} case"
    measuring = "measuring the candidates that are certain" if run.search else "measuring"
    yield f"  {run.measured_minutes:.0f} minutes of them {measuring}"


def _search_time_lines(run: RunForecast, search: SearchTime) -> Iterator[str]:
    if search.extent.possible:
        yield f"  each further candidate takes {search.candidate_minutes:.1f} minutes"
    yield from _candidates_table(run, search)
    has_stop = search.stop_minutes < math.inf
    if has_stop:
        begun = search.begun_in_all(run.searched_minutes)
        yield (
            f"  search.stop: no candidate begins later than {search.stop_minutes:.1f} minutes "
            f"after `{NODE_START}`: {begun.best} in the best case, {begun.worst} in the worst"
        )
    settings = run.experiment.search
    if settings and settings.tokens_per_day is not None:
        yield (
            f"  search.stop.tokens_per_day {settings.tokens_per_day:,.0f}: it ends sooner where "
            f"another candidate would cost more than it is likely to save in {settings.days:g} days"
        )
    yield (
        "  billed below: in the best case the certain candidates, in the worst all that "
        f"{'search.stop lets begin' if has_stop else 'there are'}, the last one to its end"
    )


def _candidates_table(run: RunForecast, search: SearchTime) -> Iterator[str]:
    """Return table lines: billed hours and USD by number of measured candidates."""
    extent = search.extent
    rows = [_candidates_row(run, "certainly measured", len(extent.certain))]
    if extent.possible:
        rows.append(_candidates_row(run, "on average, without stop", extent.average))
        rows.append(_candidates_row(run, "all", extent.most))
    headings = ("", "candidates", "billed hours", "USD")
    return table_lines(rows, headings, numbers=range(1, 4), ruled=True)


def _candidates_row(run: RunForecast, name: str, candidates: float) -> tuple[str, ...]:
    minutes, aws = run.minutes_of(candidates), run.experiment.spec.aws
    is_paid_by_hour = aws.price is not None and not aws.capacity.is_block
    usd = f"{run.usd(minutes):.2f}" if is_paid_by_hour else "-"
    return (name, f"{candidates:g}", f"{minutes.times(1 / 60):.1f}", usd)
