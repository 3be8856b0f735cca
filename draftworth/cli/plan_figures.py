"""Makes for `draftworth plan` tables of phases and search costs, and the figures of `--json`."""

from collections.abc import Iterator, Sequence

from draftworth.metrics.definitions import FINDING_METRICS, charged
from draftworth.planning import resolved
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
