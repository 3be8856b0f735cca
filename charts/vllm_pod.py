"""Makes the Deployment and the Service of a vLLM server, by filling their template.

The variant decides only the speculation flags, the draft's mount, the artifact key and the names.
All else comes from the experiment and is equal for all variants, so the comparison is fair.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from charts import names
from charts.graph_scripts import programs_name
from charts.storage import BucketVolume
from charts.templates import Object, objects_in
from draftworth.experiment.catalog import ArtifactFolder, CompilerCache
from draftworth.experiment.placement import PlacedSlot
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron
from draftworth.records import servers
from draftworth.serving.server_command import SERVING_PORT, ModelPaths, json_text

# A tenth of CPU and memory is left for the kernel, the kubelet and DaemonSets (CNI, DRA driver, S3
# mounts, log and metric agents). A node also reports 2 to 3 % less memory than its data sheet.
SLOTS_SHARE_OF_NODE = 0.9
# The part of a server's memory that /dev/shm may use, where vLLM's processes exchange tensors. In
# AWS's sample for speculation on trn2 it is 128 GiB. The server can use what /dev/shm does not.
SHARED_MEMORY_SHARE = 0.25
# For compiled graphs, the compiler's cache and its work folder.
SCRATCH_GIB_PER_DEVICE = 25
MIN_SCRATCH_GIB = 50
# For the container's writable layer and its log.
CONTAINER_LAYER_GIB = 20
# The uploader container hashes and uploads compiled graphs once, in parts.
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
    """Resources of the vLLM container: a slot's share of a node, less those of the uploader."""

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


def server_objects(
    experiment: ResolvedNeuron,
    variant: NeuronVariant,
    slot: PlacedSlot,
    bindings: names.Bindings,
    *,
    claim_template: str,
    volumes: Sequence[BucketVolume],
    replicas: int,
) -> tuple[Object, Object]:
    """Return the Deployment and the Service of a variant's server in one of the variant's slots.

    claim_template: the name of the ResourceClaimTemplate for the devices. The pods of a variant's
    two servers differ only in this name and in one label.
    """
    name = names.server_name(slot)
    deployment, service = objects_in(
        "charts",
        "server.yaml.jinja",
        name=name,
        labels=names.server_labels(experiment, slot),
        selector=names.selector_labels(name),
        account=names.service_name(variant.name),
        replicas=replicas,
        experiment=experiment.spec,
        variant=variant,
        bindings=bindings,
        claim_template=claim_template,
        volumes=volumes,
        slot=slot_resources(experiment),
        uploader=UPLOADER_RESOURCES,
        environment=_engine_environment(variant),
        compiled_graphs_flags=_compiled_graphs_flags(experiment),
        programs_name=programs_name(),
        paths=ModelPaths(),
        port=SERVING_PORT,
        servers=servers,
    )
    return deployment, service


def _compiled_graphs_flags(experiment: ResolvedNeuron) -> list[str]:
    match experiment.spec.release_facts.compiled_graphs:
        case ArtifactFolder(variable=variable):
            return [f"--artifact-folder={variable}"]
        case CompilerCache(variable=variable, folder=folder, proof_variable=proof):
            flags = ["--compiler-cache", variable, folder]
            return [*flags, f"--proof={proof}"] if proof else flags
        case None:
            raise ValueError(
                f"{experiment.spec.release}: the catalogue says that it compiles nothing"
            )


def graph_environment(variant: NeuronVariant) -> dict[str, str]:
    """Return the variables with the variant's artifact key and the inputs of the key, as JSON."""
    inputs = json_text(variant.artifact_inputs)
    return {"ARTIFACT_KEY": variant.artifact_key, "ARTIFACT_INPUTS": inputs}


def _engine_environment(variant: NeuronVariant) -> dict[str, str]:
    return {
        # All files are local: the engine needs no model hub. It sends no usage statistics.
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONUNBUFFERED": "1",
        "VLLM_NO_USAGE_STATS": "1",
        **graph_environment(variant),
        "BASE_COMPILE_WORK_DIR": "/scratch/compile-work/",
        "NEURON_COMPILE_CACHE_URL": "/scratch/compile-cache",
        **variant.command.environment,
    }
