"""All charts of an experiment, in the order in which they are applied."""

from __future__ import annotations

import cdk8s

from charts.bindings import Bindings
from charts.canary import CanaryChart
from charts.checkpoint_stager import StagingChart
from charts.foundation import FoundationChart
from charts.graph_scripts import GraphScriptsChart
from charts.load_generator import LoadGeneratorChart
from charts.serving import ServingChart
from charts.storage import StorageChart
from draftworth.planning.resolved import ResolvedNeuron


def benchmark_charts(experiment: ResolvedNeuron, bindings: Bindings) -> tuple[cdk8s.Chart, ...]:
    """Foundation, storage, staging, programs, serving, load generator, canary: each needs those
    before it."""
    scope = cdk8s.App()
    serving = ServingChart(scope, "serving", experiment=experiment, bindings=bindings)
    measuring = LoadGeneratorChart(
        scope, "load-generator", experiment=experiment, bindings=bindings, serving=serving
    )
    return (
        FoundationChart(scope, "foundation", experiment=experiment),
        StorageChart(scope, "storage", experiment=experiment, bindings=bindings),
        StagingChart(scope, "staging", experiment=experiment, bindings=bindings),
        GraphScriptsChart(scope, "graph-scripts", experiment=experiment),
        serving,
        measuring,
        CanaryChart(
            scope,
            "canary",
            experiment=experiment,
            bindings=bindings,
            job_name=measuring.job_name,
        ),
    )
