"""The winner's pod, on Neuron devices or on a CPU.

On Neuron devices it is the measured pod without the uploader. Instead of the program `start`, which
compiles, reports the state and may give up, an init container finds the compiled graphs
(docs/decisions/0028-the-winner-elsewhere.md).

On a CPU it has the measured flags and environment, but no resources and no node selector, which
were not measured. The user makes the volume with the checkpoints, which were local folders.
"""

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, cast

from charts import k8s, vllm_pod
from charts.files import objects_in
from charts.graph_scripts import VOLUME_NAME as SCRIPTS
from charts.names import Bindings, content_name, service_name
from charts.pods import no_rights, resources
from charts.serving import claim_template_spec
from charts.storage import ARTIFACTS_PATH, bucket_volumes, claim_spec, volume_spec
from charts.winner.measured import Object
from draftworth.experiment.catalog import ArtifactFolder, CompilerCache
from draftworth.planning.resolved import (
    NeuronVariant,
    ResolvedLocal,
    ResolvedNeuron,
    ResolvedVariant,
)
from draftworth.records import servers
from draftworth.serving.command import SERVING_PORT, ModelPaths, ServingCommand
from draftworth.serving.dialects import serving_command

# A rehearsal waits equally long for its engines (`rehearsal/engine.py`).
_STARTUP_SECONDS = 600
_PERIOD_SECONDS = 10


def local_command(experiment: ResolvedLocal, variant: ResolvedVariant) -> ServingCommand:
    """Return the measured command, with the model paths and the port of the pod."""
    command = serving_command(experiment.spec, variant.spec, ModelPaths())
    return replace(command, flags={**command.flags, "--port": str(SERVING_PORT)})


def local_pod(
    variant: ResolvedVariant, command: ServingCommand, image: str, *, service_account: str
) -> Object:
    """Return the spec of a pod on a CPU that reads its checkpoints from `checkpoints_claim`."""
    models = {"target": ModelPaths().target}
    if variant.draft:
        models["draft"] = ModelPaths().draft
    probes = {
        "startup": _probe(_STARTUP_SECONDS // _PERIOD_SECONDS),
        "readiness": _probe(6),
        "liveness": _probe(30),
    }
    pod = objects_in(
        "charts.winner",
        "local_pod.yaml.jinja",
        account=service_account,
        claim=checkpoints_claim(service_account),
        container=vllm_pod.CONTAINER_NAME,
        port_name=vllm_pod.PORT_NAME,
        port=SERVING_PORT,
        image=image,
        command=command,
        models=models,
        probes=probes,
    )
    return _plain(pod)


def checkpoints_claim(name: str) -> str:
    """Return the name of a claim that the user makes, with the folders `target` and `draft`."""
    return f"{name}-checkpoints"


def _probe(failures: int) -> Object:
    return _plain(vllm_pod.probe(period_seconds=_PERIOD_SECONDS, failures=failures))


GRAPHS_PATH = f"{vllm_pod.SCRATCH_PATH}/graphs"
INIT_NAME = "find-graphs"
_PROGRAM = Path(__file__).with_name("find_graphs.py")
# Time for the engine to start serving after the limit for loading or compiling its graphs.
_STARTUP_MARGIN_MINUTES = 5


def neuron_pod(
    experiment: ResolvedNeuron, variant: NeuronVariant, bindings: Bindings, namespace: str
) -> Object:
    """Return the spec of a pod on Neuron devices."""
    template = vllm_pod.pod_template(
        experiment,
        variant,
        variant.slot,
        bindings,
        claim_template=_claim_template_name(experiment),
    )
    pod = copy.deepcopy(_plain(template)["spec"])
    server = next(c for c in pod["containers"] if c["name"] == vllm_pod.CONTAINER_NAME)
    own = {
        servers.VARIANT_VARIABLE,
        servers.SERVER_VARIABLE,
        servers.POD_VARIABLE,
        *vllm_pod.graph_environment(variant),
    }
    found = [{"name": n, "value": v} for n, v in _graph_variables(experiment)]
    server |= {
        "command": ["vllm", "serve"],
        "args": list(variant.command.arguments),
        "env": [*(v for v in server["env"] if v["name"] not in own), *found],
        "volumeMounts": [m for m in server["volumeMounts"] if m["name"] != SCRIPTS],
    }
    server["startupProbe"]["failureThreshold"] = _startup_minutes(experiment) * (
        60 // vllm_pod.STARTUP_PERIOD_SECONDS
    )
    names = _volume_names(experiment, variant, bindings, namespace)
    for volume in pod["volumes"]:
        if claim := volume.get("persistentVolumeClaim"):
            claim["claimName"] = names[claim["claimName"]]
    return {
        **pod,
        "initContainers": [_find_graphs(experiment, variant)],
        "containers": [server],
        "volumes": [v for v in pod["volumes"] if v["name"] != SCRIPTS],
    }


def volumes(
    experiment: ResolvedNeuron, variant: NeuronVariant, bindings: Bindings, namespace: str
) -> Iterator[Object]:
    """Yield the PersistentVolumes, each followed by its claim."""
    names = _volume_names(experiment, variant, bindings, namespace)
    for volume in bucket_volumes(variant, bindings):
        name = names[volume.name(experiment)]
        yield _plain(
            k8s.KubePersistentVolume.manifest(
                metadata=k8s.ObjectMeta(name=name),
                spec=volume_spec(experiment, volume, name, namespace=namespace),
            )
        )
        yield _plain(
            k8s.KubePersistentVolumeClaim.manifest(
                metadata=k8s.ObjectMeta(name=name, namespace=namespace), spec=claim_spec(name)
            )
        )


def claim_template(experiment: ResolvedNeuron, namespace: str) -> Object:
    """Return the device claim's template; it needs Kubernetes 1.34 and the Neuron DRA driver."""
    return _plain(
        k8s.KubeResourceClaimTemplate.manifest(
            metadata=k8s.ObjectMeta(name=_claim_template_name(experiment), namespace=namespace),
            spec=claim_template_spec(experiment, None),
        )
    )


def service_account(name: str, namespace: str) -> Object:
    """Return the pod's service account, without a token for the Kubernetes API."""
    return _plain(
        k8s.KubeServiceAccount.manifest(
            metadata=k8s.ObjectMeta(name=name, namespace=namespace),
            automount_service_account_token=False,
        )
    )


def _plain(value: Any) -> Object:
    return cast(Object, value)


def _claim_template_name(experiment: ResolvedNeuron) -> str:
    return content_name(
        f"neuron-{experiment.spec.serving.slot_devices}-devices",
        claim_template_spec(experiment, None),
    )


def _volume_names(
    experiment: ResolvedNeuron, variant: NeuronVariant, bindings: Bindings, namespace: str
) -> dict[str, str]:
    # PersistentVolumes have no namespace, and those of the experiment may be in the same cluster.
    names = (volume.name(experiment) for volume in bucket_volumes(variant, bindings))
    return {name: f"{namespace}-{service_name(variant.name)}-{name}" for name in names}


def _graph_variables(experiment: ResolvedNeuron) -> Iterator[tuple[str, str]]:
    """Yield (name, value): the graphs' path and, if the engine has it, a switch to exit without."""
    match experiment.spec.release_facts.compiled_graphs:
        case ArtifactFolder(variable=variable):
            yield variable, GRAPHS_PATH
        case CompilerCache(variable=variable, proof_variable=proof):
            yield variable, GRAPHS_PATH
            if proof:
                yield proof, "1"


def _startup_minutes(experiment: ResolvedNeuron) -> int:
    """Return the startup probe's limit, which is longer if the engine compiles missing graphs."""
    graphs = experiment.spec.release_facts.compiled_graphs
    compiles = isinstance(graphs, CompilerCache) and not graphs.proof_variable
    limit = servers.COMPILE_LIMIT_MINUTES if compiles else servers.LOAD_LIMIT_MINUTES
    return limit + _STARTUP_MARGIN_MINUTES


def _find_graphs(experiment: ResolvedNeuron, variant: NeuronVariant) -> Object:
    target, way = GRAPHS_PATH, "link"
    graphs = experiment.spec.release_facts.compiled_graphs
    if isinstance(graphs, CompilerCache):
        target, way = str(PurePosixPath(GRAPHS_PATH) / graphs.folder), "copy"
    container = k8s.Container(
        name=INIT_NAME,
        image=experiment.spec.image,
        image_pull_policy="IfNotPresent",
        command=["python3", "-c", _PROGRAM.read_text(encoding="utf-8")],
        args=[ARTIFACTS_PATH, variant.artifact_key, target, way],
        resources=resources(
            cpus=vllm_pod.UPLOADER_CPUS,
            memory_gib=vllm_pod.UPLOADER_MEMORY_GIB,
            ephemeral_storage_gib=vllm_pod.UPLOADER_EPHEMERAL_STORAGE_GIB,
            limit_cpus=True,
        ),
        security_context=no_rights(),
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=[
            k8s.VolumeMount(name="artifacts", mount_path=ARTIFACTS_PATH, read_only=True),
            k8s.VolumeMount(name="scratch", mount_path=vllm_pod.SCRATCH_PATH),
        ],
    )
    return _plain(container)
