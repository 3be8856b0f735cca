"""Nodes as EKS' node groups add them to a cluster: labels, taints, sizes of the instance type.

A node is only a Node object, with a lease that is renewed. `stand_in_kubelet.py` runs the pods that
are bound to nodes.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import yaml

from draftworth.experiment.catalog import Accelerator
from tests.cluster.api import Api, Object, path_of, path_of_object
from tests.conftest import ROOT
from tests.stacks.synthesis import Template, of_type

SLICE = ROOT / "tests" / "charts" / "fixtures" / "resourceslice-trn2.48xlarge.yaml"
LEASES = "kube-node-lease"
RENEWED_EACH_SECONDS = 3.0
# {EKS' name for the effect of a taint: Kubernetes' name}.
EFFECTS = {"NO_SCHEDULE": "NoSchedule"}
# What pods can use of an m7i.xlarge; the system keeps the rest.
CPU_NODE = {"cpu": "3920m", "memory": "14Gi", "ephemeral-storage": "90Gi", "pods": "58"}
DEVICES: Object = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "neuron.aws.com"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'neuron.aws.com'"}}]},
}


@dataclass(frozen=True, kw_only=True)
class NodeKind:
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]
    capacity: Mapping[str, str]
    has_devices: bool = False


def node_kinds(
    cluster: Template, accelerator: Accelerator, instance_type: str, zone: str
) -> Mapping[str, NodeKind]:
    """Return the kinds of node, {`cpu` or `accelerator`: kind}.

    cluster: the template of the stack's part `cluster`, whose node groups have labels and taints.
    """
    everywhere = {"topology.kubernetes.io/zone": zone}
    groups = {
        group["Labels"]["draftworth/node-group"]: group
        for group in (r["Properties"] for r in of_type(cluster, "AWS::EKS::Nodegroup").values())
    }
    types = {"cpu": "m7i.xlarge", "accelerator": instance_type}
    accelerator_node = {
        "cpu": str(accelerator.vcpus),
        # A node reports some percent less memory than its data sheet.
        "memory": f"{int(accelerator.memory_gib * 0.97)}Gi",
        "ephemeral-storage": "6000Gi",
        "pods": "100",
    }
    sizes = {"cpu": CPU_NODE, "accelerator": accelerator_node}
    return {
        name: NodeKind(
            labels={
                **group["Labels"],
                **everywhere,
                "node.kubernetes.io/instance-type": types[name],
            },
            taints=tuple(
                {"key": taint["Key"], "value": taint["Value"], "effect": EFFECTS[taint["Effect"]]}
                for taint in group.get("Taints", ())
            ),
            capacity=sizes[name],
            has_devices=name == "accelerator",
        )
        for name, group in groups.items()
    }


@dataclass(kw_only=True)
class Nodes:
    """The nodes of a cluster; the leases of those in `alive` are renewed."""

    api: Api
    alive: set[str] = field(default_factory=set)
    _stop: threading.Event = field(default_factory=threading.Event)

    def join(self, name: str, kind: NodeKind, *, resource_slice: Object | None = None) -> None:
        """Add a ready node, and the ResourceSlice of its devices if its kind has devices.

        resource_slice: None for the slice that was recorded on a real trn2.48xlarge.
        """
        spec = {"taints": [dict(taint) for taint in kind.taints]}
        metadata = {"name": name, "labels": dict(kind.labels)}
        self.api.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec})
        self._renew(name)
        self.alive.add(name)
        now = time_now()
        ready = {"type": "Ready", "status": "True", "reason": "x", "message": "x"}
        status = {
            "capacity": dict(kind.capacity),
            "allocatable": dict(kind.capacity),
            "conditions": [{**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}],
        }
        self.api.change(f"{path_of('Node', name)}/status", {"status": status})
        if kind.has_devices:
            self.api.create(resource_slice or recorded_slice(name))

    def terminate(self, name: str) -> None:
        """Do what happens when an instance ends: its Node and its ResourceSlices are deleted."""
        self.alive.discard(name)
        self.api.delete(path_of("Node", name))
        for item in self.api.all("ResourceSlice"):
            if item["spec"].get("nodeName") == name:
                self.api.delete(path_of("ResourceSlice", item["metadata"]["name"]))

    def retire(self, name: str) -> None:
        """Drain a node that its group no longer wants, as EKS does; terminate it if it has no pods.

        It is called again and again, until the node is gone.
        """
        self.api.change(path_of("Node", name), {"spec": {"unschedulable": True}})
        pods = self.api.all("Pod", fieldSelector=f"spec.nodeName={name}")
        for pod in pods:
            self.api.delete(path_of_object(pod))
        if not pods:
            self.terminate(name)

    def _renew(self, name: str) -> None:
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": 40,
            "renewTime": time_now(micros=True),
        }
        lease = path_of("Lease", name, LEASES)
        if self.api.find(lease) is None:
            metadata = {"name": name, "namespace": LEASES}
            item = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
            self.api.create({**item, "spec": spec})
        else:
            self.api.change(lease, {"spec": spec})

    def _renew_all(self) -> None:
        while not self._stop.wait(RENEWED_EACH_SECONDS):
            for name in tuple(self.alive):
                self._renew(name)


@contextmanager
def nodes_of(api: Api) -> Iterator[Nodes]:
    """Yield the nodes of a cluster, none at first; their leases are renewed in the `with` block."""
    nodes = Nodes(api=api)
    api.create(DEVICES)
    renewing = threading.Thread(target=nodes._renew_all, daemon=True)
    renewing.start()
    try:
        yield nodes
    finally:
        nodes._stop.set()
        renewing.join()


def recorded_slice(node: str) -> Object:
    """Return the ResourceSlice that the Neuron driver published on a real trn2.48xlarge.

    node: the name that it gets instead of the real node's name.
    """
    slice_object: Any = yaml.safe_load(SLICE.read_text())
    slice_object["metadata"]["name"] = f"{node}-neuron.aws.com"
    slice_object["spec"]["nodeName"] = slice_object["spec"]["pool"]["name"] = node
    return dict(slice_object)


def time_now(*, micros: bool = False) -> str:
    spec = "microseconds" if micros else "seconds"
    return datetime.now(UTC).isoformat(timespec=spec).replace("+00:00", "Z")
