"""`draftworth plan`: the time of each phase, a search's candidates, and the cost of a run."""

from collections.abc import Iterator

from draftworth.errors import counted
from draftworth.experiment.aws import CapacityBlock
from draftworth.metrics.definitions import FINDING_METRICS, charged
from draftworth.planning import resolved, search_time
from draftworth.planning.assumptions import HOURS_A_MONTH, OPTION, Bounds, assumption_data
from draftworth.planning.capacity_block import PaidBlock, free_slots
from draftworth.planning.timeline import BUDGET, NODE_START, RunForecast
from draftworth.records.deployment import BLOCK_MARGIN_SECONDS
from draftworth.searching.extent import STUDY, Extent
from draftworth.terminal import table_lines


def time_lines(run: RunForecast, *, verbose: bool) -> Iterator[str]:
    """Yield when the run is over; if `verbose`, with each phase before it."""
    if verbose:
        yield ""
        yield (
            "time line   minutes from the start of `cdk deploy`, best and worst case "
            "(docs/timeline.md)"
        )
        headings = ("* nodes are billed", "starts best", "worst", "takes best", "worst")
        phases = (_phase_row(run, name) for name in run.unlimited.best.spans)
        yield from table_lines(phases, headings, numbers=range(1, 5), ruled=True)
    yield (
        f"ready       {run.over_minutes:.0f} minutes after the start of `cdk deploy`, without a "
        "limit or a wait for capacity"
    )
    for case, schedule in (("best", run.limited.best), ("worst", run.limited.worst)):
        if schedule.ended_by:
            yield f"  {schedule.ended_by} ends the run in the {case} case"
    certain = " the candidates that are certain" if run.search else ""
    yield f"  {run.measured_minutes:.0f} minutes of them measuring{certain}"
    if verbose:
        rows = (f"{name} {Bounds(row.low, row.high):g}" for name, row in run.assumed)
        yield f"  assumed ({OPTION} replaces one): {', '.join(rows)}"
        if run.search:
            yield from _search_lines(run, run.search)


def _phase_row(run: RunForecast, name: str) -> tuple[str, ...]:
    spans = [schedule.spans.get(name) for schedule in (run.limited.best, run.limited.worst)]
    minutes = [*(span and span.start for span in spans), *(span and span.minutes for span in spans)]
    cells = ("-" if number is None else f"{number:.1f}" for number in minutes)
    mark = "*" if run.unlimited.best.spans[name].billed else " "
    return (f"{mark} {name}", *cells)


def candidate_lines(experiment: resolved.ResolvedExperiment) -> Iterator[str]:
    """Yield a search's candidates by draft, and which of them are certain to be measured."""
    search, extent = experiment.search, experiment.extent
    if search is None or extent is None:
        return
    by_draft: dict[str, list[int]] = {}
    for candidate in search.candidates:
        by_draft.setdefault(candidate.draft, []).append(candidate.window)
    yield f"search      {counted(extent.most, 'candidate')}, one at a time beside the baseline"
    for draft, windows in by_draft.items():
        yield f"  {draft}: {len(windows)}, with window {_windows(windows)}"
    yield f"  certainly measured: {', '.join(candidate.variant for candidate in extent.certain)}"
    if extent.others:
        yield (
            f"  may be measured: {len(extent.others)} more; simulated searches of the kind took "
            f"{extent.average:.1f} in all, on average ({STUDY})"
        )


def _windows(windows: list[int]) -> str:
    first, last = min(windows), max(windows)
    if len(windows) > 2 and sorted(windows) == [*range(first, last + 1)]:
        return f"{first} to {last}"
    return ", ".join(map(str, windows))


def _search_lines(run: RunForecast, search: search_time.SearchTime) -> Iterator[str]:
    if search.extent.others:
        yield f"  each further candidate takes {search.candidate_minutes:.1f} minutes"
    yield from table_lines(
        [_amount_row(run, *amount) for amount in _amounts(search.extent)],
        ("", "candidates", "billed hours", "USD"),
        numbers=range(1, 4),
        ruled=True,
    )
    yield from _stop_lines(run, search)


def _amounts(extent: Extent) -> Iterator[tuple[str, float]]:
    yield "certainly measured", len(extent.certain)
    if extent.others:
        yield "on average, without stop", extent.average
        yield "all", extent.most


def _amount_row(run: RunForecast, name: str, candidates: float) -> tuple[str, ...]:
    minutes, aws = run.minutes_of(candidates), run.experiment.spec.aws
    is_paid_by_hour = aws.price is not None and not isinstance(aws.capacity, CapacityBlock)
    usd = f"{run.usd(minutes):.2f}" if is_paid_by_hour else "-"
    return (name, f"{candidates:g}", f"{minutes.times(1 / 60):.1f}", usd)


def _stop_lines(run: RunForecast, search: search_time.SearchTime) -> Iterator[str]:
    ends = "there are"
    if search.stop_minutes < float("inf"):
        ends = "search.stop lets begin"
        begun = search.begun_in_all(run.searched_minutes)
        yield (
            f"  search.stop: no candidate begins later than {search.stop_minutes:.1f} minutes "
            f"after `{NODE_START}`: {begun.best:g} in the best case, {begun.worst:g} in the worst"
        )
    if (given := run.experiment.search) and given.tokens_per_day is not None:
        yield (
            f"  search.stop.tokens_per_day {given.tokens_per_day:,.0f}: it ends sooner where "
            f"another candidate would cost more than it is likely to save in {given.days:g} days"
        )
    yield (
        "  billed below: in the best case the certain candidates, in the worst all that "
        f"{ends}, the last one to its end"
    )


def run_figures(run: RunForecast) -> dict[str, object]:
    """Return the best and the worst case of a run for programs; USD is None without a price."""
    aws = run.experiment.spec.aws
    figures = {
        "usd": None if aws.price is None else run.usd(run.billed_minutes),
        "billed_minutes": run.billed_minutes,
        "ready_minutes": run.over_minutes,
    }
    cases = {
        key: found and {"best": found.best, "worst": found.worst} for key, found in figures.items()
    }
    return {**cases, "nodes": run.experiment.placement.nodes, "budget_usd": aws.budget_usd}


def cost_lines(first: RunForecast, second: RunForecast, *, verbose: bool) -> Iterator[str]:
    """Yield the cost of a first run, of a second run, and of what is billed beside the nodes."""
    experiment, aws = first.experiment, first.experiment.spec.aws
    if isinstance(aws.capacity, CapacityBlock) and aws.price:
        yield from _block_lines(first, second, aws.capacity)
    else:
        graphs = "the certain candidates' graphs" if second.search else "compiled graphs"
        limit = f"; {BUDGET} {aws.budget_usd:.2f}" if aws.price else ""
        yield f"first run   {billed_text(first)}{limit}"
        yield f"second run  {billed_text(second)}, on {graphs}"
        yield f"price       {_hourly_text(experiment) if aws.price else no_price_text(experiment)}"
    yield _standing_line()
    if verbose:
        yield _metrics_line(experiment)


def no_price_text(experiment: resolved.ResolvedNeuron) -> str:
    """Explain why the cost is not known, and how to get a price."""
    return (
        "unknown: aws.price is left out and none has been looked up; "
        f"`python -m draftworth price {experiment.path}` asks AWS"
    )


def billed_text(run: RunForecast) -> str:
    """Return the billed minutes of a run, and their cost if a price is known."""
    nodes = counted(run.experiment.placement.nodes, "node")
    minutes = f"{run.billed_minutes:.1f} billed minutes x {nodes}"
    if run.experiment.spec.aws.price is None:
        return minutes
    return f"{run.usd(run.billed_minutes):.2f} USD for {minutes}"


def block_text(experiment: resolved.ResolvedNeuron, capacity: CapacityBlock) -> str:
    """Return the cost of a Capacity Block, with the factors of which it is the product."""
    price, block = experiment.node_price, PaidBlock.of(experiment, capacity)
    assumed = "" if capacity.hours else "; aws.capacity.hours is not given: one day, the shortest"
    return (
        f"{block.usd:.2f} USD for the Capacity Block, whole and in advance: "
        f"{block.hours:g} hours x {block.instances} x {price.usd_per_hour:.2f} ({price.source}, "
        f"{price.as_of.isoformat()}){assumed}"
    )


def _hourly_text(experiment: resolved.ResolvedNeuron) -> str:
    price = experiment.node_price
    return (
        f"{experiment.usd_per_hour:.2f} USD an hour ({experiment.placement.nodes} x "
        f"{price.usd_per_hour:.2f}; {price.source}, {price.as_of.isoformat()})"
    )


def _block_lines(first: RunForecast, second: RunForecast, capacity: CapacityBlock) -> Iterator[str]:
    block = PaidBlock.of(first.experiment, capacity)
    yield f"cost        {block_text(first.experiment, capacity)}"
    nodes = counted(first.experiment.placement.nodes, "node")
    for name, run in (("first run ", first), ("second run", second)):
        idle = block.idle_share(run.billed_minutes).times(100)
        yield (
            f"{name}  {run.billed_minutes:.0f} minutes of {nodes}: "
            f"{idle:.0f}% of the block stays idle"
        )
    more, room = block.further_runs(first, second), free_slots(first.experiment, block.instances)
    yield (
        f"would fit   {more:g} more runs on compiled graphs, one after the other (raise `rerun`, "
        f"or change the workload), and {room} more variants at the same time; the nodes go "
        f"{BLOCK_MARGIN_SECONDS // 60} minutes before the block ends"
    )


def _standing_line() -> str:
    total_usd = sum(item.count * item.usd_per_hour for item in assumption_data().standing)
    return (
        f"beside it   about {total_usd:.2f} USD an hour from deploy to destroy; storage, logs and "
        "traffic on top"
    )


def _metrics_line(experiment: resolved.ResolvedNeuron) -> str:
    """Return a line with CloudWatch's charge; each set of dimensions is billed as one metric."""
    classes, loads = len(experiment.spec.workload.classes), len(experiment.loads)
    of_variants = sum(len(charged(speculates=v.speculates)) for v in experiment.variants)
    of_verdict = len(FINDING_METRICS) * (len(experiment.variants) - 1)
    traffics = classes + 1 if classes > 1 else classes  # each class, and their mix
    count = (of_variants * classes + of_verdict * traffics) * loads
    price = assumption_data().custom_metric
    usd_per_month = count * price.usd_per_month
    return (
        f"metrics     {count} in CloudWatch: at most {usd_per_month / HOURS_A_MONTH:.3f} USD an "
        f"hour while results come in, {usd_per_month:.2f} USD in a month that measures all the "
        f"time ({price.usd_per_month:.2f} each a month, {price.as_of.isoformat()})"
    )
