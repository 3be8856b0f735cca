"""`draftworth plan`, the time line: a table that a reader can check by hand, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from draftworth.analysis.metrics import FINDING_METRICS, charged
from draftworth.experiment.aws import CapacityBlock
from draftworth.experiment.cluster import COMPILE_WAIT_MINUTES
from draftworth.planning.assumptions import (
    HOURS_A_MONTH,
    OPTION,
    Assumption,
    Assumptions,
    assumption_data,
)
from draftworth.planning.bounds import CASES, Bounds, exactly
from draftworth.planning.capacity_block import PaidBlock, free_slots
from draftworth.planning.cpu_compiling import (
    GraphToCompile,
    compiled_where,
    graphs_to_compile,
)
from draftworth.planning.loading_time import compiled_in_time, cpu_compile_minutes
from draftworth.planning.measuring_time import (
    block_seconds,
    control_round_minutes,
    round_minutes,
)
from draftworth.planning.phases import Phase, Timeline
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.search_text import search_lines
from draftworth.planning.timeline import BUDGET, NODE_START, TEARDOWN, Forecast, forecast
from draftworth.records.capacity import BLOCK_MARGIN_SECONDS
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
    yield from compile_lines(first)
    yield ""
    priced = first.experiment.spec.aws.price is not None
    yield from (_cost_lines if priced else _minutes_lines)(first, second)


_NOTHING_SAVED = (
    "; it saves nothing: servers start side by side, and one that compiles on the accelerator "
    "takes as long as all of them"
)
_TOO_LATE = (
    f"; it saves nothing: {COMPILE_WAIT_MINUTES} minutes after the deploy no graph is there, "
    "and the servers compile"
)
_IN_BLOCK = (
    "; at best, where the graphs are there when the Capacity Block begins: once it has begun, its "
    "nodes wait for no graph, and the servers compile"
)
_REJECTED = "; at the worst what they make is rejected, and compiled again"


def compile_lines(first: Forecast) -> Iterator[str]:
    """Both ways to compile: what accelerators are billed for, and what CPU nodes cost besides."""
    experiment, assumed, compiled = first.experiment, first.assumed, first.compiled
    yield ""
    yield (
        "compiling   minutes that an accelerator node is billed before the first measured token, "
        "and what the whole first run costs, by aws.compile_where"
    )
    cannot = experiment.spec.release_facts.cpu_compile is None
    on_accelerator = Bounds(0.0, 0.0)
    for where in ("accelerator", "cpu_nodes"):
        if where == "cpu_nodes" and cannot:
            yield f"  compile_where cpu_nodes    not on {experiment.spec.release}"
            continue
        run = forecast(compiled_where(experiment, where), assumed, compiled=compiled)
        billed = run.unlimited.bounds(lambda run: run.billed_minutes_before_first_token)
        this = ", as here" if where == experiment.spec.aws.compile_where else ""
        words = _cpu_words(run, saves=billed.best < on_accelerator.best)
        on_accelerator = billed
        minutes = f"{billed.text(digits=1)} minutes"
        yield f"  compile_where {where:<12} {minutes}{this}{_first_run_usd(run)}{words}"
        yield from _cpu_node_lines(run)


def _cpu_words(run: Forecast, *, saves: bool) -> str:
    """What graphs from CPU nodes are good for, and what the worst case is made of."""
    if not _compiled_on_cpu(run):
        return ""
    if not compiled_in_time(run.assumed):
        return _TOO_LATE
    block = _IN_BLOCK if run.experiment.in_block else ""
    return f"{'' if saves else _NOTHING_SAVED}{_REJECTED}{block}"


def _first_run_usd(run: Forecast) -> str:
    """CPU nodes alone where accelerators cost the same both ways, or nobody knows what."""
    experiment, cpu = run.experiment, _cpu_nodes_usd(run)
    beside = f"at most {cpu.text(digits=2)} USD of CPU nodes" if cpu else ""
    if experiment.spec.aws.price is None or experiment.in_block:
        return f", with {beside}" if cpu else ""
    usd = run.usd(run.billed_minutes)
    whole = f" + {beside} = at most {(usd + cpu).text(digits=2)} USD" if cpu else ""
    return f", first run {usd.text(digits=2)} USD{whole}"


def _cpu_node_lines(run: Forecast) -> Iterator[str]:
    """How their cost is worked out."""
    if not (graphs := _compiled_on_cpu(run)):
        return
    price, usd = assumption_data().compile_node, _cpu_nodes_usd(run)
    certain = sum(graph.certain for graph in graphs)
    worked_out = f": {_worked_out(usd, digits=2)} USD" if usd else ""
    likely = "; one more for each likely candidate" * (certain < len(graphs))
    way = run.experiment.spec.release_facts.cpu_compile
    others = f"; {way.others}" if way and way.others else ""
    yield (
        f"    CPU nodes: {certain} x {price.what} as Spot, at most at the on-demand rate"
        f"{worked_out} ({price.source}, {price.as_of.isoformat()}){likely}{others}"
    )


def _cpu_nodes_usd(run: Forecast) -> Bounds | None:
    """At most, for the graphs that are compiled in any case; None: there are none."""
    certain = sum(graph.certain for graph in _compiled_on_cpu(run))
    rate = exactly(assumption_data().compile_node.usd_per_hour)
    minutes = cpu_compile_minutes(run.assumed).called("minutes")
    return minutes / 60 * certain * rate if certain else None


def _compiled_on_cpu(run: Forecast) -> list[GraphToCompile]:
    graphs = graphs_to_compile(run.experiment)
    return [graph for graph in graphs if graph.variant.name not in run.compiled]


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
    yield from _beside_lines(first)


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
    yield from _beside_lines(first)


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


def _beside_lines(first: Forecast) -> Iterator[str]:
    if cpu := _cpu_nodes_usd(first):
        yield (
            f"  compiling   at most {cpu.text(digits=2)} USD of CPU nodes in the first run, "
            f"in addition; {BUDGET} does not count them"
        )
    yield _standing_line()
    yield _metrics_line(first.experiment)


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
