"""Namespace, service accounts and network policies, which every other chart needs."""

import cdk8s
from constructs import Construct

from charts import names
from charts.templates import add_objects, objects_in
from draftworth.planning.resolved import ResolvedNeuron


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
