"""The CPU nodes: cluster services, checkpoint stagers and the measuring Job."""

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from charts.names import CPU_NODE_LABELS
from draftworth.experiment.aws import CPU_INSTANCE_TYPE, CPU_NODES
from stacks.constructs.nodes import NodePlace, RootDisk, launch_template, node_group

# Files of two stagers (24 GiB each) beside images and logs. The kubelet evicts pods when a tenth of
# the disk is left. Staging writes each byte of a checkpoint once and reads it twice, for its hash
# and for S3: with gp3's own 125 MiB/s, 61 GiB would take 25 minutes. 500 need no more operations
# than gp3 has.
ROOT = RootDisk(gib=100, mib_per_s=500)


class CpuNodes(Construct):
    """Two small nodes in the accelerators' zone that live as long as the cluster."""

    def __init__(self, scope: Construct, id_: str, *, name: str, place: NodePlace) -> None:
        super().__init__(scope, id_)
        template = launch_template(
            self,
            name=name,
            root=ROOT,
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
