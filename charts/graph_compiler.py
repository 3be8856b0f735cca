"""The graph compilers: a Job for each graph, on large CPU nodes, before an accelerator node exists.

The serving image with the server's own command, environment and paths: the paths are written into
what is compiled. Only configurations are read, which each pod downloads itself: it waits for no
checkpoint to be staged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import cdk8s
from constructs import Construct

from charts import k8s
from charts.bindings import Bindings
from charts.checkpoint_stager import HUB_ENVIRONMENT
from charts.jobs import PROGRAMS_PATH, ProgramJob, add_job, copied_programs, on_exit
from charts.names import (
    COMPILE_NODE_LABELS,
    COMPILE_TAINT_KEY,
    GRAPH_COMPILER_SERVICE_ACCOUNT,
    graph_compiler_labels,
    service_name,
)
from charts.pods import (
    aws_environment,
    empty_folder,
    field_variable,
    no_rights,
    resources,
    variables,
)
from charts.vllm_pod import (
    SCRATCH_PATH,
    SHARED_MEMORY_PATH,
    compiled_graphs_flags,
    engine_environment,
)
from draftworth.errors import UserInputError
from draftworth.experiment.cluster import (
    COMPILE_INSTANCE_MEMORY_GIB,
    COMPILE_INSTANCE_VCPUS,
    COMPILE_NODE_SYSTEM_GIB,
    COMPILE_NODE_SYSTEM_VCPUS,
)
from draftworth.experiment.variants import HubModel
from draftworth.planning.cpu_compiling import GraphToCompile, graphs_to_compile
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron
from draftworth.records.staging import FAILURES_ANNOTATION, FAILURES_VARIABLE
from draftworth.serving.command import ModelPaths

CONTAINER_NAME = "graph-compiler"
# One after memory ran out, with half the workers and nothing left of the first.
RETRIES = 1
# Compilers that run at once. One graph of this kind ran out of memory at 124 GB (decision record
# 26): three of them fit.
WORKERS = 3
SCRATCH_GIB = 100
SHARED_MEMORY_GIB = 32
TEMPORARY_GIB = 5
# All that a compile node has left for pods.
COMPILE_CPUS = COMPILE_INSTANCE_VCPUS - COMPILE_NODE_SYSTEM_VCPUS
COMPILE_MEMORY_GIB = COMPILE_INSTANCE_MEMORY_GIB - COMPILE_NODE_SYSTEM_GIB
# A compile that hangs ends; nobody waits for it any more by then.
DEADLINE_SECONDS = 2 * 3600
_HUB = {**HUB_ENVIRONMENT, "TMPDIR": SCRATCH_PATH}


class GraphCompilerChart(cdk8s.Chart):
    """The Jobs of some graphs; those of graphs that may not be needed are suspended until they are
    likely to be.

    job_names: of the Jobs, by artifact key.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        graphs: Sequence[GraphToCompile],
        experiment: ResolvedNeuron,
        bindings: Bindings,
    ) -> None:
        super().__init__(
            scope, id_, disable_resource_name_hashes=True, labels=graph_compiler_labels(experiment)
        )
        self.job_names = {
            graph.key: add_job(self, _job(experiment, graph, bindings), bindings)
            for graph in graphs
        }


def graph_compiler_charts(
    scope: Construct, id_: str, *, experiment: ResolvedNeuron, bindings: Bindings
) -> Iterator[GraphCompilerChart]:
    """One of the certain graphs, and one for each likely graph.

    Apart for the same reason as the candidates' servers: all in one would be more than an update's
    event can carry (`stacks/manifest_size.py`).
    """
    graphs = graphs_to_compile(experiment)
    certain = [graph for graph in graphs if graph.certain]
    likely = [[graph] for graph in graphs if not graph.certain]
    for of_chart in filter(None, (certain, *likely)):
        name = id_ if of_chart is certain else f"{id_}-{of_chart[0].key}"
        yield GraphCompilerChart(
            scope, name, graphs=of_chart, experiment=experiment, bindings=bindings
        )


def _job(experiment: ResolvedNeuron, graph: GraphToCompile, bindings: Bindings) -> ProgramJob:
    variant = graph.variant
    return ProgramJob(
        prefix=f"compile-{service_name(variant.name).removeprefix('vllm-')}",
        container=CONTAINER_NAME,
        image=experiment.spec.image,
        working_folder=PROGRAMS_PATH,
        command=_command(experiment, variant, bindings),
        arguments={},
        environment={
            **engine_environment(variant),
            **_target(experiment),
            "HOME": SCRATCH_PATH,
            "TMPDIR": SCRATCH_PATH,
        },
        more_variables=[
            field_variable("JOB_NAME", "metadata.labels['batch.kubernetes.io/job-name']"),
            field_variable("NODE_NAME", "spec.nodeName"),
            field_variable(FAILURES_VARIABLE, f"metadata.annotations['{FAILURES_ANNOTATION}']"),
        ],
        service_account=GRAPH_COMPILER_SERVICE_ACCOUNT,
        labels=graph_compiler_labels(experiment),
        annotations={
            "draftworth/variant": variant.name,
            "draftworth/artifact-key": graph.key,
            # A compile that failed is tried again by a raised rerun.
            "draftworth/rerun": str(experiment.spec.rerun),
        },
        node_labels=COMPILE_NODE_LABELS,
        resources=resources(
            cpus=COMPILE_CPUS,
            memory_gib=COMPILE_MEMORY_GIB,
            ephemeral_storage_gib=SCRATCH_GIB + TEMPORARY_GIB + 10,
        ),
        volumes=[
            empty_folder("scratch", size_gib=SCRATCH_GIB),
            empty_folder("shared-memory", size_gib=SHARED_MEMORY_GIB, medium="Memory"),
            empty_folder("programs", size_gib=1),
            # A server may write there; the rest of this container is read-only.
            empty_folder("tmp", size_gib=TEMPORARY_GIB),
            *(empty_folder(name, size_gib=1) for name, _, _ in _configurations(variant)),
        ],
        mounts=[
            k8s.VolumeMount(name="scratch", mount_path=SCRATCH_PATH),
            k8s.VolumeMount(name="shared-memory", mount_path=SHARED_MEMORY_PATH),
            k8s.VolumeMount(name="programs", mount_path=PROGRAMS_PATH, read_only=True),
            k8s.VolumeMount(name="tmp", mount_path="/tmp"),  # noqa: S108 (a volume of this pod)
            *(
                k8s.VolumeMount(name=name, mount_path=folder, read_only=True)
                for name, folder, _ in _configurations(variant)
            ),
        ],
        retries=RETRIES,
        failure_rules=[on_exit("FailJob", CONTAINER_NAME, UserInputError.exit_code)],
        # No user, as with the servers: the Neuron images say nothing of another one.
        security_context=k8s.PodSecurityContext(
            seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault")
        ),
        # One index, for Kubernetes to tell the second pod that one failed before it.
        job_settings={
            "completion_mode": "Indexed",
            "backoff_limit_per_index": RETRIES,
            "active_deadline_seconds": DEADLINE_SECONDS,
            "suspend": not graph.certain,
        },
        pod_settings={
            "init_containers": [
                copied_programs(bindings),
                _download(experiment, variant, bindings),
            ],
            "tolerations": [
                k8s.Toleration(key=COMPILE_TAINT_KEY, operator="Exists", effect="NoSchedule")
            ],
        },
    )


def _command(experiment: ResolvedNeuron, variant: NeuronVariant, bindings: Bindings) -> list[str]:
    """`$(JOB_NAME)` is replaced by Kubernetes: the Job's name is made of what stands here."""
    return [
        *("python3", "-m", "pods.graph_compiler"),
        "--job=$(JOB_NAME)",
        f"--artifacts={bindings.artifacts_bucket}",
        f"--results={bindings.results_bucket}",
        f"--region={bindings.region}",
        f"--scratch={SCRATCH_PATH}",
        f"--workers={WORKERS}",
        f"--retries={RETRIES}",
        *(f"--checkpoint={name}={folder}" for name, folder, _ in _configurations(variant)),
        *compiled_graphs_flags(experiment),
        *("--", "vllm", "serve", *variant.command.arguments),
    ]


def _target(experiment: ResolvedNeuron) -> Mapping[str, str]:
    """What no device is there to tell."""
    way = experiment.spec.release_facts.cpu_compile
    told = way.environment if way else {}
    return {**told, "NEURON_LOGICAL_NC_CONFIG": str(experiment.spec.serving.lnc)}


def _configurations(variant: NeuronVariant) -> Iterator[tuple[str, str, HubModel]]:
    """Role, folder and model of each checkpoint, where the server mounts it whole."""
    paths = vars(ModelPaths())
    for role, model in variant.checkpoints.items():
        yield role, paths[role], model


def _download(
    experiment: ResolvedNeuron, variant: NeuronVariant, bindings: Bindings
) -> k8s.Container:
    secret = experiment.spec.aws.hub_token_secret
    checkpoints = [*_configurations(variant)]
    asked_for = (
        ("--checkpoint", model.model, model.revision, folder) for _, folder, model in checkpoints
    )
    return k8s.Container(
        name="configurations",
        image=bindings.llmperf_image,
        image_pull_policy="IfNotPresent",
        command=["python", "-m", "pods.checkpoint_stager.configurations"],
        args=[*chain(*asked_for), *[f"--token-secret={secret}"] * bool(secret)],
        env=variables({**aws_environment(bindings.region), **_HUB, "HOME": SCRATCH_PATH}),
        resources=resources(cpus=0.1, memory_gib=1),
        security_context=no_rights(read_only_root_filesystem=True),
        volume_mounts=[
            *(k8s.VolumeMount(name=name, mount_path=folder) for name, folder, _ in checkpoints),
            k8s.VolumeMount(name="scratch", mount_path=SCRATCH_PATH),
        ],
    )
