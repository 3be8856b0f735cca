"""`draftworth plan`, a search: its candidates, how many are measured, and what that takes."""

from __future__ import annotations

from collections.abc import Iterator

from draftworth.experiment.aws import CapacityBlock
from draftworth.planning.bounds import Bounds
from draftworth.planning.resolved import ResolvedExperiment
from draftworth.planning.search_time import SearchTime
from draftworth.planning.timeline import NODE_START, Forecast
from draftworth.searching.extent import STUDY, Extent
from draftworth.terminal import table_lines


def candidate_lines(experiment: ResolvedExperiment) -> Iterator[str]:
    """Of a search: its candidates by draft, and which are certainly measured."""
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


def search_lines(run: Forecast) -> Iterator[str]:
    """What the certain candidates take, those of an average search, and all; and `search.stop`."""
    search = run.search
    if search is None:
        return
    if search.one.terms:
        yield f"    candidate_minutes: {search.one.how} = {search.one.text(digits=1)}"
    yield from table_lines(
        [_row(run, search, *row) for row in _amounts(search.extent)],
        ("", "candidates", "hours", "USD", "minutes that each node is billed"),
        numbers=range(1, 4),
        ruled=True,
    )
    yield from _stop_lines(run, search)


def _amounts(extent: Extent) -> Iterator[tuple[str, float]]:
    yield "certainly measured", len(extent.certain)
    if extent.others:
        yield "on average, without stop", extent.average
        yield "all", extent.most


def _row(run: Forecast, search: SearchTime, name: str, candidates: float) -> tuple[str, ...]:
    minutes, aws = run.minutes_of(candidates), run.experiment.spec.aws
    certain = run.minutes_of(len(search.extent.certain)).text(digits=1)
    more = candidates - len(search.extent.certain)
    how = f"{certain} + {more:g} x candidate_minutes = " if more else ""
    usd = "-" if aws.price is None else run.usd(minutes).text(digits=2)
    if isinstance(aws.capacity, CapacityBlock):
        usd = "-"
    return (
        name,
        f"{candidates:g}",
        (minutes / 60).text(digits=1),
        usd,
        f"{how}{minutes.text(digits=1)}",
    )


def _stop_lines(run: Forecast, search: SearchTime) -> Iterator[str]:
    """When no further candidate begins, and how many that lets begin."""
    words = [*_stop_words(run)]
    if words:
        begun = search.begun_in_all(run.searched_minutes)
        yield (
            f"  search.stop: {', '.join(words)}; no candidate begins later than "
            f"{search.stop_minutes:.1f} minutes after `{NODE_START}`: {_cases(begun)} in all"
        )
    if (given := run.experiment.search) and given.tokens_per_day is not None:
        yield (
            f"  search.stop.tokens_per_day {given.tokens_per_day:,.0f}: it ends sooner where "
            f"another candidate would cost more than it is likely to save in {given.days:g} days"
        )
    yield (
        "  billed below: in the best case the certain candidates, in the worst all that "
        f"{'search.stop lets begin' if words else 'there are'}, the last one to its end"
    )


def _cases(begun: Bounds) -> str:
    if begun.best == begun.worst:
        return f"{begun.best:g} candidates"
    return f"{begun.best:g} candidates in the best case, {begun.worst:g} in the worst,"


def _stop_words(run: Forecast) -> Iterator[str]:
    spec = run.experiment.spec
    if spec.search is None:
        return
    if spec.search.stop.hours is not None:
        yield f"hours {spec.search.stop.hours:g} x 60 = {spec.search.stop.hours * 60:.1f} minutes"
    if spec.search.stop.usd is not None and spec.aws.price is not None:
        usd, rate = spec.search.stop.usd, run.experiment.usd_per_hour
        yield f"usd {usd:g} / {rate:.2f} x 60 = {usd / rate * 60:.1f} minutes"
