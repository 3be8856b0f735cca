"""A vLLM pod: its claim of connected devices, its containers and its volumes.

The variant decides only the speculation flags, the draft's mount, the artifact key and the names.
All else comes from the experiment and is equal for all variants, so the comparison is fair.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from charts import k8s, names, pods
from charts.graph_scripts import graph_scripts_mount, graph_scripts_volume, program
from charts.storage import ARTIFACTS_PATH, pod_mounts, pod_volumes
from draftworth.experiment.catalog import ArtifactFolder, CompilerCache
from draftworth.experiment.placement import PlacedSlot
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron
from draftworth.records import servers
from draftworth.serving.command import SERVING_PORT, ModelPaths, json_text

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


@dataclass(frozen=True, kw_only=True)
class SlotResources:
    """Resources of the server's container; those of the uploader are already subtracted."""

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


CONTAINER_NAME = "vllm"
UPLOADER_NAME = "graph-uploader"
DEVICE_CLAIM_NAME = "neuron"
PORT_NAME = "http"
HEALTH_URL = f"http://127.0.0.1:{SERVING_PORT}/health"

SCRATCH_PATH = "/scratch"
SHARED_MEMORY_PATH = "/dev/shm"  # noqa: S108 (the container's own, mounted by this pod)

# The limit of the startup probe. The program `start` ends a slow self-test and a slow server
# itself, three minutes earlier; the probe is for a `start` that hangs.
STARTUP_ALLOWANCE_MINUTES = servers.SELF_TEST_LIMIT_MINUTES + servers.COMPILE_LIMIT_MINUTES + 3
STARTUP_PERIOD_SECONDS = 10
# How often `start` starts a server on the same node if the compiler fails. After two starts another
# node is more likely to work than a third start; a Capacity Block has no other node.
STARTS_WITH_COMPILER_FAILURE: Mapping[str, int] = {"on_demand": 2, "spot": 2, "capacity_block": 3}
TERMINATION_GRACE_SECONDS = 60


def pod_template(
    experiment: ResolvedNeuron,
    variant: NeuronVariant,
    slot: PlacedSlot,
    bindings: names.Bindings,
    *,
    claim_template: str,
) -> k8s.PodTemplateSpec:
    """Return the pod template of a variant's server in one of the variant's slots.

    claim_template: the name of the ResourceClaimTemplate for the devices. The pods of a variant's
    two servers differ only in this name and in one label.
    """
    resources = slot_resources(experiment)
    claim = k8s.PodResourceClaim(
        name=DEVICE_CLAIM_NAME, resource_claim_template_name=claim_template
    )
    spec = k8s.PodSpec(
        # Each variant has its own account, so no server can change another variant's graphs.
        service_account_name=names.service_name(variant.name),
        automount_service_account_token=False,
        # With service links a Service `vllm-x` sets VLLM_X_..., a prefix of vLLM's own variables.
        enable_service_links=False,
        node_selector={"node.kubernetes.io/instance-type": experiment.spec.instance_type},
        tolerations=[
            k8s.Toleration(key=names.ACCELERATOR_TAINT_KEY, operator="Exists", effect="NoSchedule")
        ],
        resource_claims=[claim],
        termination_grace_period_seconds=TERMINATION_GRACE_SECONDS,
        # No user is set: the Neuron images run as root and document no other user.
        security_context=k8s.PodSecurityContext(
            seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault")
        ),
        containers=[
            _container(experiment, variant, resources, bindings),
            _uploader(experiment, bindings),
        ],
        volumes=[
            *pod_volumes(experiment, variant, bindings),
            pods.empty_folder("scratch", size_gib=resources.scratch_gib),
            pods.empty_folder(
                "shared-memory", size_gib=resources.shared_memory_gib, medium="Memory"
            ),
            graph_scripts_volume(),
        ],
    )
    labels = names.server_labels(experiment, slot)
    # A server that is given up stays so until its pod is replaced; a higher `rerun` replaces it.
    annotations = {"draftworth/rerun": str(experiment.spec.rerun)}
    metadata = k8s.ObjectMeta(labels=labels, annotations=annotations)
    return k8s.PodTemplateSpec(metadata=metadata, spec=spec)


def _container(
    experiment: ResolvedNeuron,
    variant: NeuronVariant,
    slot: SlotResources,
    bindings: names.Bindings,
) -> k8s.Container:
    return k8s.Container(
        name=CONTAINER_NAME,
        image=experiment.spec.image,
        image_pull_policy="IfNotPresent",
        command=_start_command(experiment, bindings),
        args=list(variant.command.arguments),
        env=[
            *pods.variables(_engine_environment(variant)),
            # The values come from the pod's labels, so that pods differ in no other field.
            pods.field_variable(
                servers.VARIANT_VARIABLE, f"metadata.labels['{names.VARIANT_LABEL}']"
            ),
            pods.field_variable(
                servers.SERVER_VARIABLE, f"metadata.labels['{names.SERVER_LABEL}']"
            ),
            pods.field_variable(servers.POD_VARIABLE, "metadata.name"),
        ],
        ports=[k8s.ContainerPort(name=PORT_NAME, container_port=SERVING_PORT, protocol="TCP")],
        startup_probe=probe(
            period_seconds=STARTUP_PERIOD_SECONDS,
            failures=STARTUP_ALLOWANCE_MINUTES * 60 // STARTUP_PERIOD_SECONDS,
        ),
        # 60 s, so that a busy server is not removed from its Service's endpoints.
        readiness_probe=probe(period_seconds=10, failures=6),
        # 5 minutes, because after a restart the server loads again, or compiles for an hour.
        liveness_probe=probe(period_seconds=30, failures=10),
        resources=pods.resources(
            cpus=slot.cpus,
            memory_gib=slot.memory_gib,
            ephemeral_storage_gib=slot.ephemeral_storage_gib,
            limit_cpus=True,
            claims=[k8s.ResourceClaim(name=DEVICE_CLAIM_NAME)],
        ),
        # No capability is dropped: all published Neuron containers run with the default ones, which
        # the pod security level `baseline` allows. Whether the runtime needs some of them to open
        # or lock devices is not documented, and an error would show only on a paid node.
        security_context=k8s.SecurityContext(allow_privilege_escalation=False),
        # `kubectl describe pod` then shows the last log lines of a container that failed.
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=[
            *pod_mounts(variant, bindings),
            k8s.VolumeMount(name="scratch", mount_path=SCRATCH_PATH),
            k8s.VolumeMount(name="shared-memory", mount_path=SHARED_MEMORY_PATH),
            graph_scripts_mount(),
        ],
    )


def _start_command(experiment: ResolvedNeuron, bindings: names.Bindings) -> list[str]:
    # The command replaces the images' ENTRYPOINT, which does not forward signals to its child.
    paths = ModelPaths()
    compiler_failures = STARTS_WITH_COMPILER_FAILURE[experiment.spec.aws.capacity.kind]
    return [
        *program("start"),
        f"--artifacts={ARTIFACTS_PATH}",
        f"--scratch={SCRATCH_PATH}",
        f"--checkpoint=target={paths.target}",
        f"--checkpoint=draft={paths.draft}",
        f"--slot-devices={experiment.spec.serving.slot_devices}",
        f"--health-url={HEALTH_URL}",
        # These are arguments and not variables, so that they are not in vLLM's environment.
        f"--results={bindings.results_bucket}",
        f"--region={bindings.region}",
        f"--starts-with-compiler-failure={compiler_failures}",
        *_compiled_graphs_flags(experiment),
        *("--", "vllm", "serve"),
    ]


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


def _uploader(experiment: ResolvedNeuron, bindings: names.Bindings) -> k8s.Container:
    # The uploader is a container and not a Job, because the graphs are on the pod's disk, and a Job
    # that compiles them again would need devices, which the pod has claimed. It does not exit when
    # it has finished, because the pod is not ready while a container restarts.
    return k8s.Container(
        name=UPLOADER_NAME,
        image=experiment.spec.image,
        image_pull_policy="IfNotPresent",
        command=program("upload"),
        args=[
            f"--scratch={SCRATCH_PATH}",
            f"--bucket={bindings.artifacts_bucket}",
            f"--health-url={HEALTH_URL}",
        ],
        env=pods.variables(pods.aws_environment(bindings.region)),
        resources=pods.resources(
            cpus=UPLOADER_CPUS,
            memory_gib=UPLOADER_MEMORY_GIB,
            ephemeral_storage_gib=UPLOADER_EPHEMERAL_STORAGE_GIB,
            limit_cpus=True,
        ),
        security_context=pods.no_rights(),
        volume_mounts=[
            k8s.VolumeMount(name="scratch", mount_path=SCRATCH_PATH),
            graph_scripts_mount(),
        ],
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
        "BASE_COMPILE_WORK_DIR": f"{SCRATCH_PATH}/compile-work/",
        "NEURON_COMPILE_CACHE_URL": f"{SCRATCH_PATH}/compile-cache",
        **variant.command.environment,
    }


def probe(*, period_seconds: int, failures: int) -> k8s.Probe:
    """Return an HTTP probe of the server's `/health`."""
    return k8s.Probe(
        http_get=k8s.HttpGetAction(
            path="/health", port=k8s.IntOrString.from_string(PORT_NAME), scheme="HTTP"
        ),
        period_seconds=period_seconds,
        timeout_seconds=10,
        failure_threshold=failures,
    )
