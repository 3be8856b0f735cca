"""`draftworth plan`, the time line: a table that a reader can check by hand, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from draftworth.experiment.aws import CapacityBlock
from draftworth.planning.assumptions import OPTION, Assumption, Assumptions, assumption_data
from draftworth.planning.bounds import CASES, Bounds
from draftworth.planning.measuring_time import block_seconds, round_minutes
from draftworth.planning.phases import Phase, Timeline
from draftworth.planning.timeline import BUDGET, NODE_START, TEARDOWN, Forecast
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
    yield from _round_lines(first)
    yield ""
    yield from _cost_lines(first, second)


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
        for variant in run.experiment.variants:
            seconds = block_seconds(run.experiment, variant, load, run.assumed)
            yield f"      {variant.name}, seconds a case: {_worked_out(seconds)}"


def _worked_out(quantity: Bounds, *, digits: int = 1) -> str:
    return f"{quantity.how} = {quantity.text(digits=digits)}"


def _cost_lines(first: Forecast, second: Forecast) -> Iterator[str]:
    experiment, aws = first.experiment, first.experiment.spec.aws
    nodes = experiment.placement.nodes
    yield (
        f"cost        {experiment.usd_per_hour:.2f} USD an hour while the accelerator nodes are up "
        f"({nodes} x {aws.price.usd_per_hour:.2f}; {aws.price.source}, "
        f"{aws.price.as_of.isoformat()})"
    )
    yield (
        f"  first run   {_billed(first)}; {BUDGET} {aws.budget_usd:.2f}; on {nodes} "
        f"node{'s' if nodes > 1 else ''} from `{NODE_START}` to the end of `{TEARDOWN}`"
    )
    yield (
        f"  second run  {_billed(second)}: the cluster, checkpoints and compiled graphs are there"
    )
    if isinstance(aws.capacity, CapacityBlock):
        yield (
            "  a Capacity Block is paid in advance for its whole window, however much of it a run "
            "uses, and the nodes are released 40 minutes before it ends"
        )
    yield _standing_line()


def _billed(run: Forecast) -> str:
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
