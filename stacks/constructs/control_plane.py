"""The EKS control plane: its network access, its administrators and its log."""

from typing import cast

from aws_cdk import Aspects, IAspect, aws_ec2, aws_lambda
from aws_cdk import aws_eks_v2 as eks
from aws_cdk.lambda_layer_kubectl_v35 import KubectlV35Layer
from constructs import Construct

from draftworth.experiment.aws import Aws
from stacks.aspects import KubectlProviderFindings
from stacks.constructs.functions import owned_log_group
from stacks.constructs.roles import accept_managed_policies

ADMIN_POLICY = "AmazonEKSClusterAdminPolicy"


class ControlPlane(Construct):
    """An EKS cluster without Auto Mode, default capacity or self-managed add-ons.

    Since Kubernetes 1.28 EKS encrypts all API data with a key that AWS owns. A KMS key of ours
    would exist for at least a week after each destroy, and would protect nothing: the cluster
    stores no Secret.
    """

    def __init__(
        self, scope: Construct, id_: str, *, aws: Aws, cluster_name: str, vpc: aws_ec2.Vpc
    ) -> None:
        super().__init__(scope, id_)
        log_group = owned_log_group(
            self, "LogGroup", log_group_name=f"/aws/eks/{cluster_name}/cluster"
        )
        self.cluster = self._build_cluster(aws, cluster_name, vpc)
        self.cluster.node.add_dependency(log_group)
        self._let_administrators_in(aws.admin_principal_arns)
        Aspects.of(self.cluster).add(cast(IAspect, KubectlProviderFindings()))
        accept_managed_policies(
            self.cluster,
            "AmazonEKSClusterPolicy",
            reason="What EKS asks of every cluster's role; AWS keeps it in step with the service.",
        )

    def _build_cluster(self, aws: Aws, cluster_name: str, vpc: aws_ec2.Vpc) -> eks.Cluster:
        return eks.Cluster(
            self,
            "Cluster",
            cluster_name=cluster_name,
            version=eks.KubernetesVersion.of(aws.kubernetes_version),
            vpc=cast(aws_ec2.IVpc, vpc),
            vpc_subnets=[
                aws_ec2.SubnetSelection(subnet_type=aws_ec2.SubnetType.PRIVATE_WITH_EGRESS)
            ],
            endpoint_access=_endpoint_access(aws.public_access_cidrs),
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
            default_capacity=0,
            bootstrap_self_managed_addons=False,
            # Only the experiment's administrators get access, not whoever deploys the stack.
            bootstrap_cluster_creator_admin_permissions=False,
            cluster_logging=list(eks.ClusterLoggingTypes),
            output_config_command=False,
            # kubectl works with servers that are one minor version older or newer than itself.
            kubectl_provider_options=eks.KubectlProviderOptions(
                kubectl_layer=cast(aws_lambda.ILayerVersion, KubectlV35Layer(self, "Kubectl"))
            ),
        )

    def _let_administrators_in(self, principal_arns: tuple[str, ...]) -> None:
        for number, principal in enumerate(principal_arns):
            policy = eks.AccessPolicy.from_access_policy_name(
                ADMIN_POLICY, access_scope_type=eks.AccessScopeType.CLUSTER
            )
            self.cluster.grant_access(f"Administrator{number}", principal, [policy])


def _endpoint_access(public_cidrs: tuple[str, ...]) -> eks.EndpointAccess:
    if not public_cidrs:
        return eks.EndpointAccess.PRIVATE
    return eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*public_cidrs)
