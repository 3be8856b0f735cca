"""One variant's serving pod.

The variant decides the speculation flags, the draft mount, the artifact key and the names; all else
comes from the experiment, which the variants share, so the comparison is fair.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from cdk8s_plus_35 import k8s

from charts.bindings import Bindings
from charts.graph_scripts import MOUNT_PATH as SCRIPTS_PATH
from charts.graph_scripts import graph_scripts_mount, graph_scripts_volume
from charts.names import ACCELERATOR_TAINT_KEY, SERVING_SERVICE_ACCOUNT, variant_labels
from charts.slot import (
    UPLOADER_CPUS,
    UPLOADER_EPHEMERAL_STORAGE_GIB,
    UPLOADER_MEMORY_GIB,
    slot_resources,
)
from charts.storage import BucketVolume, artifacts_volume, draft_volume, target_volume
from draftworth.experiment.catalog import ArtifactFolder, CompilerCache
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron
from draftworth.serving.command import SERVING_PORT, ModelPaths

CONTAINER_NAME = "vllm"
UPLOADER_NAME = "graph-uploader"
DEVICE_CLAIM_NAME = "neuron"
PORT_NAME = "http"

ARTIFACTS_PATH = "/artifacts"
SCRATCH_PATH = "/scratch"
SHARED_MEMORY_PATH = "/dev/shm"  # noqa: S108 (the container's own, mounted by this pod)

# A start that finds no compiled graphs compiles the model, which can take an hour and more.
STARTUP_ALLOWANCE_MINUTES = 120
STARTUP_PERIOD_SECONDS = 10
TERMINATION_GRACE_SECONDS = 60

# Everything is local: the engine asks no hub and reports to nobody. A pod's log is not buffered.
_COMMON_ENVIRONMENT: Mapping[str, str] = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONUNBUFFERED": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


def pod_template(
    experiment: ResolvedNeuron, variant: NeuronVariant, bindings: Bindings, *, claim_template: str
) -> k8s.PodTemplateSpec:
    """The pod of one variant; `claim_template` names the ResourceClaimTemplate of its devices."""
    claim = k8s.PodResourceClaim(
        name=DEVICE_CLAIM_NAME, resource_claim_template_name=claim_template
    )
    spec = k8s.PodSpec(
        service_account_name=SERVING_SERVICE_ACCOUNT,
        automount_service_account_token=False,
        # Otherwise a Service called vllm-x puts VLLM_X_... into the engine's own namespace.
        enable_service_links=False,
        node_selector={"node.kubernetes.io/instance-type": experiment.spec.instance_type},
        tolerations=[
            k8s.Toleration(key=ACCELERATOR_TAINT_KEY, operator="Exists", effect="NoSchedule")
        ],
        resource_claims=[claim],
        termination_grace_period_seconds=TERMINATION_GRACE_SECONDS,
        # No user: the Neuron images run as root and say nothing of another user.
        security_context=k8s.PodSecurityContext(
            seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault")
        ),
        containers=[
            _container(experiment, variant, bindings),
            _uploader(experiment, bindings),
        ],
        volumes=_volumes(experiment, variant, bindings),
    )
    labels = variant_labels(experiment, variant)
    return k8s.PodTemplateSpec(metadata=k8s.ObjectMeta(labels=labels), spec=spec)


def _container(
    experiment: ResolvedNeuron, variant: NeuronVariant, bindings: Bindings
) -> k8s.Container:
    slot = slot_resources(experiment)
    return k8s.Container(
        name=CONTAINER_NAME,
        image=experiment.spec.image,
        image_pull_policy="IfNotPresent",
        command=_start_command(experiment),
        args=list(variant.command.arguments),
        env=_environment(variant),
        ports=[k8s.ContainerPort(name=PORT_NAME, container_port=SERVING_PORT, protocol="TCP")],
        startup_probe=_probe(
            period_seconds=STARTUP_PERIOD_SECONDS,
            failures=STARTUP_ALLOWANCE_MINUTES * 60 // STARTUP_PERIOD_SECONDS,
        ),
        # Lenient: a server that is busy measuring is not to be taken out of its Service.
        readiness_probe=_probe(period_seconds=10, failures=6),
        # Five minutes: a restart costs a reload, or an hour of compiling.
        liveness_probe=_probe(period_seconds=30, failures=10),
        resources=_resources(
            cpus=slot.cpus,
            memory_gib=slot.memory_gib,
            ephemeral_storage_gib=slot.ephemeral_storage_gib,
            claims=[k8s.ResourceClaim(name=DEVICE_CLAIM_NAME)],
        ),
        security_context=_no_rights(),
        # Why graphs were refused is then in `kubectl describe pod`.
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=_mounts(experiment, variant, bindings),
    )


def _start_command(experiment: ResolvedNeuron) -> list[str]:
    """The same for every variant; vLLM takes the place of `start`.

    The images' ENTRYPOINT only runs its arguments, and does not pass signals on: replaced.
    """
    paths = ModelPaths()
    return [
        *("python3", SCRIPTS_PATH, "start"),
        f"--artifacts={ARTIFACTS_PATH}",
        f"--scratch={SCRATCH_PATH}",
        f"--checkpoint=target={paths.target}",
        f"--checkpoint=draft={paths.draft}",
        *_compiled_graphs_flags(experiment),
        *("--", "vllm", "serve"),
    ]


def _compiled_graphs_flags(experiment: ResolvedNeuron) -> list[str]:
    """How this release's engine is told of compiled graphs."""
    match experiment.spec.release_facts.compiled_graphs:
        case ArtifactFolder(variable=variable):
            return [f"--artifact-folder={variable}"]
        case CompilerCache(variable=variable, folder=folder):
            return ["--compiler-cache", variable, folder]
        case None:
            raise ValueError(
                f"{experiment.spec.release}: the catalogue says that it compiles nothing"
            )


def _uploader(experiment: ResolvedNeuron, bindings: Bindings) -> k8s.Container:
    """Uploads what vLLM compiled; told nothing of the variant, whose key `start` writes down.

    A container beside vLLM and no Job: the graphs are on this pod's disk, and a pod of their own
    could not have the devices that compiling takes, which this one holds. It never ends by itself:
    with a container that restarts the pod would not be ready.
    """
    arguments = {
        "--scratch": SCRATCH_PATH,
        "--bucket": bindings.artifacts_bucket,
        "--health-url": f"http://127.0.0.1:{SERVING_PORT}/health",
    }
    # boto3 reads the second name, other SDKs the first.
    environment = {
        "AWS_REGION": bindings.region,
        "AWS_DEFAULT_REGION": bindings.region,
        "PYTHONUNBUFFERED": "1",
    }
    return k8s.Container(
        name=UPLOADER_NAME,
        image=experiment.spec.image,
        image_pull_policy="IfNotPresent",
        command=["python3", SCRIPTS_PATH, "upload"],
        args=[f"{name}={value}" for name, value in arguments.items()],
        env=[k8s.EnvVar(name=name, value=value) for name, value in environment.items()],
        resources=_resources(
            cpus=UPLOADER_CPUS,
            memory_gib=UPLOADER_MEMORY_GIB,
            ephemeral_storage_gib=UPLOADER_EPHEMERAL_STORAGE_GIB,
        ),
        security_context=_no_rights(read_only_root_filesystem=True),
        volume_mounts=[
            k8s.VolumeMount(name="scratch", mount_path=SCRATCH_PATH),
            graph_scripts_mount(),
        ],
    )


def _environment(variant: NeuronVariant) -> list[k8s.EnvVar]:
    values = {
        **_COMMON_ENVIRONMENT,
        "ARTIFACT_KEY": variant.artifact_key,
        "ARTIFACT_INPUTS": json.dumps(
            variant.artifact_inputs, sort_keys=True, separators=(",", ":")
        ),
        "BASE_COMPILE_WORK_DIR": f"{SCRATCH_PATH}/compile-work/",
        "NEURON_COMPILE_CACHE_URL": f"{SCRATCH_PATH}/compile-cache",
        **variant.command.environment,
    }
    return [k8s.EnvVar(name=name, value=value) for name, value in sorted(values.items())]


def _probe(*, period_seconds: int, failures: int) -> k8s.Probe:
    return k8s.Probe(
        http_get=k8s.HttpGetAction(
            path="/health", port=k8s.IntOrString.from_string(PORT_NAME), scheme="HTTP"
        ),
        period_seconds=period_seconds,
        timeout_seconds=10,
        failure_threshold=failures,
    )


def _resources(
    *,
    cpus: int,
    memory_gib: int,
    ephemeral_storage_gib: int,
    claims: list[k8s.ResourceClaim] | None = None,
) -> k8s.ResourceRequirements:
    # Limits equal requests (QoS class Guaranteed): while one variant compiles or is measured, its
    # neighbour on the node can take nothing from it.
    amounts = {
        "cpu": k8s.Quantity.from_string(str(cpus)),
        "memory": _gib(memory_gib),
        "ephemeral-storage": _gib(ephemeral_storage_gib),
    }
    return k8s.ResourceRequirements(requests=amounts, limits=amounts, claims=claims)


def _no_rights(*, read_only_root_filesystem: bool | None = None) -> k8s.SecurityContext:
    return k8s.SecurityContext(
        allow_privilege_escalation=False,
        read_only_root_filesystem=read_only_root_filesystem,
        capabilities=k8s.Capabilities(drop=["ALL"]),
    )


def _bucket_mounts(
    experiment: ResolvedNeuron, variant: NeuronVariant, bindings: Bindings
) -> dict[str, BucketVolume]:
    """Where the buckets' volumes are mounted."""
    paths = ModelPaths()
    volumes = {
        paths.target: target_volume(experiment, bindings),
        paths.draft: draft_volume(variant, bindings),
        ARTIFACTS_PATH: artifacts_volume(bindings),
    }
    return {path: volume for path, volume in volumes.items() if volume is not None}


def _volumes(
    experiment: ResolvedNeuron, variant: NeuronVariant, bindings: Bindings
) -> list[k8s.Volume]:
    slot = slot_resources(experiment)
    scratch = k8s.EmptyDirVolumeSource(size_limit=_gib(slot.scratch_gib))
    shared = k8s.EmptyDirVolumeSource(medium="Memory", size_limit=_gib(slot.shared_memory_gib))
    return [
        *(
            _bucket_volume(volume, volume.name(experiment))
            for volume in _bucket_mounts(experiment, variant, bindings).values()
        ),
        k8s.Volume(name="scratch", empty_dir=scratch),
        k8s.Volume(name="shared-memory", empty_dir=shared),
        graph_scripts_volume(),
    ]


def _bucket_volume(volume: BucketVolume, claim_name: str) -> k8s.Volume:
    source = k8s.PersistentVolumeClaimVolumeSource(claim_name=claim_name, read_only=True)
    return k8s.Volume(name=volume.role, persistent_volume_claim=source)


def _mounts(
    experiment: ResolvedNeuron, variant: NeuronVariant, bindings: Bindings
) -> list[k8s.VolumeMount]:
    return [
        *(
            k8s.VolumeMount(name=volume.role, mount_path=path, read_only=True)
            for path, volume in _bucket_mounts(experiment, variant, bindings).items()
        ),
        k8s.VolumeMount(name="scratch", mount_path=SCRATCH_PATH),
        k8s.VolumeMount(name="shared-memory", mount_path=SHARED_MEMORY_PATH),
        graph_scripts_mount(),
    ]


def _gib(amount: int) -> k8s.Quantity:
    return k8s.Quantity.from_string(f"{amount}Gi")
