"""All charts of an experiment, in the order in which they are applied."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import cdk8s
from constructs import Construct

from charts import names
from charts.graph_scripts import graph_scripts_chart
from charts.jobs import canary_chart, staging_chart
from charts.measuring import MeasuringChart
from charts.names import Bindings
from charts.serving import CandidateChart, ServingChart
from charts.storage import storage_chart
from charts.templates import add_objects, objects_in
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


def foundation_chart(scope: Construct, *, experiment: ResolvedNeuron) -> cdk8s.Chart:
    """Make the namespace, the service accounts and the network policies."""
    chart = cdk8s.Chart(scope, "foundation", labels=names.experiment_labels(experiment))
    serving = [names.service_name(variant.name) for variant in experiment.variants]
    accounts = [names.STAGER_SERVICE_ACCOUNT, *serving, names.MEASURING_JOB_SERVICE_ACCOUNT]
    policies = objects_in("charts", "network_policies.yaml")
    scaling = policies.pop("load-generator-that-scales")
    if experiment.spec.changes_servers:
        policies["load-generator"] = scaling
    values = {"accounts": accounts, "policies": policies}
    add_objects(chart, objects_in("charts", "foundation.yaml.jinja", **values))
    return chart
