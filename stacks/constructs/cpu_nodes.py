"""The CPU nodes: cluster services, checkpoint stagers and the load generator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from aws_cdk import aws_ec2, aws_iam
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from charts.names import CPU_NODE_LABELS
from stacks.constructs.nodes import launch_template, template_spec

# Four vCPUs: the load generator asks for two whole ones, which a two-vCPU node cannot give after
# what the system keeps. Two nodes: cluster services find room beside it and survive one's loss.
INSTANCE_TYPE = "m7i.xlarge"
NODES = 2
# Two stagers' files on their way (24 GiB each) beside images and logs. The kubelet clears pods away
# from a tenth of the disk on.
ROOT_GIB = 100
# Staging writes each byte of a checkpoint once and reads it twice, for its hash and for S3: with
# gp3's own 125 MiB/s, 61 GiB would take 25 minutes. 500 need no more operations than gp3 has.
ROOT_MIB_PER_S = 500


class CpuNodes(Construct):
    """Two small nodes in the accelerators' zone, there as long as the cluster."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        name: str,
        cluster: eks.ICluster,
        role: aws_iam.Role,
        subnets: aws_ec2.SubnetSelection,
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, id_)
        template = launch_template(
            self,
            "Template",
            root_gib=ROOT_GIB,
            root_mib_per_s=ROOT_MIB_PER_S,
            tags=tags,
            name=name,
            settings={"instance_type": INSTANCE_TYPE},
        )
        self.group = eks.Nodegroup(
            self,
            "Group",
            cluster=cluster,
            ami_type=eks.NodegroupAmiType.AL2023_X86_64_STANDARD,
            node_role=cast(aws_iam.IRole, role),
            subnets=subnets,
            launch_template_spec=template_spec(template),
            labels=dict(CPU_NODE_LABELS),
            min_size=NODES,
            desired_size=NODES,
            max_size=NODES,
        )
