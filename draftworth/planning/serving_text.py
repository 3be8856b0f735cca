"""What `plan` says of a winner that goes on serving: until when, where, and for how much."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date

from draftworth.experiment.afterwards import Nothing
from draftworth.experiment.aws import CapacityBlock
from draftworth.planning.resolved import ResolvedExperiment, ResolvedNeuron
from draftworth.planning.run_specification import nodes_of_winner, serving_limits

_FORM = "%Y-%m-%d %H:%M UTC"


def serving_lines(experiment: ResolvedExperiment) -> Iterator[str]:
    """Nothing where nothing stays."""
    after = experiment.spec.after
    if isinstance(after, Nothing):
        return
    given = after.serve_until
    until = "" if given is None else f"until {given.astimezone(UTC):{_FORM}}, "
    yield ""
    yield (
        f"after       the winner goes on serving {until}at most until it has cost "
        f"{after.budget_usd:g} USD from the end of the run on"
    )
    yield f"  {_cost_words(experiment)}; a probe every {after.probe_seconds:g} s"
    in_block = isinstance(experiment, ResolvedNeuron) and isinstance(
        experiment.spec.aws.capacity, CapacityBlock
    )
    if in_block:
        yield "  in the Capacity Block, which is paid for: its end is the limit, not the budget"


def past_serving(experiment: ResolvedExperiment, today: date) -> Iterator[str]:
    """A file that was right when it was written: for a report it still is."""
    after = experiment.spec.after
    if isinstance(after, Nothing) or after.serve_until is None:
        return
    until = after.serve_until.astimezone(UTC)
    if until.date() < today:
        yield (
            f"after.serve_until: given {until:{_FORM}}, which is past: no winner would go on "
            "serving; give a later time, or leave it out"
        )


def _cost_words(experiment: ResolvedExperiment) -> str:
    where = "this machine"
    if isinstance(experiment, ResolvedNeuron):
        where = f"{nodes_of_winner(experiment)} x {experiment.spec.instance_type}"
        if experiment.price is None:
            return f"{where}, whose price is not known"
    limits = serving_limits(experiment)
    if limits is None or not limits.usd_per_hour:
        return where
    usd = max(limits.usd_per_hour.values())  # of each variant the same
    return f"{where}, {usd:.2f} USD an hour for {_time(limits.budget_usd / usd)}"


def _time(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else f"{hours * 60:.1f} minutes"
