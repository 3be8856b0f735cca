"""The pod of a vLLM server, as it is measured and as a run's winner is served.

Both pods are made here, so what is served is what was measured. They differ in the `Program` that
starts vLLM. A pod on Neuron devices has a `Slot`; a local experiment's winner is served on a CPU,
without a `Slot`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cdk8s_plus_35 import k8s

from charts.container_parts import (
    DEFAULT_SECCOMP,
    FOR_ROOT,
    environment,
    gib,
    guaranteed,
)
from charts.names import ACCELERATOR_TAINT_KEY
from charts.slot_resources import SlotResources
from draftworth.serving.server_command import SERVING_PORT

SCRATCH_PATH = "/scratch"
SCRATCH_MOUNT = k8s.VolumeMount(name="scratch", mount_path=SCRATCH_PATH)
SHARED_MEMORY = "shared-memory"
_CLAIM = "neuron"
_PROBE_SECONDS = 10


@dataclass(frozen=True, kw_only=True)
class Program:
    """The program that starts vLLM in its container, and what the program needs in the pod.

    command: the program, followed by the arguments of `vllm serve`. It replaces the ENTRYPOINT of
        the image, which does not forward signals to its child.
    startup_seconds: if the server has not answered by then, its container is restarted.
    environment: variables beside the engine's, {variable: value}.
    pod_fields: variables whose value is a field of the pod, {variable: the field's path}.
    volumes, mounts: those for the program itself, beside those with checkpoints and graphs.
    init_containers: they end before the server starts. sidecars: they run beside the server.
    """

    command: Sequence[str]
    startup_seconds: int
    environment: Mapping[str, str] = field(default_factory=dict)
    pod_fields: Mapping[str, str] = field(default_factory=dict)
    volumes: Sequence[k8s.Volume] = ()
    mounts: Sequence[k8s.VolumeMount] = ()
    init_containers: Sequence[k8s.Container] = ()
    sidecars: Sequence[k8s.Container] = ()


@dataclass(frozen=True, kw_only=True)
class Slot:
    """The part of an accelerator node that a pod gets.

    claim_template: the name of the ResourceClaimTemplate for the devices.
    """

    instance_type: str
    claim_template: str
    resources: SlotResources

    def volumes(self) -> list[k8s.Volume]:
        scratch = k8s.EmptyDirVolumeSource(size_limit=gib(self.resources.scratch_gib))
        memory = k8s.EmptyDirVolumeSource(
            medium="Memory", size_limit=gib(self.resources.shared_memory_gib)
        )
        return [
            k8s.Volume(name=SCRATCH_MOUNT.name, empty_dir=scratch),
            k8s.Volume(name=SHARED_MEMORY, empty_dir=memory),
        ]

    def mounts(self) -> list[k8s.VolumeMount]:
        return [SCRATCH_MOUNT, k8s.VolumeMount(name=SHARED_MEMORY, mount_path="/dev/shm")]  # noqa: S108 (the volume's place)

    def requirements(self) -> k8s.ResourceRequirements:
        quantities = {
            "cpu": str(self.resources.cpus),
            "memory": f"{self.resources.memory_gib}Gi",
            "ephemeral-storage": f"{self.resources.ephemeral_storage_gib}Gi",
        }
        return guaranteed(quantities, claims=[_CLAIM])


def vllm_pod(
    *,
    image: str,
    account: str,
    arguments: Sequence[str],
    engine_environment: Mapping[str, str],
    volumes: Sequence[k8s.Volume],
    mounts: Sequence[k8s.VolumeMount],
    program: Program,
    slot: Slot | None,
) -> k8s.PodSpec:
    """Return the spec of a vLLM server's pod.

    account: the pod's service account. arguments: the arguments of `vllm serve`.
    volumes, mounts: those with checkpoints and compiled graphs.
    slot: None on a CPU; the pod then requests no resources and may run on any node.
    """
    server = _server(
        image=image,
        arguments=arguments,
        variables=environment({**engine_environment, **program.environment}, program.pod_fields),
        mounts=[*mounts, *(slot.mounts() if slot else ()), *program.mounts],
        program=program,
        resources=slot.requirements() if slot else None,
    )
    return k8s.PodSpec(
        # Each variant has its own account, so no server can change another variant's graphs.
        service_account_name=account,
        automount_service_account_token=False,
        # With service links Kubernetes would set variables VLLM_X_... for a Service `vllm-x`, and
        # vLLM reads variables that begin with VLLM_.
        enable_service_links=False,
        node_selector={"node.kubernetes.io/instance-type": slot.instance_type} if slot else None,
        tolerations=[_ACCELERATOR_NODES] if slot else None,
        resource_claims=[_claim(slot)] if slot else None,
        termination_grace_period_seconds=60,
        # No user is set: the Neuron images run as root and document no other user.
        security_context=k8s.PodSecurityContext(seccomp_profile=DEFAULT_SECCOMP),
        init_containers=[*program.init_containers] or None,
        containers=[server, *program.sidecars],
        volumes=[*volumes, *(slot.volumes() if slot else ()), *program.volumes],
    )


_ACCELERATOR_NODES = k8s.Toleration(
    key=ACCELERATOR_TAINT_KEY, operator="Exists", effect="NoSchedule"
)


def _claim(slot: Slot) -> k8s.PodResourceClaim:
    return k8s.PodResourceClaim(name=_CLAIM, resource_claim_template_name=slot.claim_template)


def _server(
    *,
    image: str,
    arguments: Sequence[str],
    variables: Sequence[k8s.EnvVar],
    mounts: Sequence[k8s.VolumeMount],
    program: Program,
    resources: k8s.ResourceRequirements | None,
) -> k8s.Container:
    return k8s.Container(
        name="vllm",
        image=image,
        image_pull_policy="IfNotPresent",
        command=[*program.command],
        args=[*arguments],
        env=variables,
        ports=[k8s.ContainerPort(name="http", container_port=SERVING_PORT, protocol="TCP")],
        startup_probe=_probe(failures=program.startup_seconds // _PROBE_SECONDS),
        # The pod is unready only after 60 s without a response, so that a busy server is not
        # removed from its Service's endpoints.
        readiness_probe=_probe(failures=6),
        # The container is restarted only after 5 minutes without a response, because a restart is
        # costly: the server loads its graphs again, or compiles for an hour.
        liveness_probe=_probe(failures=10, period_seconds=30),
        resources=resources,
        # No capability is dropped: all published Neuron containers run with the default ones, which
        # the pod security level `baseline` allows. Whether the runtime needs some of them to open
        # or lock devices is not documented, and an error would show only on a paid node.
        security_context=FOR_ROOT,
        # `kubectl describe pod` then shows the last log lines of a container that failed.
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=mounts,
    )


def _probe(*, failures: int, period_seconds: int = _PROBE_SECONDS) -> k8s.Probe:
    port = k8s.IntOrString.from_string("http")
    return k8s.Probe(
        http_get=k8s.HttpGetAction(path="/health", port=port, scheme="HTTP"),
        period_seconds=period_seconds,
        timeout_seconds=10,
        failure_threshold=failures,
    )
