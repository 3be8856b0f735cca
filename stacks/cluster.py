"""The cluster: control plane, add-ons, Neuron driver, CPU and accelerator nodes."""

from typing import cast

from aws_cdk import Stack
from aws_cdk import aws_eks_v2 as eks

from charts.names import NAMESPACE
from draftworth.planning.resolved import ResolvedNeuron
from stacks.base import StackPart
from stacks.constructs.accelerator_nodes import AcceleratorNodes
from stacks.constructs.add_ons import insights_logs, neuron_driver, node_add_ons, pod_add_ons
from stacks.constructs.control_plane import ControlPlane
from stacks.constructs.nodes import CpuNodes, NodePlace, node_role
from stacks.network import Network


class Cluster(StackPart):
    """The EKS cluster with add-ons, nodes and the Neuron driver.

    They are created in this order and deleted in the reverse one: control plane; the add-ons that
    nodes need; nodes; the other add-ons and the driver.
    """

    def __init__(
        self, scope: Stack, id_: str, *, experiment: ResolvedNeuron, network: Network
    ) -> None:
        super().__init__(scope, id_, experiment=experiment)
        control_plane = ControlPlane(
            self,
            "ControlPlane",
            aws=experiment.spec.aws,
            cluster_name=self.names.cluster,
            vpc=network.vpc,
        )
        self.cluster = cast(eks.ICluster, control_plane.cluster)
        pins = experiment.spec.aws.pins
        early = node_add_ons(self, cluster=self.cluster, versions=pins.add_ons)
        logs = insights_logs(self, cluster_name=self.names.cluster)
        self._build_nodes(experiment, network)
        for nodes in (self.cpu_nodes, self.accelerator_nodes):
            nodes.node.add_dependency(early, logs)
        late = pod_add_ons(self, cluster=self.cluster, versions=pins.add_ons, logs=logs)
        driver = neuron_driver(self, "NeuronDriver", cluster=self.cluster)
        for dependant in (late, driver):
            dependant.node.add_dependency(self.cpu_nodes)
        self._build_outputs()

    def _build_nodes(self, experiment: ResolvedNeuron, network: Network) -> None:
        place = NodePlace(
            cluster=self.cluster,
            role=node_role(self, "NodeRole"),
            vpc=network.vpc,
            subnets=network.node_subnets,
            tags=self.part_tags,
        )
        self.cpu_nodes = CpuNodes(self, "CpuNodes", name=f"{self.names.cluster}-cpu", place=place)
        self.accelerator_nodes = AcceleratorNodes(
            self, "AcceleratorNodes", experiment=experiment, place=place
        )

    def _build_outputs(self) -> None:
        self.output(
            "KubeconfigCommand",
            f"aws eks update-kubeconfig --name {self.names.cluster} --region {self.region}",
            "Lets kubectl reach the cluster, for administrators of the experiment file",
        )
        pattern = f'{{ $.kubernetes.namespace_name = "{NAMESPACE}" }}'
        self.output(
            "LogsCommand",
            f"aws logs tail {self.names.pod_logs} --region {self.region} --since 30m --follow "
            f"--format short --filter-pattern '{pattern}'",
            "Shows what the pods write, as JSON; as text: draftworth logs FILE --follow",
        )
        group = self.accelerator_nodes.group.nodegroup_name
        self.output(
            "AcceleratorNodesCommand",
            f"aws eks describe-nodegroup --region {self.region} --cluster-name "
            f"{self.names.cluster} --nodegroup-name {group} "
            "--query 'nodegroup.[status,scalingConfig,health.issues]'",
            "Shows how many accelerator nodes are asked for, and what keeps them away",
        )
