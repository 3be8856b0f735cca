"""Namespace, service accounts and network policies, which every other chart needs."""

from pathlib import Path

import cdk8s
import yaml
from constructs import Construct

from charts import k8s, names
from charts.pods import metadata
from draftworth.planning.resolved import ResolvedNeuron

_POLICIES = Path(__file__).with_name("network_policies.yaml")


def foundation_chart(scope: Construct, *, experiment: ResolvedNeuron) -> cdk8s.Chart:
    """Make the namespace, the service accounts and the network policies."""
    chart = cdk8s.Chart(scope, "foundation", labels=names.experiment_labels(experiment))
    # `baseline`, not `restricted`: the Neuron images run as root.
    level = {"pod-security.kubernetes.io/enforce": "baseline"}
    k8s.KubeNamespace(
        chart, "namespace", metadata=k8s.ObjectMeta(name=names.NAMESPACE, labels=level)
    )
    serving = [names.service_name(variant.name) for variant in experiment.variants]
    for name in (names.STAGER_SERVICE_ACCOUNT, *serving, names.MEASURING_JOB_SERVICE_ACCOUNT):
        # Only a measuring Job that starts and stops servers calls the Kubernetes API; its pod
        # mounts the token itself. Pod Identity and the S3 driver use other tokens.
        k8s.KubeServiceAccount(
            chart,
            f"account-{name}",
            metadata=metadata(name),
            automount_service_account_token=False,
        )
    policies = yaml.safe_load(_POLICIES.read_text(encoding="utf-8"))
    scaling = policies.pop("load-generator-that-scales")
    if experiment.spec.changes_servers:
        policies["load-generator"] = scaling
    for name, spec in policies.items():
        k8s.KubeNetworkPolicy(chart, f"policy-{name}", metadata=metadata(name), spec=spec)
    return chart
