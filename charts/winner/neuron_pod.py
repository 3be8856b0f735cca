"""The winner's pod, on Neuron devices or on a CPU.

On Neuron devices it is the measured pod without the uploader. Instead of the program `start`, which
compiles, reports the state and may give up, an init container finds the compiled graphs
(docs/decisions/0028-the-winner-elsewhere.md).

On a CPU it has the measured flags and environment, but no resources and no node selector, which
were not measured. The user makes the volume with the checkpoints, which were local folders.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath
from typing import cast

from charts import vllm_pod
from charts.names import Bindings, content_name, service_name
from charts.serving import claim_template
from charts.storage import ARTIFACTS_PATH, BucketVolume, bucket_volumes
from charts.templates import Object, objects_in
from draftworth.experiment.catalog import ArtifactFolder, CompilerCache
from draftworth.planning import resolved
from draftworth.records import servers
from draftworth.serving.dialects import serving_command
from draftworth.serving.server_command import SERVING_PORT, ModelPaths, ServingCommand


def local_command(
    experiment: resolved.ResolvedLocal, variant: resolved.ResolvedVariant
) -> ServingCommand:
    """Return the measured command, with the model paths and the port of the pod."""
    command = serving_command(experiment.spec, variant.spec, ModelPaths())
    return replace(command, flags={**command.flags, "--port": str(SERVING_PORT)})


def local_pod(
    variant: resolved.ResolvedVariant, command: ServingCommand, image: str, *, service_account: str
) -> Object:
    """Return the spec of a pod on a CPU that reads its checkpoints from `checkpoints_claim`."""
    pod = objects_in(
        "charts.winner",
        "local_pod.yaml.jinja",
        account=service_account,
        claim=checkpoints_claim(service_account),
        port=SERVING_PORT,
        image=image,
        command=command,
        paths=asdict(ModelPaths()),
        roles=["target", "draft"] if variant.draft else ["target"],
    )
    return cast(Object, pod)


def checkpoints_claim(name: str) -> str:
    """Return the name of the user's PersistentVolumeClaim, with folders `target` and `draft`."""
    return f"{name}-checkpoints"


GRAPHS_PATH = "/scratch/graphs"
_PROGRAM = Path(__file__).with_name("find_graphs.py")
# The volume with the program `start`.
_SCRIPTS = "graph-scripts"
# Time for the engine to start serving after the limit for loading or compiling its graphs.
_STARTUP_MARGIN_MINUTES = 5


def neuron_pod(
    experiment: resolved.ResolvedNeuron,
    variant: resolved.NeuronVariant,
    bindings: Bindings,
    *,
    claim_template: str,
    volumes: Sequence[BucketVolume],
) -> Object:
    """Return the spec of a pod on Neuron devices."""
    deployment, _ = vllm_pod.server_objects(
        experiment,
        variant,
        variant.slot,
        bindings,
        claim_template=claim_template,
        volumes=volumes,
        replicas=1,
    )
    pod: Object = deployment["spec"]["template"]["spec"]
    server = pod["containers"][0]
    own = {
        servers.VARIANT_VARIABLE,
        servers.SERVER_VARIABLE,
        servers.POD_VARIABLE,
        *vllm_pod.graph_environment(variant),
    }
    found = [{"name": n, "value": v} for n, v in _graph_variables(experiment)]
    server |= {
        "command": ["vllm", "serve"],
        "env": [*(v for v in server["env"] if v["name"] not in own), *found],
        "volumeMounts": [m for m in server["volumeMounts"] if m["name"] != _SCRIPTS],
    }
    probe = server["startupProbe"]
    probe["failureThreshold"] = _startup_minutes(experiment) * 60 // probe["periodSeconds"]
    return {
        **pod,
        "initContainers": [_find_graphs(experiment, variant)],
        "containers": [server],
        "volumes": [v for v in pod["volumes"] if v["name"] != _SCRIPTS],
    }


def volumes_of(
    experiment: resolved.ResolvedNeuron,
    variant: resolved.NeuronVariant,
    bindings: Bindings,
    namespace: str,
) -> list[BucketVolume]:
    """Return the server's volumes, with other names than in the experiment.

    PersistentVolumes have no namespace, and those of the experiment may be in the same cluster.
    """
    prefix = f"{namespace}-{service_name(variant.name)}"
    volumes = bucket_volumes(experiment, variant, bindings)
    return [replace(volume, name=f"{prefix}-{volume.name}") for volume in volumes]


def named_claim_template(experiment: resolved.ResolvedNeuron, namespace: str) -> Object:
    """Return the device claim's template; it needs Kubernetes 1.34 and the Neuron DRA driver."""
    template = claim_template(experiment, None)
    prefix = f"neuron-{experiment.spec.serving.slot_devices}-devices"
    spec = template.pop("spec")
    metadata = {"name": content_name(prefix, spec), "namespace": namespace}
    return {**template, "metadata": metadata, "spec": spec}


def _graph_variables(experiment: resolved.ResolvedNeuron) -> Iterator[tuple[str, str]]:
    """Yield environment variables (name, value) for the engine.

    The first is the path of the compiled graphs. The second, if the engine has such a variable,
    makes the engine exit if a graph is missing.
    """
    match experiment.spec.release_facts.compiled_graphs:
        case ArtifactFolder(variable=variable):
            yield variable, GRAPHS_PATH
        case CompilerCache(variable=variable, proof_variable=proof):
            yield variable, GRAPHS_PATH
            if proof:
                yield proof, "1"


def _startup_minutes(experiment: resolved.ResolvedNeuron) -> int:
    """Return the startup probe's limit, which is longer if the engine compiles missing graphs."""
    graphs = experiment.spec.release_facts.compiled_graphs
    compiles = isinstance(graphs, CompilerCache) and not graphs.proof_variable
    limit = servers.COMPILE_LIMIT_MINUTES if compiles else servers.LOAD_LIMIT_MINUTES
    return limit + _STARTUP_MARGIN_MINUTES


def _find_graphs(experiment: resolved.ResolvedNeuron, variant: resolved.NeuronVariant) -> Object:
    target, way = GRAPHS_PATH, "link"
    graphs = experiment.spec.release_facts.compiled_graphs
    if isinstance(graphs, CompilerCache):
        target, way = str(PurePosixPath(GRAPHS_PATH) / graphs.folder), "copy"
    container = objects_in(
        "charts.winner",
        "find_graphs.yaml.jinja",
        image=experiment.spec.image,
        program=_PROGRAM.read_text(encoding="utf-8"),
        arguments=[ARTIFACTS_PATH, variant.artifact_key, target, way],
        resources=vllm_pod.UPLOADER_RESOURCES,
    )
    return cast(Object, container)
