"""Canaries: Jobs that test on CPU nodes what servers need before accelerator nodes start."""

from collections.abc import Iterator, Mapping

import cdk8s
from cdk8s_plus_35 import k8s
from constructs import Construct

from charts import names
from charts.bindings import Bindings
from charts.bucket_volumes import ARTIFACTS_PATH, MODEL_PATHS, server_volumes
from charts.container_parts import amounts
from charts.cpu_job import CpuJob, ImageProgram, cpu_pod
from charts.paths_canary import PathsCanary
from charts.start_program import graph_environment
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron

# A failing canary's pod runs for two minutes. With Kubernetes' waits between the pods the user has
# more than half an hour to correct an IAM right or to remove a damaged compiled graph.
RETRIES = 8


class CanaryChart(cdk8s.Chart):
    """A canary for each variant in `experiment.canaries`, and one for the measuring Job's paths.

    A canary is a Job that tests, before accelerator nodes start, what is first needed beside them.
    job_name: the measuring Job's name. A new measuring Job gets new canaries, which test again.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        experiment: ResolvedNeuron,
        bindings: Bindings,
        job_name: str,
    ) -> None:
        labels = names.component_labels("canary", names.CANARY_COMPONENT, experiment.name)
        super().__init__(scope, id_, labels=labels)
        for variant in experiment.canaries:
            Canary(
                self,
                names.service_name(variant.name),
                experiment=experiment,
                variant=variant,
                bindings=bindings,
                job_name=job_name,
                labels=labels,
            )
        PathsCanary(
            self,
            "Paths",
            experiment=experiment,
            bindings=bindings,
            job_name=job_name,
            retries=RETRIES,
        )


class Canary(CpuJob):
    """A Job that mounts what a variant's server mounts, as the same service account, and tests it.

    job_name: the measuring Job's name; the canary's report in the results bucket is kept under it.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        experiment: ResolvedNeuron,
        variant: NeuronVariant,
        bindings: Bindings,
        job_name: str,
        labels: Mapping[str, str],
    ) -> None:
        account = names.service_name(variant.name)
        volumes = server_volumes(experiment, variant, bindings)
        program = ImageProgram(
            container="canary",
            module="pods.canary",
            arguments=[*_arguments(experiment, variant, bindings, job_name)],
            environment=graph_environment(variant.artifact_key, variant.artifact_inputs),
            # The pod requests little: many canaries wait at the same time, and the CPU nodes must
            # have enough CPU and memory left for the pod that copies checkpoints.
            resources=k8s.ResourceRequirements(
                requests=amounts({"cpu": "0.1", "memory": "1Gi"}),
                limits=amounts({"memory": "1Gi"}),
            ),
            volumes=[volume.in_pod() for volume in volumes],
            mounts=[volume.mount() for volume in volumes],
        )
        super().__init__(
            scope,
            id_,
            prefix=f"canary-{account}",
            bindings=bindings,
            labels=labels,
            annotations={names.VARIANT_LABEL: variant.name},
            # The servers' pods have no `fsGroup` either; for a pod with one, the S3 driver would
            # mount differently, so the canary would not test what a server mounts.
            pod=cpu_pod(program, bindings, account=account, file_group=None),
            retries=RETRIES,
        )


def _arguments(
    experiment: ResolvedNeuron, variant: NeuronVariant, bindings: Bindings, job_name: str
) -> Iterator[str]:
    yield from ("--job", job_name, "--variant", variant.name)
    yield from ("--serving-image", experiment.spec.image)
    yield from ("--checkpoints", bindings.checkpoints_bucket)
    yield from ("--results", bindings.results_bucket)
    yield from ("--artifacts-folder", ARTIFACTS_PATH)
    # For each role (target, draft): its mount path, and the checkpoint that must be there.
    for role, model in variant.checkpoints.items():
        yield from (f"--{role}", f"{MODEL_PATHS[role]}={model.model}@{model.revision}")
