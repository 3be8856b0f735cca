"""Nodes: what CPU and accelerator nodes have in common, and the CPU nodes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from aws_cdk import CfnTag, aws_ec2, aws_iam
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from charts.names import CPU_NODE_LABELS
from draftworth.experiment.aws import CPU_INSTANCE_TYPE, CPU_NODES
from stacks.constructs.roles import accept_managed_policies

# A kubelet needs these. vpc-cni has the CNI policy itself, and of ECR pulling is enough. The Neuron
# images are in ECR Public, which throttles requests without a token: nodeadm has the kubelet ask
# for one there too (`public.ecr.aws` in its image credential provider).
NODE_POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonElasticContainerRegistryPublicReadOnly",
)
# One hop further than the node, because agents in pods ask the metadata service for their place.
METADATA_HOP_LIMIT = 2
ROOT_DEVICE = "/dev/xvda"
# EC2 gives an instance's resources the tags of its launch template, not those of its group.
TAGGED_RESOURCES = ("instance", "volume", "network-interface")


@dataclass(frozen=True, kw_only=True)
class NodePlace:
    """Network, role and tags of node groups: the same for all of a cluster.

    release: of their images; None: the newest of the cluster's Kubernetes version.
    """

    cluster: eks.ICluster
    role: aws_iam.Role
    vpc: aws_ec2.Vpc
    subnets: aws_ec2.SubnetSelection
    tags: Mapping[str, str]
    release: str | None


def node_role(scope: Construct, id_: str) -> aws_iam.Role:
    """Return the role of every node, with the policies that EKS asks for."""
    role = aws_iam.Role(
        scope,
        id_,
        assumed_by=aws_iam.ServicePrincipal("ec2.amazonaws.com"),
        description="Kubernetes nodes",
        managed_policies=[
            aws_iam.ManagedPolicy.from_aws_managed_policy_name(name) for name in NODE_POLICIES
        ],
    )
    accept_managed_policies(
        role,
        *NODE_POLICIES,
        reason="What EKS asks of every node's role, and reading public images.",
    )
    return role


def launch_template(
    scope: Construct,
    *,
    name: str,
    disk: Mapping[str, Any],
    tags: Mapping[str, str],
    **settings: Any,
) -> aws_ec2.CfnLaunchTemplate:
    """Return a launch template with token-only metadata, an encrypted gp3 root disk and tags.

    disk: `volume_size` in GiB; where they are not gp3's own 125 MiB/s and 3,000 operations a
        second, `throughput` and `iops`.
    settings: further properties of LaunchTemplateDataProperty.
    """
    root = aws_ec2.CfnLaunchTemplate.BlockDeviceMappingProperty(
        device_name=ROOT_DEVICE,
        ebs=aws_ec2.CfnLaunchTemplate.EbsProperty(
            volume_type="gp3", encrypted=True, delete_on_termination=True, **disk
        ),
    )
    data = aws_ec2.CfnLaunchTemplate.LaunchTemplateDataProperty(
        metadata_options=aws_ec2.CfnLaunchTemplate.MetadataOptionsProperty(
            http_tokens="required", http_put_response_hop_limit=METADATA_HOP_LIMIT
        ),
        block_device_mappings=[root],
        tag_specifications=[
            aws_ec2.CfnLaunchTemplate.TagSpecificationProperty(
                resource_type=kind, tags=_cfn_tags({"Name": name, **tags})
            )
            for kind in TAGGED_RESOURCES
        ],
        **settings,
    )
    own = aws_ec2.CfnLaunchTemplate.LaunchTemplateTagSpecificationProperty(
        resource_type="launch-template", tags=_cfn_tags(tags)
    )
    return aws_ec2.CfnLaunchTemplate(
        scope, "Template", launch_template_data=data, tag_specifications=[own]
    )


def node_group(
    scope: Construct, *, place: NodePlace, template: aws_ec2.CfnLaunchTemplate, **settings: Any
) -> eks.Nodegroup:
    """Return a node group at its template's newest version, so a new template changes the group."""
    return eks.Nodegroup(
        scope,
        "Group",
        cluster=place.cluster,
        node_role=cast(aws_iam.IRole, place.role),
        subnets=place.subnets,
        release_version=place.release,
        launch_template_spec=eks.LaunchTemplateSpec(
            id=template.ref, version=template.attr_latest_version_number
        ),
        **settings,
    )


def _cfn_tags(tags: Mapping[str, str]) -> list[CfnTag]:
    return [CfnTag(key=key, value=value) for key, value in tags.items()]


# Files of two stagers (24 GiB each) beside images and logs. The kubelet evicts pods when a tenth of
# the disk is left. Staging writes each byte of a checkpoint once and reads it twice, for its hash
# and for S3: with gp3's own 125 MiB/s, 61 GiB would take 25 minutes. 500 need no more operations
# than gp3 has.
CPU_NODE_DISK: Mapping[str, int] = {"volume_size": 100, "throughput": 500}


class CpuNodes(Construct):
    """Two small nodes for cluster services, checkpoint stagers and the measuring Job."""

    def __init__(self, scope: Construct, id_: str, *, name: str, place: NodePlace) -> None:
        super().__init__(scope, id_)
        template = launch_template(
            self,
            name=name,
            disk=CPU_NODE_DISK,
            tags=place.tags,
            instance_type=CPU_INSTANCE_TYPE,
        )
        self.group = node_group(
            self,
            place=place,
            template=template,
            ami_type=eks.NodegroupAmiType.AL2023_X86_64_STANDARD,
            labels=dict(CPU_NODE_LABELS),
            min_size=CPU_NODES,
            desired_size=CPU_NODES,
            max_size=CPU_NODES,
        )
