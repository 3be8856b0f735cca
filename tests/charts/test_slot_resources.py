"""The resources that the servers' pods request fit on the planned nodes."""

import pytest

from charts.slot_resources import UPLOADER_CPUS, UPLOADER_MEMORY_GIB, slot_resources
from draftworth.planning.resolved import ResolvedNeuron
from tests.charts.rendering import EXPERIMENTS, Object, of_kind
from tests.support.experiments import changed_in, on_small_nodes, resolved

pytestmark = pytest.mark.synth

ACCELERATOR = resolved().spec.accelerator
# CPUs and memory of a trn2.48xlarge that must be left for the kernel, kubelet and DaemonSets. EKS
# reserves about 3 GiB for 250 pods; the kernel's own tables take 2 to 3 % of the memory.
RESERVED_CPUS = 8
RESERVED_MEMORY_GIB = 80


def with_slots_of(devices: int) -> ResolvedNeuron:
    return changed_in(resolved(), "serving", slot_devices=devices)


def what_does_not_fit(experiment: ResolvedNeuron, *, services: int) -> list[str]:
    """Return the resources of which a node has too little for this number of servers."""
    slot, node = slot_resources(experiment), experiment.spec.accelerator
    is_exceeded = {
        "cpu": services * (slot.cpus + UPLOADER_CPUS) > node.vcpus - RESERVED_CPUS,
        "memory": services * (slot.memory_gib + UPLOADER_MEMORY_GIB)
        > node.memory_gib - RESERVED_MEMORY_GIB,
        "ephemeral-storage": services * slot.ephemeral_storage_gib > node.nvme_gib / 2,
    }
    return [resource for resource, too_much in is_exceeded.items() if too_much]


@pytest.mark.parametrize("devices", ACCELERATOR.legal_slot_devices)
def test_a_full_node_leaves_room_for_the_system(devices: int) -> None:
    services = ACCELERATOR.devices // devices
    assert what_does_not_fit(with_slots_of(devices), services=services) == []


def test_a_small_node_leaves_room_for_the_system() -> None:
    """A node with 12 CPUs and 124 GiB keeps 2 CPUs and 10 GiB for kernel, kubelet, DaemonSets."""
    slot = slot_resources(on_small_nodes(resolved("llama-3.1-8b-eagle3")))
    assert slot.cpus + UPLOADER_CPUS <= 10
    assert slot.memory_gib + UPLOADER_MEMORY_GIB <= 114
    assert slot.shared_memory_gib == slot.memory_gib // 4


def test_half_a_node_has_the_samples_shared_memory() -> None:
    assert slot_resources(resolved()).shared_memory_gib >= 128


@pytest.mark.parametrize("devices", [4, 8, 16])
def test_one_service_too_many_does_not_fit(devices: int) -> None:
    services = ACCELERATOR.devices // devices + 1
    assert what_does_not_fit(with_slots_of(devices), services=services) == ["cpu", "memory"]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_pods_request_exactly_their_slots_share(name: str) -> None:
    slot = slot_resources(resolved(name))
    for deployment in of_kind("Deployment", name):
        containers = deployment["spec"]["template"]["spec"]["containers"]
        for each in containers:
            assert each["resources"]["requests"] == each["resources"]["limits"]
        container, uploader = containers
        assert "claims" not in uploader["resources"]
        assert container["resources"]["requests"] == {
            "cpu": str(slot.cpus),
            "memory": f"{slot.memory_gib}Gi",
            "ephemeral-storage": f"{slot.ephemeral_storage_gib}Gi",
        }
        volumes = _sizes(deployment)
        assert volumes["scratch"] < slot.ephemeral_storage_gib
        assert volumes["shared-memory"] < slot.memory_gib / 2


def _sizes(deployment: Object) -> dict[str, int]:
    return {
        volume["name"]: int(volume["emptyDir"]["sizeLimit"].removesuffix("Gi"))
        for volume in deployment["spec"]["template"]["spec"]["volumes"]
        if "emptyDir" in volume
    }
