"""The CPU nodes, and functions for all nodes.

The functions make the IAM role, the launch template and the managed node group, both of the CPU
nodes and of the accelerator nodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from aws_cdk import CfnTag, aws_ec2, aws_iam
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from charts.names import CPU_NODE_LABELS
from draftworth.experiment.aws import CPU_INSTANCE_TYPE, CPU_NODES
from stacks.constructs.roles import accept_managed_policies

# The policies that a kubelet needs. The CNI policy is not among them: vpc-cni has its own role.
# The third policy is for the images in ECR Public, which throttles pulls without a token; nodeadm
# configures the kubelet to get one (`public.ecr.aws` in its image credential provider). The fourth
# lets a person open a shell through Session Manager, for which no port of the node is open: the
# node's agent connects to AWS.
NODE_POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonElasticContainerRegistryPublicReadOnly",
    "AmazonSSMManagedInstanceCore",
)
ROOT_DEVICE = "/dev/xvda"
# EC2 tags an instance and its resources from the launch template, not from the node group.
TAGGED_RESOURCES = ("instance", "volume", "network-interface")


@dataclass(frozen=True, kw_only=True)
class NodePlace:
    """Cluster, role, network and tags, which are the same for all node groups of a cluster."""

    cluster: eks.ICluster
    role: aws_iam.Role
    vpc: aws_ec2.Vpc
    subnets: aws_ec2.SubnetSelection
    tags: Mapping[str, str]


def node_role(scope: Construct, id_: str) -> aws_iam.Role:
    """Return the IAM role that all nodes have, with the policies that EKS requires."""
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
        reason="What EKS asks of every node's role, public images, and shells by Session Manager.",
    )
    return role


def launch_template(
    scope: Construct,
    *,
    name: str,
    metadata_hops: int,
    disk: Mapping[str, Any],
    tags: Mapping[str, str],
    **settings: Any,
) -> aws_ec2.CfnLaunchTemplate:
    """Return a launch template with IMDSv2 only, an encrypted gp3 root disk and tags.

    It is no `LaunchTemplate`, which knows neither EFA interfaces nor Capacity Blocks.

    metadata_hops: how many network hops a response of the instance metadata service may pass: with
        1 it reaches the node and pods in the node's own network, with 2 all pods.
    disk: `volume_size` in GiB; `throughput` (MiB/s) and `iops` (per second), if they differ from
        gp3's defaults of 125 and 3,000.
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
            http_tokens="required", http_put_response_hop_limit=metadata_hops
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
    tags_of_template = aws_ec2.CfnLaunchTemplate.LaunchTemplateTagSpecificationProperty(
        resource_type="launch-template", tags=_cfn_tags(tags)
    )
    return aws_ec2.CfnLaunchTemplate(
        scope, "Template", launch_template_data=data, tag_specifications=[tags_of_template]
    )


def node_group(
    scope: Construct, *, place: NodePlace, template: aws_ec2.CfnLaunchTemplate, **settings: Any
) -> eks.Nodegroup:
    """Return a managed node group that uses the newest version of the launch template.

    When a deploy changes the launch template, EKS replaces the nodes.

    settings: further arguments of `eks.Nodegroup`.
    """
    return eks.Nodegroup(
        scope,
        "Group",
        cluster=place.cluster,
        node_role=cast(aws_iam.IRole, place.role),
        subnets=place.subnets,
        launch_template_spec=eks.LaunchTemplateSpec(
            id=template.ref, version=template.attr_latest_version_number
        ),
        **settings,
    )


def _cfn_tags(tags: Mapping[str, str]) -> list[CfnTag]:
    return [CfnTag(key=key, value=value) for key, value in tags.items()]


# The size is for the files of two stagers (24 GiB each), images and logs; the kubelet evicts pods
# when less than a tenth of the disk is free. A stager writes each byte of a checkpoint once and
# reads it twice (for its hash and for S3): at gp3's default of 125 MiB/s, 61 GiB would take 25
# minutes. 500 MiB/s need no more than gp3's default IOPS.
CPU_NODE_DISK: Mapping[str, int] = {"volume_size": 100, "throughput": 500}
# The agents of the add-ons that ask the metadata service are in the node's network, and the S3
# driver is given the region (docs/appendix/threats.md). No other pod needs the node's metadata.
CPU_NODE_METADATA_HOPS = 1


class CpuNodes(Construct):
    """Two small nodes for cluster services, checkpoint stagers and the measuring Job."""

    def __init__(self, scope: Construct, id_: str, *, name: str, place: NodePlace) -> None:
        super().__init__(scope, id_)
        template = launch_template(
            self,
            name=name,
            metadata_hops=CPU_NODE_METADATA_HOPS,
            disk=CPU_NODE_DISK,
            tags=place.tags,
            instance_type=CPU_INSTANCE_TYPE,
        )
        self.group = node_group(
            self,
            place=place,
            template=template,
            # No release is pinned: an old one would lack what was mended in the kernel, and no
            # Neuron driver has to fit.
            ami_type=eks.NodegroupAmiType.AL2023_X86_64_STANDARD,
            labels=dict(CPU_NODE_LABELS),
            min_size=CPU_NODES,
            desired_size=CPU_NODES,
            max_size=CPU_NODES,
        )
