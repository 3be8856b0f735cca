"""All charts of an experiment, in the order in which they are applied."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import cdk8s

from charts.bindings import Bindings
from charts.bucket_volumes import StorageChart
from charts.canaries import CanaryChart
from charts.checkpoint_staging import StagingChart
from charts.foundation import FoundationChart
from charts.graph_scripts import GraphScriptsChart
from charts.measuring_job import MeasuringChart
from charts.serving_chart import CandidateChart, ServingChart
from draftworth.planning.resolved import ResolvedNeuron


def benchmark_charts(experiment: ResolvedNeuron, bindings: Bindings) -> tuple[cdk8s.Chart, ...]:
    """Return the charts of an experiment in the order in which they are applied.

    Each chart needs objects of the charts before it, except that the charts of a search's candidate
    variants do not need each other.
    """
    scope = cdk8s.App()
    serving = ServingChart(scope, "serving", experiment=experiment, bindings=bindings)
    measuring = MeasuringChart(
        scope, "load-generator", experiment=experiment, bindings=bindings, serving=serving
    )
    return (
        FoundationChart(scope, "foundation", experiment=experiment),
        StorageChart(scope, "storage", experiment=experiment, bindings=bindings),
        StagingChart(scope, "staging", experiment=experiment, bindings=bindings),
        GraphScriptsChart(scope, "graph-scripts", experiment=experiment),
        serving,
        *serving.candidates,
        measuring,
        CanaryChart(
            scope,
            "canary",
            experiment=experiment,
            bindings=bindings,
            job_name=measuring.job_name,
        ),
    )


def in_steps(charts: Sequence[cdk8s.Chart]) -> Iterator[list[cdk8s.Chart]]:
    """Yield lists of charts in the order to apply; charts of one list can be applied together.

    The charts of a search's candidates, which do not need each other, are in one list. Each other
    chart is in a list of its own. charts: as `benchmark_charts` returns them.
    """
    for _, step in groupby(charts, lambda c: isinstance(c, CandidateChart) or c.node.id):
        yield [*step]
