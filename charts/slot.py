"""What one service may use of its node: the same part of everything as of the Neuron devices."""

from __future__ import annotations

import math
from dataclasses import dataclass

from draftworth.planning.resolved import ResolvedNeuron

# A tenth of CPU and memory stays with the kernel, kubelet and the DaemonSets (CNI, DRA driver, S3
# mounts, log and metric agents). A node also reports 2 to 3 % less memory than its data sheet.
SLOTS_SHARE_OF_NODE = 0.9
# vLLM's processes exchange tensors here. AWS's own sample for speculation on trn2 gives a server
# 128 GiB. A limit, not a reservation: what is not used stays the server's memory.
SHARED_MEMORY_SHARE = 0.25
# Compiled graphs, the compiler's cache and work folder.
SCRATCH_GIB_PER_DEVICE = 25
MIN_SCRATCH_GIB = 50
# The container's own writable layer and its log.
CONTAINER_LAYER_GIB = 20
# The container beside the server: it hashes and uploads what was compiled, part by part, once.
UPLOADER_CPUS = 1
UPLOADER_MEMORY_GIB = 1
UPLOADER_EPHEMERAL_STORAGE_GIB = 1


@dataclass(frozen=True, kw_only=True)
class SlotResources:
    """Resources of one server; the container beside it has its own, out of the same slot."""

    cpus: int
    memory_gib: int
    shared_memory_gib: int
    """Part of `memory_gib`: a memory volume counts against its container's limit."""
    scratch_gib: int
    ephemeral_storage_gib: int
    """`scratch_gib` and the container's own layer."""


def slot_resources(experiment: ResolvedNeuron) -> SlotResources:
    """The resources of one service, by the devices it claims; equal for every variant."""
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
