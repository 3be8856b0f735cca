"""A winner for tests, as if it had been measured, and its CloudWatch alarm."""

from dataclasses import replace
from functools import cache
from typing import Any

from charts.winner import winner_alarms
from charts.winner.measured_winner import MeasuredWinner, measured_winner
from draftworth.analysis.statistics import Estimate
from draftworth.planning.resolved import load
from tests.charts.winner.runs import NEURON, as_read, built_run, experiment_path, exported


@cache
def measured(*, pays: bool = True, counted: bool = True) -> MeasuredWinner:
    experiment = load(experiment_path(NEURON))
    run = built_run(experiment, pays=pays)
    if not counted:
        run = replace(run, blocks=tuple(replace(b, speculation=None) for b in run.blocks))
    return measured_winner(run, {}, experiment)


def break_even() -> Estimate:
    watched = winner_alarms.watched(measured())
    assert watched
    return watched[1]


def template() -> Any:
    return as_read([winner_alarms.cloudwatch_alarm(exported(), break_even())])[0]
