"""EKS add-ons, each with its own role if it calls AWS, and the Neuron driver as a Helm chart.

If the experiment pins no version, EKS installs its default for the cluster's Kubernetes version.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam, aws_s3_assets
from constructs import Construct

from draftworth.errors import UserInputError
from draftworth.experiment import aws
from draftworth.experiment.add_on_settings import ADD_ON_SETTINGS
from stacks.constructs.functions import owned_log_group
from stacks.constructs.roles import accept_managed_policies, pod_role

MAINTAINED_WITH_THE_ADD_ON = (
    "The policy that AWS documents for this add-on and keeps in step with it; the role serves the "
    "add-on's service account alone."
)
# The key of the CDK context that names a folder with a copy of the Neuron driver's Helm chart.
NEURON_CHART_CONTEXT = "neuron-chart"
# The Helm chart enables a device plugin and a node problem detector by default. A device plugin and
# a DRA driver on the same node would allocate the same devices twice.
NEURON_VALUES = {
    "devicePlugin": {"enabled": False},
    "npd": {"enabled": False},
    "draDriver": {"enabled": True},
}
# The namespace in which Helm records the release. It must exist, and must not be the driver's own:
# the chart has an object for that one (`neuron-dra-driver`), and some versions of Helm refuse an
# object that `--create-namespace` has created. It also ends only some time after an uninstall.
HELM_NAMESPACE = "kube-system"
INSIGHTS_LOGS = ("application", "dataplane", "host", "performance")


def insights_logs(scope: Construct, *, cluster_name: str) -> Construct:
    """Add the CloudWatch agent's log groups, and return the construct that holds them.

    It must be created before the nodes and deleted after them: the agent creates a missing group.
    If a group were deleted before the last node, the agent would create it again outside the stack,
    and the next deploy could not create it.
    """
    layer = Construct(scope, "InsightsLogs")
    for log in INSIGHTS_LOGS:
        name = f"/aws/containerinsights/{cluster_name}/{log}"
        owned_log_group(layer, log, log_group_name=name)
    return layer


def node_add_ons(
    scope: Construct, *, cluster: eks.ICluster, versions: Mapping[str, str]
) -> Construct:
    """Add the add-ons that a node needs to become ready; return the construct that holds them.

    It must be created before the nodes and deleted after them: the network plugin deletes a pod's
    network interface with the pod, and a subnet or security group that an interface uses cannot be
    deleted.
    versions: {add-on: its pinned version}; EKS chooses the version of an add-on that is missing.
    """
    layer = Construct(scope, "NodeAddOns")
    agent = _add_on(layer, cluster, "eks-pod-identity-agent", versions)
    _add_on(layer, cluster, "kube-proxy", versions)
    role = _pod_identity(
        layer, cluster, "vpc-cni", "AmazonEKS_CNI_Policy", pods=("kube-system", "aws-node")
    )
    network_plugin = _add_on(
        layer,
        cluster,
        "vpc-cni",
        versions,
        role=role,
    )
    network_plugin.node.add_dependency(agent)
    return layer


def pod_add_ons(
    scope: Construct, *, cluster: eks.ICluster, versions: Mapping[str, str], logs: Construct
) -> Construct:
    """Add the add-ons that run as ordinary pods and so need nodes; return their construct.

    versions: {add-on: its pinned version}. logs: the log groups of the CloudWatch agent.
    """
    layer = Construct(scope, "PodAddOns")
    # The S3 driver has no role: it mounts a volume with the role of the pod that uses the volume.
    for name in ("coredns", "metrics-server", aws.S3_ADD_ON):
        _add_on(layer, cluster, name, versions)
    pods = ("amazon-cloudwatch", "cloudwatch-agent")
    role = _pod_identity(layer, cluster, "cloudwatch", "CloudWatchAgentServerPolicy", pods=pods)
    insights = _add_on(
        layer,
        cluster,
        "amazon-cloudwatch-observability",
        versions,
        role=role,
    )
    insights.node.add_dependency(logs)
    return layer


def neuron_driver(scope: Construct, id_: str, *, cluster: eks.ICluster) -> eks.HelmChart:
    """Install the Neuron DRA driver; its pods run on accelerator nodes only.

    Helm pulls the chart by its tag in the middle of a deploy, unless the CDK context names a folder
    with a copy, which is then uploaded before the deploy (decision record 12). It raises
    UserInputError if the copy is another chart or version.
    """
    name = aws.NEURON_CHART.rpartition("/")[2]
    source: dict[str, Any] = {
        "repository": f"oci://{aws.NEURON_CHART_REGISTRY}/{aws.NEURON_CHART}",
        "chart": name,
        "version": aws.NEURON_CHART_VERSION,
    }
    if copy := scope.node.try_get_context(NEURON_CHART_CONTEXT):
        _check_chart(Path(copy), name)
        source = {"chart_asset": aws_s3_assets.Asset(scope, "NeuronChart", path=str(copy))}
    return eks.HelmChart(
        scope,
        id_,
        cluster=cluster,
        release="neuron",
        namespace=HELM_NAMESPACE,
        create_namespace=False,
        values=NEURON_VALUES,
        **source,
    )


def _check_chart(folder: Path, name: str) -> None:
    file = folder / "Chart.yaml"
    try:
        chart = yaml.safe_load(file.read_text(encoding="utf-8"))
        actual = f"{chart['name']} {chart['version']}"
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError) as error:
        actual = f"{type(error).__name__}: {error}"
    if actual != (wanted := f"{name} {aws.NEURON_CHART_VERSION}"):
        raise UserInputError(
            f"-c {NEURON_CHART_CONTEXT}={folder}: given {actual}, allowed: a folder whose "
            f"Chart.yaml is of {wanted}; next: `helm pull oci://{aws.NEURON_CHART_REGISTRY}/"
            f"{aws.NEURON_CHART} --version {aws.NEURON_CHART_VERSION} --untar`, and name what it "
            "makes"
        )


def _add_on(
    scope: Construct,
    cluster: eks.ICluster,
    name: str,
    versions: Mapping[str, str],
    *,
    role: eks.CfnAddon.PodIdentityAssociationProperty | None = None,
) -> eks.CfnAddon:
    """Add an EKS add-on as `CfnAddon`, because CDK's `Addon` does not support Pod Identity.

    versions: {add-on: its pinned version}; EKS chooses the version of an add-on that is missing.
    """
    settings = ADD_ON_SETTINGS.get(name)
    return eks.CfnAddon(
        scope,
        name,
        addon_name=name,
        addon_version=versions.get(name),
        cluster_name=cluster.cluster_name,
        resolve_conflicts="OVERWRITE",
        preserve_on_delete=False,
        configuration_values=json.dumps(settings, sort_keys=True) if settings else None,
        pod_identity_associations=[role] if role else None,
    )


def _pod_identity(
    scope: Construct, cluster: eks.ICluster, name: str, policy: str, *, pods: tuple[str, str]
) -> eks.CfnAddon.PodIdentityAssociationProperty:
    """Return the Pod Identity association of `pods` (namespace, service account) with a new role.

    policy: the name of the AWS managed policy that the role gets.
    """
    namespace, account = pods
    role = pod_role(
        scope,
        f"{name}-role",
        description=f"EKS add-on {name}",
        cluster_name=cluster.cluster_name,
        namespace=namespace,
        service_account=account,
    )
    role.add_managed_policy(aws_iam.ManagedPolicy.from_aws_managed_policy_name(policy))
    accept_managed_policies(role, policy, reason=MAINTAINED_WITH_THE_ADD_ON)
    return eks.CfnAddon.PodIdentityAssociationProperty(
        service_account=account, role_arn=role.role_arn
    )
