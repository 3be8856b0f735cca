"""The accelerator nodes, with all EFA interfaces of their type and the chosen kind of capacity."""

from pathlib import Path
from typing import Any, cast

from aws_cdk import Fn, aws_ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from charts.names import ACCELERATOR_NODE_LABELS, ACCELERATOR_TAINT_KEY
from charts.slot_resources import slot_resources
from draftworth.planning.resolved import ResolvedNeuron
from stacks.constructs.nodes import NodePlace, launch_template, node_group

# If the instance type has NVMe disks, the files of containers and kubelet are on them, and only the
# operating system is on the root disk.
ROOT_GIB = 100
# Without NVMe disks everything is on the root disk. FastImagePull (`node_config.mime`) is reported
# to be slower than an ordinary pull on a disk below 600 MiB/s.
SCRATCH_MIB_PER_S = 1000
SCRATCH_IOPS = 16_000
# The Neuron monitor of the CloudWatch add-on is not in the node's network, and may ask on which
# instance it is.
METADATA_HOPS = 2
NODE_CONFIG = Path(__file__).with_name("node_config.mime").read_text(encoding="utf-8")
# These sizes are the same for every experiment, so that a later deploy does not change them and
# keeps the size that the capacity controller has set (decision record 5). EKS requires max >= 1.
SIZE_AT_CREATION = 0
MAX_SIZE_AT_CREATION = 1


class AcceleratorNodes(Construct):
    """A managed node group that is empty until the capacity controller sizes it."""

    def __init__(
        self, scope: Construct, id_: str, *, experiment: ResolvedNeuron, place: NodePlace
    ) -> None:
        super().__init__(scope, id_)
        self._experiment = experiment
        self._place = place
        self._capacity = experiment.spec.aws.capacity
        self.group = self._build_group()

    def _root_disk(self) -> dict[str, int]:
        if self._experiment.spec.accelerator.nvme_gib:
            return {"volume_size": ROOT_GIB}
        pods_gib = slot_resources(self._experiment).ephemeral_storage_gib
        gib = ROOT_GIB + self._experiment.placement.slots_per_node * pods_gib
        return {"volume_size": gib, "throughput": SCRATCH_MIB_PER_S, "iops": SCRATCH_IOPS}

    def _efa(self) -> dict[str, Any]:
        # For a type without EFA the launch template has no interfaces, and EKS attaches the
        # cluster's security group. A template with interfaces must name that group, because EKS
        # adds it only to a template without security groups. A single node gets the interfaces too:
        # only on nodes with EFA does the DRA driver publish which devices are connected. EFA needs
        # explicit rules for both directions.
        cards = self._experiment.spec.accelerator.efa_interfaces
        if not cards:
            return {}
        efa = aws_ec2.SecurityGroup(
            self,
            "Efa",
            vpc=cast(aws_ec2.IVpc, self._place.vpc),
            description="EFA among accelerator nodes",
            allow_all_outbound=False,
        )
        efa.add_ingress_rule(efa, aws_ec2.Port.all_traffic(), "EFA in")
        efa.add_egress_rule(efa, aws_ec2.Port.all_traffic(), "EFA out")
        interfaces = [
            aws_ec2.CfnLaunchTemplate.NetworkInterfaceProperty(
                network_card_index=card,
                device_index=0 if card == 0 else 1,
                interface_type="efa",
                groups=[self._place.cluster.cluster_security_group_id, efa.security_group_id],
                delete_on_termination=True,
            )
            for card in range(cards)
        ]
        return {"network_interfaces": interfaces}

    def _buying(self) -> dict[str, Any]:
        # Several instances with EFA should be in a cluster placement group. A single instance, or
        # instances without EFA, would gain nothing from it, and EC2 would find capacity less
        # easily. A Capacity Block already places its instances together and must get no group.
        if not self._capacity.is_block:
            reach_each_other = self._experiment.spec.accelerator.efa_interfaces
            if not reach_each_other or self._experiment.placement.nodes == 1:
                return {}
            group = aws_ec2.PlacementGroup(
                self, "PlacementGroup", strategy=aws_ec2.PlacementGroupStrategy.CLUSTER
            )
            placement = aws_ec2.CfnLaunchTemplate.PlacementProperty(
                group_name=group.placement_group_name
            )
            return {"placement": placement}
        target = aws_ec2.CfnLaunchTemplate.CapacityReservationTargetProperty(
            capacity_reservation_id=self._capacity.reservation_id
        )
        market = aws_ec2.CfnLaunchTemplate.InstanceMarketOptionsProperty(
            market_type="capacity-block"
        )
        reservation = aws_ec2.CfnLaunchTemplate.CapacityReservationSpecificationProperty(
            capacity_reservation_target=target
        )
        return {
            "instance_market_options": market,
            "capacity_reservation_specification": reservation,
        }

    def _build_group(self) -> eks.Nodegroup:
        template = launch_template(
            self,
            name=self._experiment.names.accelerator,
            metadata_hops=METADATA_HOPS,
            disk=self._root_disk(),
            tags=self._place.tags,
            # The instance type is in the launch template, as EKS requires for Capacity Blocks. If
            # it were in the node group, CDK would refuse a Trainium type with the Neuron AMI.
            instance_type=self._experiment.spec.instance_type,
            user_data=Fn.base64(NODE_CONFIG),
            **self._efa(),
            **self._buying(),
        )
        taint = eks.TaintSpec(
            key=ACCELERATOR_TAINT_KEY, value="true", effect=eks.TaintEffect.NO_SCHEDULE
        )
        return node_group(
            self,
            place=self._place,
            template=template,
            ami_type=eks.NodegroupAmiType.AL2023_X86_64_NEURON,
            # None: the newest for the cluster's Kubernetes version.
            release_version=self._experiment.spec.aws.pins.node_release,
            capacity_type=eks.CapacityType[self._capacity.kind.upper()],
            labels=dict(ACCELERATOR_NODE_LABELS),
            taints=[taint],
            nodegroup_name=self._experiment.names.node_group(self._capacity.kind),
            min_size=SIZE_AT_CREATION,
            desired_size=SIZE_AT_CREATION,
            max_size=MAX_SIZE_AT_CREATION,
        )
