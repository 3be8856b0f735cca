"""All charts of an experiment, in the order in which they are applied."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import cdk8s

from charts.canary import canary_chart
from charts.checkpoint_stager import staging_chart
from charts.foundation import foundation_chart
from charts.graph_scripts import graph_scripts_chart
from charts.measuring import MeasuringChart
from charts.names import Bindings
from charts.serving import CandidateChart, ServingChart
from charts.storage import storage_chart
from draftworth.planning.resolved import ResolvedNeuron


def benchmark_charts(experiment: ResolvedNeuron, bindings: Bindings) -> tuple[cdk8s.Chart, ...]:
    """Return the charts of an experiment in the order in which they are applied.

    Each chart needs those before it; charts of a search's candidates do not need each other.
    """
    scope = cdk8s.App()
    serving = ServingChart(scope, "serving", experiment=experiment, bindings=bindings)
    measuring = MeasuringChart(
        scope, "load-generator", experiment=experiment, bindings=bindings, serving=serving
    )
    return (
        foundation_chart(scope, experiment=experiment),
        storage_chart(scope, experiment=experiment, bindings=bindings),
        staging_chart(scope, experiment=experiment, bindings=bindings),
        graph_scripts_chart(scope, experiment=experiment),
        serving,
        *serving.candidates,
        measuring,
        canary_chart(
            scope,
            experiment=experiment,
            bindings=bindings,
            job_name=measuring.job_name,
        ),
    )


def in_steps(charts: Sequence[cdk8s.Chart]) -> Iterator[list[cdk8s.Chart]]:
    """Yield groups of charts in the order to apply; a chart needs only charts of earlier groups."""
    for _, step in groupby(charts, lambda c: isinstance(c, CandidateChart) or c.node.id):
        yield [*step]
