"""The winner's pod, on Neuron devices or on a CPU.

On Neuron devices it is the measured pod with another program: instead of `start`, which compiles,
reports the state and may give up, an init container finds the compiled graphs
(docs/decisions/0028-the-winner-elsewhere.md).

On a CPU it has the measured flags and environment, but no resources and no node selector, which
were not measured. The checkpoints of such a run are folders of one machine, so the user makes the
volume that holds them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from cdk8s_plus_35 import k8s

from charts.bucket_volumes import ARTIFACTS_PATH, MODEL_PATHS, BucketVolume
from charts.container_parts import LOCKED_DOWN, guaranteed
from charts.names import service_name
from charts.shared_settings import engine_environment
from charts.slot_resources import UPLOADER_RESOURCES, slot_resources
from charts.vllm_pod import SCRATCH_MOUNT, Program, Slot, vllm_pod
from draftworth.experiment.catalog import ArtifactFolder, CompilerCache
from draftworth.planning import resolved
from draftworth.records import servers
from draftworth.serving.dialects import serving_command
from draftworth.serving.server_command import SERVING_PORT, ModelPaths, ServingCommand

_SERVE = ("vllm", "serve")
GRAPHS_PATH = "/scratch/graphs"
_FIND_GRAPHS = Path(__file__).with_name("find_graphs.py")
# Time for the engine to start serving, beyond the limit for loading or compiling its graphs.
_STARTUP_MARGIN_MINUTES = 5
# A rehearsal waits equally long for its engines (`rehearsal/engine_processes.py`).
_LOCAL_STARTUP_MINUTES = 10


def neuron_pod(
    experiment: resolved.ResolvedNeuron,
    variant: resolved.NeuronVariant,
    *,
    claim_template: str,
    volumes: Sequence[BucketVolume],
) -> k8s.PodSpec:
    """Return the spec of the winner's pod on Neuron devices.

    claim_template: the name of the ResourceClaimTemplate for the pod's devices.
    """
    return vllm_pod(
        image=experiment.spec.image,
        account=service_name(variant.name),
        arguments=variant.command.arguments,
        engine_environment=engine_environment(experiment),
        volumes=[volume.in_pod() for volume in volumes],
        mounts=[volume.mount() for volume in volumes],
        program=_with_graphs(experiment, variant),
        slot=Slot(
            instance_type=experiment.spec.instance_type,
            claim_template=claim_template,
            resources=slot_resources(experiment),
        ),
    )


def _with_graphs(experiment: resolved.ResolvedNeuron, variant: resolved.NeuronVariant) -> Program:
    """Return the program `vllm serve`, with an init container that finds the compiled graphs."""
    return Program(
        command=_SERVE,
        startup_seconds=60 * _startup_minutes(experiment),
        environment=dict(_graph_variables(experiment)),
        init_containers=[_find_graphs(experiment, variant)],
    )


def _startup_minutes(experiment: resolved.ResolvedNeuron) -> int:
    """Return the startup probe's limit in minutes: longer if the engine compiles missing graphs."""
    graphs = experiment.spec.release_facts.compiled_graphs
    compiles = isinstance(graphs, CompilerCache) and not graphs.proof_variable
    limit = servers.COMPILE_LIMIT_MINUTES if compiles else servers.LOAD_LIMIT_MINUTES
    return limit + _STARTUP_MARGIN_MINUTES


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


def _find_graphs(
    experiment: resolved.ResolvedNeuron, variant: resolved.NeuronVariant
) -> k8s.Container:
    target, way = GRAPHS_PATH, "link"
    graphs = experiment.spec.release_facts.compiled_graphs
    if isinstance(graphs, CompilerCache):
        target, way = str(PurePosixPath(GRAPHS_PATH) / graphs.folder), "copy"
    artifacts = k8s.VolumeMount(name="artifacts", mount_path=ARTIFACTS_PATH, read_only=True)
    return k8s.Container(
        name="find-graphs",
        image=experiment.spec.image,
        image_pull_policy="IfNotPresent",
        command=["python3", "-c", _FIND_GRAPHS.read_text(encoding="utf-8")],
        args=[ARTIFACTS_PATH, variant.artifact_key, target, way],
        resources=guaranteed(UPLOADER_RESOURCES),
        security_context=LOCKED_DOWN,
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=[artifacts, SCRATCH_MOUNT],
    )


def local_command(
    experiment: resolved.ResolvedLocal, variant: resolved.ResolvedVariant
) -> ServingCommand:
    """Return the command and environment of a variant's vLLM server, as a pod on a CPU runs it.

    They are those with which the variant was measured, except for the paths of the checkpoints and
    the port, which are the pod's.
    """
    command = serving_command(experiment.spec, variant.spec, ModelPaths())
    return replace(command, flags={**command.flags, "--port": str(SERVING_PORT)})


def local_pod(
    variant: resolved.ResolvedVariant, command: ServingCommand, image: str
) -> k8s.PodSpec:
    """Return the spec of a pod that runs a variant's vLLM server on a CPU.

    The pod reads the checkpoints from a volume that the user makes (`checkpoints_claim`).
    """
    account = service_name(variant.name)
    claim = k8s.PersistentVolumeClaimVolumeSource(
        claim_name=checkpoints_claim(account), read_only=True
    )
    checkpoints = k8s.Volume(name="checkpoints", persistent_volume_claim=claim)
    return vllm_pod(
        image=image,
        account=account,
        arguments=command.arguments,
        engine_environment=command.environment,
        volumes=[checkpoints],
        mounts=[
            k8s.VolumeMount(
                name=checkpoints.name, mount_path=MODEL_PATHS[role], sub_path=role, read_only=True
            )
            for role in (["target", "draft"] if variant.draft else ["target"])
        ],
        program=Program(command=_SERVE, startup_seconds=60 * _LOCAL_STARTUP_MINUTES),
        slot=None,
    )


def checkpoints_claim(account: str) -> str:
    """Return the name of the PersistentVolumeClaim with the checkpoints, which the user makes.

    Its volume has a folder `target` and, with a draft model, a folder `draft`.
    account: the name of the pod's service account, with which the name begins.
    """
    return f"{account}-checkpoints"
