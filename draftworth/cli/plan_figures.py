"""`draftworth plan`: the tables of phases and of a search's amounts, and the cost of a run."""

from collections.abc import Iterator, Sequence

from draftworth.errors import counted
from draftworth.experiment.aws import CapacityBlock
from draftworth.metrics.definitions import FINDING_METRICS, charged
from draftworth.planning import resolved
from draftworth.planning.capacity_block import PaidBlock
from draftworth.planning.timeline import RunForecast
from draftworth.searching.extent import Extent
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
    """Return the lines of a table of what so many candidates of a search need; none without."""
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
    is_paid_by_hour = aws.price is not None and not isinstance(aws.capacity, CapacityBlock)
    usd = f"{run.usd(minutes):.2f}" if is_paid_by_hour else "-"
    return (name, f"{candidates:g}", f"{minutes.times(1 / 60):.1f}", usd)


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


def hourly_text(experiment: resolved.ResolvedNeuron) -> str:
    """Return what all nodes cost an hour, or how to get a price."""
    if experiment.spec.aws.price is None:
        return no_price_text(experiment)
    price = experiment.node_price
    return (
        f"{experiment.usd_per_hour:.2f} USD an hour ({experiment.placement.nodes} x "
        f"{price.usd_per_hour:.2f}; {price.source}, {price.as_of.isoformat()})"
    )


def metrics_charged(experiment: resolved.ResolvedNeuron) -> int:
    """Return how many metrics CloudWatch charges; each set of dimensions is billed as one."""
    classes, loads = len(experiment.spec.workload.classes), len(experiment.loads)
    of_variants = sum(len(charged(speculates=v.speculates)) for v in experiment.variants)
    of_verdict = len(FINDING_METRICS) * (len(experiment.variants) - 1)
    traffics = classes + 1 if classes > 1 else classes  # each class, and their mix
    return (of_variants * classes + of_verdict * traffics) * loads
