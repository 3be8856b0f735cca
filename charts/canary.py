"""The canaries: Jobs on CPU nodes that read what servers will read, before capacity is bought."""

from dataclasses import asdict

import cdk8s
from constructs import Construct

from charts import names
from charts.jobs import add_job
from charts.pods import resources
from charts.storage import ARTIFACTS_PATH, pod_mounts, pod_volumes
from charts.vllm_pod import graph_environment
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.serving.command import ModelPaths

CONTAINER_NAME = "canary"
# A try that fails lasts two minutes. With Kubernetes' growing waits (10 s, 20 s, ... 6 minutes)
# there is more than half an hour to correct a right or to remove a graph.
RETRIES = 8
# Little, because many of them wait at once and a stager must find room beside them.
CANARY_CPUS = 0.1
CANARY_MEMORY_GIB = 1


def canary_chart(
    scope: Construct, *, experiment: ResolvedNeuron, bindings: names.Bindings, job_name: str
) -> cdk8s.Chart:
    """Make a Job for each variant of `canaries`, with its server's account and volumes.

    job_name: of the measuring Job. A deploy that measures anew also tries the mounts anew.
    """
    labels = names.component_labels("canary", names.CANARY_COMPONENT, experiment)
    chart = cdk8s.Chart(scope, "canary", labels=labels)
    paths = asdict(ModelPaths())
    for variant in experiment.canaries:
        # The mounted folder of each role, and the checkpoint that must be in it.
        checkpoints = {
            f"--{role}": f"{paths[role]}={model.model}@{model.revision}"
            for role, model in variant.checkpoints.items()
        }
        add_job(
            chart,
            bindings,
            prefix=f"canary-{names.service_name(variant.name)}",
            container=CONTAINER_NAME,
            command=["python", "-m", "pods.canary"],
            arguments={
                "--job": job_name,
                "--variant": variant.name,
                "--checkpoints": bindings.checkpoints_bucket,
                "--results": bindings.results_bucket,
                "--artifacts-folder": ARTIFACTS_PATH,
                **checkpoints,
            },
            environment=graph_environment(variant),
            service_account=names.service_name(variant.name),
            labels=labels,
            annotations={names.VARIANT_LABEL: variant.name},
            resources=resources(cpus=CANARY_CPUS, memory_gib=CANARY_MEMORY_GIB),
            volumes=pod_volumes(experiment, variant, bindings),
            mounts=pod_mounts(variant, bindings),
            retries=RETRIES,
            # The servers have no group either: with one, the S3 driver would mount in another way.
            fs_group=None,
        )
    return chart
