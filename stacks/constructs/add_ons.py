"""EKS add-ons; each that calls AWS has a role of its own. The Neuron driver, by Helm.

If the experiment pins no version, EKS takes the default that it tested with the cluster's version.
"""

import json
from collections.abc import Mapping
from typing import Any

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam
from constructs import Construct

from draftworth.experiment.aws import S3_ADD_ON
from stacks.constructs.functions import owned_log_group
from stacks.constructs.roles import accept_managed_policies, pod_role

MAINTAINED_WITH_THE_ADD_ON = (
    "The policy that AWS documents for this add-on and keeps in step with it; the role serves the "
    "add-on's service account alone."
)
# Container Insights with enhanced metrics and accelerators, in the namespace ContainerInsights.
# This replaces the agent's whole configuration, so Application Signals, on by default, is off.
INSIGHTS_METRICS = {"enhanced_container_insights": True, "accelerated_compute_metrics": True}
INSIGHTS_CONFIGURATION = {
    "agent": {"config": {"logs": {"metrics_collected": {"kubernetes": INSIGHTS_METRICS}}}}
}
NEURON_CHART = "oci://public.ecr.aws/neuron/neuron-helm-chart"
# The chart turns the device plugin and the node problem detector on by default. Device plugin and
# DRA driver on one node hand out the same devices twice.
NEURON_VALUES = {
    "devicePlugin": {"enabled": False},
    "npd": {"enabled": False},
    "draDriver": {"enabled": True},
}
INSIGHTS_LOGS = ("application", "dataplane", "host", "performance")


def insights_logs(scope: Construct, *, cluster_name: str) -> Construct:
    """Add the log groups of the CloudWatch agent, made before the nodes, and deleted after them.

    The agent makes a group that is missing. If a group went before the last node, the agent would
    make it again without an owner, and the next deploy could not make its own.
    """
    layer = Construct(scope, "InsightsLogs")
    for log in INSIGHTS_LOGS:
        name = f"/aws/containerinsights/{cluster_name}/{log}"
        owned_log_group(layer, log, log_group_name=name)
    return layer


def node_add_ons(
    scope: Construct, *, cluster: eks.ICluster, versions: Mapping[str, str]
) -> Construct:
    """Add what a node needs to become ready, made before the node groups.

    They go after the nodes. The network plugin must stay longest: it gives interfaces back when
    pods go, and an interface that is left holds its security group and subnet.
    """
    layer = Construct(scope, "NodeAddOns")
    agent = _add_on(layer, cluster, "eks-pod-identity-agent", versions)
    _add_on(layer, cluster, "kube-proxy", versions)
    role = _managed_role(
        layer,
        "vpc-cni",
        "AmazonEKS_CNI_Policy",
        cluster_name=cluster.cluster_name,
        namespace="kube-system",
        service_account="aws-node",
    )
    network_plugin = _add_on(
        layer,
        cluster,
        "vpc-cni",
        versions,
        configuration={"enableNetworkPolicy": "true"},
        roles={"aws-node": role},
    )
    network_plugin.node.add_dependency(agent)
    return layer


def pod_add_ons(
    scope: Construct, *, cluster: eks.ICluster, versions: Mapping[str, str], logs: Construct
) -> Construct:
    """Add what runs as ordinary pods, and so needs nodes."""
    layer = Construct(scope, "PodAddOns")
    # The S3 driver without a role: a volume is mounted with the rights of the pod that uses it.
    for name in ("coredns", "metrics-server", S3_ADD_ON):
        _add_on(layer, cluster, name, versions)
    role = _managed_role(
        layer,
        "cloudwatch",
        "CloudWatchAgentServerPolicy",
        cluster_name=cluster.cluster_name,
        namespace="amazon-cloudwatch",
        service_account="cloudwatch-agent",
    )
    insights = _add_on(
        layer,
        cluster,
        "amazon-cloudwatch-observability",
        versions,
        configuration=INSIGHTS_CONFIGURATION,
        roles={"cloudwatch-agent": role},
    )
    insights.node.add_dependency(logs)
    return layer


def neuron_driver(scope: Construct, id_: str, *, cluster: eks.ICluster) -> eks.HelmChart:
    """Install the Neuron DRA driver; its pods run on accelerator nodes alone."""
    return eks.HelmChart(
        scope,
        id_,
        cluster=cluster,
        repository=NEURON_CHART,
        chart="neuron-helm-chart",
        version="1.10.0",
        release="neuron",
        namespace="neuron-dra-driver",
        create_namespace=True,
        values=NEURON_VALUES,
    )


def _add_on(
    scope: Construct,
    cluster: eks.ICluster,
    name: str,
    versions: Mapping[str, str],
    *,
    configuration: Mapping[str, Any] | None = None,
    roles: Mapping[str, aws_iam.Role] | None = None,
) -> eks.CfnAddon:
    """Add one without CDK's own Addon construct, which knows no Pod Identity.

    versions: pinned version by add-on. roles: role by service account.
    """
    associations = [
        eks.CfnAddon.PodIdentityAssociationProperty(service_account=account, role_arn=role.role_arn)
        for account, role in (roles or {}).items()
    ]
    return eks.CfnAddon(
        scope,
        name,
        addon_name=name,
        addon_version=versions.get(name),
        cluster_name=cluster.cluster_name,
        resolve_conflicts="OVERWRITE",
        preserve_on_delete=False,
        configuration_values=json.dumps(configuration, sort_keys=True) if configuration else None,
        pod_identity_associations=associations or None,
    )


def _managed_role(scope: Construct, name: str, policy: str, **pod: str) -> aws_iam.Role:
    """Return a role with one policy of AWS.

    pod: the pods that get it, as for `pod_role`.
    """
    role = pod_role(scope, f"{name}-role", description=f"EKS add-on {name}", **pod)
    role.add_managed_policy(aws_iam.ManagedPolicy.from_aws_managed_policy_name(policy))
    accept_managed_policies(role, policy, reason=MAINTAINED_WITH_THE_ADD_ON)
    return role
