"""What an experiment's other objects need: namespace, service accounts and network policies."""

import cdk8s
from cdk8s_plus_35 import k8s
from constructs import Construct

from charts import names
from charts.network_policies import NetworkPolicies
from draftworth.planning.resolved import ResolvedNeuron


class FoundationChart(cdk8s.Chart):
    """The namespace, a service account for each kind of pod, and the network policies."""

    def __init__(self, scope: Construct, id_: str, *, experiment: ResolvedNeuron) -> None:
        super().__init__(scope, id_, labels=names.experiment_labels(experiment.name))
        k8s.KubeNamespace(
            self,
            "Namespace",
            metadata=k8s.ObjectMeta(
                name=names.NAMESPACE,
                # `baseline`, not `restricted`: the Neuron images run as root.
                labels={"pod-security.kubernetes.io/enforce": "baseline"},
            ),
        )
        serving = [names.service_name(variant.name) for variant in experiment.variants]
        fixed = (
            names.STAGER_SERVICE_ACCOUNT,
            names.MEASURING_JOB_SERVICE_ACCOUNT,
            names.LISTENER_SERVICE_ACCOUNT,
        )
        for name in (*fixed, *serving):
            service_account(self, name, namespace=names.NAMESPACE)
        NetworkPolicies(self, "NetworkPolicies", calls_kubernetes=experiment.spec.changes_servers)


def service_account(scope: Construct, name: str, *, namespace: str) -> k8s.KubeServiceAccount:
    """Make a service account whose pods mount no token of the Kubernetes API by themselves.

    Only a measuring Job that starts and stops servers calls the API; its pod mounts the token
    itself. Pod Identity and the S3 driver use other tokens.
    """
    return k8s.KubeServiceAccount(
        scope,
        f"ServiceAccount-{name}",
        metadata=k8s.ObjectMeta(name=name, namespace=namespace),
        automount_service_account_token=False,
    )
