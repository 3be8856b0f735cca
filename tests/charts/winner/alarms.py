"""A winner for tests, as if it had been measured, and its CloudWatch alarm."""

from dataclasses import replace
from functools import cache
from typing import Any

from charts.winner import winner_alarms
from charts.winner.measured_winner import MeasuredWinner
from draftworth.analysis.statistics import Estimate
from draftworth.decision.facts import facts_of
from draftworth.planning.resolved import load
from draftworth.report.sentences import headline, winner_to_export
from tests.charts.winner.runs import NEURON, as_read, built_run, experiment_path, exported


@cache
def measured(*, pays: bool = True, counted: bool = True) -> MeasuredWinner:
    experiment = load(experiment_path(NEURON))
    run = built_run(experiment, pays=pays)
    if not counted:
        run = replace(run, blocks=tuple(replace(b, speculation=None) for b in run.blocks))
    facts = facts_of(run, {})
    winner = winner_to_export(facts)
    variant = next(v for v in experiment.variants if v.name == winner.variant)
    return MeasuredWinner(
        winner=winner, headline=headline(facts), result=run.result, variant=variant
    )


def break_even() -> Estimate:
    watched = winner_alarms.watched(measured())
    assert watched
    return watched[1]


def template() -> Any:
    return as_read([winner_alarms.cloudwatch_alarm(exported(), break_even())])[0]
