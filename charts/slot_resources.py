"""What a server gets of its node: its slot's share of CPUs, memory and disk."""

import math
from dataclasses import dataclass

from draftworth.planning.resolved import ResolvedNeuron

# A tenth of CPU and memory is left for the kernel, the kubelet and DaemonSets (CNI, DRA driver, S3
# mounts, log and metric agents). A node also reports 2 to 3 % less memory than its data sheet.
SLOTS_SHARE_OF_NODE = 0.9
# The part of a server's memory that /dev/shm may use, where vLLM's processes exchange tensors. In
# AWS's sample for speculation on trn2 it is 128 GiB. The server can use what /dev/shm does not.
SHARED_MEMORY_SHARE = 0.25
# Disk for compiled graphs, the compiler's cache and its work folder.
SCRATCH_GIB_PER_DEVICE = 25
MIN_SCRATCH_GIB = 50
# Disk for the container's writable layer and its log.
CONTAINER_LAYER_GIB = 20
# The uploader container needs little: it hashes and uploads compiled graphs once, piece by piece.
UPLOADER_CPUS = 1
UPLOADER_MEMORY_GIB = 1
UPLOADER_EPHEMERAL_STORAGE_GIB = 1
UPLOADER_RESOURCES = {
    "cpu": f"{UPLOADER_CPUS}",
    "memory": f"{UPLOADER_MEMORY_GIB}Gi",
    "ephemeral-storage": f"{UPLOADER_EPHEMERAL_STORAGE_GIB}Gi",
}


@dataclass(frozen=True, kw_only=True)
class SlotResources:
    """Resources of the container that runs vLLM.

    They are the server's share of its node, minus what the pod's uploader container needs.
    """

    cpus: int
    memory_gib: int
    shared_memory_gib: int
    """Part of `memory_gib`: a memory volume counts against its container's limit."""
    scratch_gib: int
    ephemeral_storage_gib: int
    """`scratch_gib` and the container's own layer."""


def slot_resources(experiment: ResolvedNeuron) -> SlotResources:
    """Return a server's share of its node, in proportion to its devices; equal for all variants."""
    node, devices = experiment.spec.accelerator, experiment.spec.serving.slot_devices
    share = SLOTS_SHARE_OF_NODE * devices / node.devices
    memory = math.floor(node.memory_gib * share) - UPLOADER_MEMORY_GIB
    scratch = max(MIN_SCRATCH_GIB, SCRATCH_GIB_PER_DEVICE * devices)
    return SlotResources(
        cpus=math.floor(node.vcpus * share) - UPLOADER_CPUS,
        memory_gib=memory,
        shared_memory_gib=math.floor(memory * SHARED_MEMORY_SHARE),
        scratch_gib=scratch,
        ephemeral_storage_gib=scratch + CONTAINER_LAYER_GIB,
    )
