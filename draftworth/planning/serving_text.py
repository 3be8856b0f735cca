"""What `plan` says of a winner that goes on serving: until when, where, and for how much."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from draftworth.experiment.afterwards import Nothing, ServeHere, ServeOnDevices
from draftworth.planning.bounds import Bounds
from draftworth.planning.resolved import ResolvedExperiment, ResolvedNeuron
from draftworth.planning.run_specification import nodes_of_winner, usd_per_hour_of_winner
from draftworth.planning.timeline import TEARDOWN, Forecast
from draftworth.records.capacity import BLOCK_MARGIN_SECONDS

_FORM = "%Y-%m-%d %H:%M UTC"


def serving_lines(
    experiment: ResolvedExperiment, *, run: Forecast | None, now: datetime
) -> Iterator[str]:
    """Nothing where nothing stays; `run`: the forecast of one that is deployed now."""
    after = experiment.spec.after
    if isinstance(after, Nothing):
        return
    given = after.serve_until
    until = "" if given is None else f"until {given.astimezone(UTC):{_FORM}}, "
    limit = f"it has cost {after.budget_usd:g} USD from the end of the run on"
    if isinstance(experiment, ResolvedNeuron) and experiment.in_block:
        minutes = BLOCK_MARGIN_SECONDS // 60
        limit = f"{minutes} minutes before its Capacity Block ends, which is paid for: "
        limit += "after.budget_usd is no limit there"
    yield ""
    yield f"after       the winner goes on serving {until}at most until {limit}"
    hours = math.inf if given is None else (_minutes(given, now) - _needed_minutes(run).best) / 60
    cost = _cost_words(experiment, after, max(0.0, hours))
    yield f"  {cost}; a probe every {after.probe_seconds:g} s"


def serving_advice(
    experiment: ResolvedExperiment, *, run: Forecast | None, now: datetime
) -> Iterator[str]:
    """A file that was right when it was written: for a report it still is."""
    after = experiment.spec.after
    if isinstance(after, Nothing) or after.serve_until is None:
        return
    left, needed = _minutes(after.serve_until, now), _needed_minutes(run)
    given = f"after.serve_until: given {after.serve_until.astimezone(UTC):{_FORM}}"
    later = "give a later time, or leave it out"
    if left <= 0:
        yield f"{given}, which is past: no winner would go on serving; {later}"
    elif left < needed.worst:
        goes = "no winner would go" if left < needed.best else "the winner may not go"
        yield (
            f"{given}, which is {left:.0f} minutes from now; a first run is over "
            f"{needed.text(digits=0)} minutes after its deploy begins: {goes} on serving; {later}"
        )


def _minutes(until: datetime, now: datetime) -> float:
    return (until - now) / timedelta(minutes=1)


def _needed_minutes(run: Forecast | None) -> Bounds:
    """From the deploy to the end of the run; 0 where it is not known."""
    if run is None:
        return Bounds(0.0, 0.0)
    return run.unlimited.bounds(lambda schedule: schedule.spans[TEARDOWN].start)


def _cost_words(
    experiment: ResolvedExperiment, after: ServeHere | ServeOnDevices, most_hours: float
) -> str:
    where = "this machine"
    if isinstance(experiment, ResolvedNeuron):
        where = f"{nodes_of_winner(experiment)} x {experiment.spec.instance_type}"
        if experiment.price is None:
            return f"{where}, whose price is not known"
    rates = usd_per_hour_of_winner(experiment, after)
    if not rates:
        return where
    usd = max(rates.values())  # of each variant the same
    hours = min(most_hours, after.budget_usd / usd)
    return f"{where}, {usd:.2f} USD an hour for at most {_time(hours)}"


def _time(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else f"{hours * 60:.1f} minutes"
