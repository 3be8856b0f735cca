"""`draftworth plan`, the time line: a table that a reader can check by hand, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from draftworth.experiment.aws import CapacityBlock
from draftworth.metrics.definitions import FINDING_METRICS, charged
from draftworth.planning.assumptions import (
    HOURS_A_MONTH,
    OPTION,
    Assumption,
    Assumptions,
    assumption_data,
)
from draftworth.planning.bounds import CASES, Bounds
from draftworth.planning.capacity_block import PaidBlock, free_slots
from draftworth.planning.measuring_time import (
    block_seconds,
    control_round_minutes,
    round_minutes,
)
from draftworth.planning.phases import Phase, Timeline
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.search_text import search_lines
from draftworth.planning.timeline import BUDGET, NODE_START, TEARDOWN, Forecast
from draftworth.records.deployment import BLOCK_MARGIN_SECONDS
from draftworth.terminal import table_lines


def time_lines(first: Forecast, second: Forecast) -> Iterator[str]:
    """The time line of a first run and the cost of both runs as lines of text."""
    yield ""
    yield (
        "time line   minutes from the start of `cdk deploy` in the best and in the worst case, by "
        f"the assumptions of docs/timeline.md ({OPTION} replaces one)"
    )
    yield from phase_table(first.limited)
    yield "  * accelerator nodes are billed; waiting for capacity is in none of this"
    measured = first.unlimited.bounds(lambda run: run.measured_minutes)
    certain = " with the candidates that are certain" if first.search else ""
    yield f"  measured for {measured.text(digits=0)} minutes{certain}"
    yield from _round_lines(first)
    yield from search_lines(first)
    yield ""
    priced = first.experiment.spec.aws.price is not None
    yield from (_cost_lines if priced else _minutes_lines)(first, second)
    yield _standing_line()
    yield _metrics_line(first.experiment)


def learnt_lines(rows: Mapping[str, Assumption], assumed: Assumptions) -> Iterator[str]:
    """What a run replaced of the assumptions, with its source, and what it did not."""
    used = {name: row for name, row in rows.items() if assumed.named(name) is row}
    if not used:
        return
    yield ""
    yield "learnt      in the place of assumptions, from a run:"
    for name, row in used.items():
        ends = f"{row.low:g}" if row.low == row.high else f"{row.low:g} to {row.high:g}"
        yield f"  {name} {ends} {row.unit}: {row.source}"
    others = [name for name in Assumptions.model_fields if name not in used]
    yield f"  not by it: {', '.join(others)}"


def phase_table(timeline: Timeline) -> Iterator[str]:
    """When each phase starts, how long it takes, and how that was computed."""
    headings = (
        "",
        "starts\nbest",
        "\nworst",
        "takes\nbest",
        "\nworst",
        "\ncomputed as, best to worst",
    )
    rows = (_phase_row(timeline, phase) for phase in timeline.best.phases)
    return table_lines(rows, headings, numbers=range(1, 5), ruled=True)


def _phase_row(timeline: Timeline, phase: Phase) -> tuple[str, ...]:
    spans = [run.spans.get(phase.name) for run in (timeline.best, timeline.worst)]
    minutes = [*(span and span.start for span in spans), *(span and span.minutes for span in spans)]
    cells = ("-" if number is None else f"{number:.1f}" for number in minutes)
    mark = "*" if phase.billed else " "
    return (f"{mark} {phase.name}", *cells, f"{phase.minutes.how}{_cut(timeline, phase)}")


def _cut(timeline: Timeline, phase: Phase) -> str:
    """Says where a limit leaves less time than the phase needs."""
    return "".join(
        f"; {case} case: {phase.minutes.at(case):.1f} cut by {run.ended_by}"
        for case, run in zip(CASES, (timeline.best, timeline.worst), strict=True)
        if phase.name in run.spans and run.spans[phase.name].cut
    )


def _round_lines(run: Forecast) -> Iterator[str]:
    """How a round's minutes come about, for every load."""
    for load in run.experiment.loads:
        minutes = round_minutes(run.experiment, load, run.assumed)
        yield f"    round_minutes at {load.label}: {_worked_out(minutes)}"
        for variant in filter(run.experiment.starts_up, run.experiment.variants):
            seconds = block_seconds(run.experiment, variant, load, run.assumed)
            yield f"      {variant.name}, seconds a case: {_worked_out(seconds)}"
        if run.experiment.spec.control:
            minutes = control_round_minutes(run.experiment, load, run.assumed)
            yield f"    control_round_minutes at {load.label}: {_worked_out(minutes)}"


def _worked_out(quantity: Bounds, *, digits: int = 1) -> str:
    return f"{quantity.how} = {quantity.text(digits=digits)}"


def _minutes_lines(first: Forecast, second: Forecast) -> Iterator[str]:
    """What is billed where no price is known."""
    yield f"cost        {no_price_text(first.experiment)}"
    for name, run in (("first run ", first), ("second run", second)):
        yield f"  {name}  {unpriced_text(run)}"


def no_price_text(experiment: ResolvedNeuron) -> str:
    """Why no cost is told, and how to get one."""
    return (
        "unknown: aws.price is left out and none has been looked up; "
        f"`python -m draftworth price {experiment.path}` asks AWS"
    )


def unpriced_text(run: Forecast) -> str:
    """What is billed of a run, without a price."""
    nodes = run.experiment.placement.nodes
    billed = run.billed_minutes.text(digits=1)
    return f"billed {billed} minutes x {nodes} node{'s' if nodes > 1 else ''}"


def _cost_lines(first: Forecast, second: Forecast) -> Iterator[str]:
    capacity = first.experiment.spec.aws.capacity
    if isinstance(capacity, CapacityBlock):
        yield from _block_lines(first, second, capacity)
    else:
        yield from _hourly_lines(first, second)


def _hourly_lines(first: Forecast, second: Forecast) -> Iterator[str]:
    """Nodes that are paid for while they exist."""
    experiment, aws = first.experiment, first.experiment.spec.aws
    nodes, price = experiment.placement.nodes, experiment.node_price
    yield (
        f"cost        {experiment.usd_per_hour:.2f} USD an hour while the accelerator nodes are up "
        f"({nodes} x {price.usd_per_hour:.2f}; {price.source}, "
        f"{price.as_of.isoformat()})"
    )
    yield (
        f"  first run   {billed_text(first)}; {BUDGET} {aws.budget_usd:.2f}; on {nodes} "
        f"node{'s' if nodes > 1 else ''} from `{NODE_START}` to the end of `{TEARDOWN}`"
    )
    graphs = "the certain candidates' graphs" if second.search else "compiled graphs"
    there = f"the cluster, checkpoints and {graphs} are there"
    yield f"  second run  {billed_text(second)}: {there}"


def _block_lines(first: Forecast, second: Forecast, capacity: CapacityBlock) -> Iterator[str]:
    """Nodes that are paid for whether they exist or not."""
    block = PaidBlock.of(first.experiment, capacity)
    yield f"cost        {block_text(first.experiment, capacity)}"
    for name, run in (("first run ", first), ("second run", second)):
        idle = block.idle_share(run.billed_minutes)
        yield (
            f"  {name}  {run.billed_minutes.text(digits=0)} minutes of {block.nodes} "
            f"node{'s' if block.nodes > 1 else ''}: {_percent(idle)} of the block stays idle"
        )
    more, room = block.further_runs(first, second), free_slots(first.experiment, block.instances)
    yield (
        f"  would fit   {more.text()} more runs on compiled graphs, one after the other (raise "
        f"`rerun`, or change the workload), and {room} more variants at the same time; the "
        f"nodes go {BLOCK_MARGIN_SECONDS // 60} minutes before the block ends"
    )


def block_text(experiment: ResolvedNeuron, capacity: CapacityBlock) -> str:
    """What a Capacity Block costs, to be checked by hand."""
    price, block = experiment.node_price, PaidBlock.of(experiment, capacity)
    assumed = "" if capacity.hours else "; aws.capacity.hours is not given: one day, the shortest"
    return (
        f"{block.usd:.2f} USD for the Capacity Block, whole and in advance: "
        f"{block.hours:g} hours x {block.instances} x {price.usd_per_hour:.2f} ({price.source}, "
        f"{price.as_of.isoformat()}){assumed}"
    )


def _percent(share: Bounds) -> str:
    return f"{(share * 100).text(digits=0)}%"


def billed_text(run: Forecast) -> str:
    """What a run costs where nodes are paid for while they exist, to be checked by hand."""
    return f"billed {_worked_out(run.usd(run.billed_minutes), digits=2)} USD"


def _standing_line() -> str:
    """What is paid from deploy to destroy, whatever runs."""
    items = assumption_data().standing
    total_usd = sum(item.count * item.usd_per_hour for item in items)
    parts = " + ".join(f"{item.count} x {item.what} {item.usd_per_hour:g}" for item in items)
    dates = sorted(item.as_of for item in items)
    return (
        f"  beside it   about {total_usd:.2f} USD an hour from deploy to destroy ({parts}; "
        f"{dates[0].isoformat()} to {dates[-1].isoformat()}); storage, logs and traffic on top"
    )


def _metrics_line(experiment: ResolvedNeuron) -> str:
    """What CloudWatch charges for what a run sends: each combination of dimensions is a metric."""
    price = assumption_data().custom_metric
    classes, loads = len(experiment.spec.workload.classes), len(experiment.loads)
    of_variants = sum(len(charged(speculates=v.speculates)) for v in experiment.variants)
    of_verdict = len(FINDING_METRICS) * (len(experiment.variants) - 1)
    traffics = classes + (classes > 1)  # each class, and the mix of several
    count = of_variants * classes * loads + of_verdict * traffics * loads
    usd_per_month = count * price.usd_per_month
    return (
        f"  metrics     {count} in CloudWatch ({of_variants} of all variants x {classes} prompt "
        f"{'classes' if classes > 1 else 'class'} x {loads} load{'s' if loads > 1 else ''}; once "
        f"{of_verdict} of a verdict x {traffics} traffic{'s' if traffics > 1 else ''} x {loads}): "
        "at most "
        f"{usd_per_month / HOURS_A_MONTH:.3f} USD an hour while results come in "
        f"({price.usd_per_month:.2f} each a month, {price.as_of.isoformat()}); "
        f"{usd_per_month:.2f} USD in a month that measures all the time"
    )
