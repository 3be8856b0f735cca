"""`draftworth plan`: the time of each phase, and the number of candidates of a search."""

from collections.abc import Iterator

from draftworth.experiment.aws import CapacityBlock
from draftworth.planning.assumptions import OPTION, Bounds
from draftworth.planning.resolved import ResolvedExperiment
from draftworth.planning.schedule import NODE_START
from draftworth.planning.search_time import SearchTime
from draftworth.planning.timeline import RunForecast
from draftworth.searching.extent import STUDY, Extent
from draftworth.terminal import table_lines


def time_lines(run: RunForecast) -> Iterator[str]:
    """Yield the time line of a run."""
    yield ""
    yield (
        "time line   minutes from the start of `cdk deploy` in the best and in the worst case "
        f"(docs/timeline.md; {OPTION} replaces an assumption)"
    )
    headings = ("", "starts\nbest", "\nworst", "takes\nbest", "\nworst")
    phases = (_phase_row(run, name) for name in run.unlimited.best.spans)
    yield from table_lines(phases, headings, numbers=range(1, 5), ruled=True)
    yield "  * accelerator nodes are billed; waiting for capacity is in none of this"
    for case, schedule in (("best", run.limited.best), ("worst", run.limited.worst)):
        if schedule.ended_by:
            yield f"  {schedule.ended_by} ends the run in the {case} case"
    certain = " the candidates that are certain" if run.search else ""
    yield (
        f"  everything is measured after {run.over_minutes:.0f} minutes if no limit ends the run; "
        f"{run.measured_minutes:.0f} of them are spent measuring{certain}"
    )
    rows = (f"{name} {Bounds(row.low, row.high):g}" for name, row in run.assumed)
    yield f"  assumed: {', '.join(rows)}"
    if run.search:
        yield from _search_lines(run, run.search)


def _phase_row(run: RunForecast, name: str) -> tuple[str, ...]:
    spans = [schedule.spans.get(name) for schedule in (run.limited.best, run.limited.worst)]
    minutes = [*(span and span.start for span in spans), *(span and span.minutes for span in spans)]
    cells = ("-" if number is None else f"{number:.1f}" for number in minutes)
    mark = "*" if run.unlimited.best.spans[name].billed else " "
    return (f"{mark} {name}", *cells)


def candidate_lines(experiment: ResolvedExperiment) -> Iterator[str]:
    """Yield the candidates of a search by draft, and those that are certainly measured."""
    search, extent = experiment.search, experiment.extent
    if search is None or extent is None:
        return
    by_draft: dict[str, list[int]] = {}
    for candidate in search.candidates:
        by_draft.setdefault(candidate.draft, []).append(candidate.window)
    yield ""
    yield (
        f"search      {extent.most} candidate{'s' if extent.most > 1 else ''}, one at a time "
        "beside the baseline"
    )
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


def _search_lines(run: RunForecast, search: SearchTime) -> Iterator[str]:
    """The time and cost of the certain candidates, on average and of all; then `search.stop`."""
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


def _stop_lines(run: RunForecast, search: SearchTime) -> Iterator[str]:
    """The time after which no candidate begins, and how many begin before."""
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
