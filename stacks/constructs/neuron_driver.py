"""The Neuron DRA driver, by Helm."""

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

CHART = "oci://public.ecr.aws/neuron/neuron-helm-chart"
CHART_VERSION = "1.10.0"
NAMESPACE = "neuron-dra-driver"
# The chart turns the device plugin and the node problem detector on by default. Device plugin and
# DRA driver on one node hand out the same devices twice.
VALUES = {
    "devicePlugin": {"enabled": False},
    "npd": {"enabled": False},
    "draDriver": {"enabled": True},
}


def neuron_driver(scope: Construct, id_: str, *, cluster: eks.ICluster) -> eks.HelmChart:
    """The chart's release; its pods run on accelerator nodes alone."""
    return eks.HelmChart(
        scope,
        id_,
        cluster=cluster,
        repository=CHART,
        chart="neuron-helm-chart",
        version=CHART_VERSION,
        release="neuron",
        namespace=NAMESPACE,
        create_namespace=True,
        values=VALUES,
    )
