"""The nodes that compile graphs before an accelerator node exists."""

from __future__ import annotations

from aws_cdk import aws_ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from charts.names import COMPILE_NODE_LABELS, COMPILE_TAINT_KEY
from draftworth.experiment.cluster import COMPILE_INSTANCE_TYPES
from stacks.constructs.accelerator_nodes import MAX_SIZE_AT_CREATION, SIZE_AT_CREATION
from stacks.constructs.nodes import NodePlace, RootDisk, launch_template, node_group

# The serving image, the compiler's work folder and what it makes; read fast, because the image is
# what such a node waits for first.
ROOT = RootDisk(gib=250, mib_per_s=1000, iops=4000)


class CompileNodes(Construct):
    """A managed node group of Spot nodes that is empty until the capacity controller sizes it.

    Spot: a graph that is lost with its node is compiled again, on another one or by a server.
    """

    def __init__(self, scope: Construct, id_: str, *, name: str, place: NodePlace) -> None:
        super().__init__(scope, id_)
        taint = eks.TaintSpec(
            key=COMPILE_TAINT_KEY, value="true", effect=eks.TaintEffect.NO_SCHEDULE
        )
        template = launch_template(self, name=name, root=ROOT, tags=place.tags)
        self.group = node_group(
            self,
            place=place,
            template=template,
            ami_type=eks.NodegroupAmiType.AL2023_X86_64_STANDARD,
            capacity_type=eks.CapacityType.SPOT,
            instance_types=[aws_ec2.InstanceType(kind) for kind in COMPILE_INSTANCE_TYPES],
            labels=dict(COMPILE_NODE_LABELS),
            taints=[taint],
            nodegroup_name=name,
            min_size=SIZE_AT_CREATION,
            desired_size=SIZE_AT_CREATION,
            max_size=MAX_SIZE_AT_CREATION,
        )
