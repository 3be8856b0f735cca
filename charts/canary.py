"""The canaries: Jobs on CPU nodes that test the servers' mounts before accelerators are bought."""

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
# A failing pod runs for two minutes. Together with Kubernetes' back-off (10 s, 20 s, ... 6 minutes)
# the user has more than half an hour to correct an IAM right or to remove a damaged graph.
RETRIES = 8
# The requests are small: many canaries wait at the same time, and a stager must fit beside them.
CANARY_CPUS = 0.1
CANARY_MEMORY_GIB = 1


def canary_chart(
    scope: Construct, *, experiment: ResolvedNeuron, bindings: names.Bindings, job_name: str
) -> cdk8s.Chart:
    """Make a Job for each of `experiment.canaries`, with its server's service account and volumes.

    job_name: the measuring Job's name. A new measuring Job makes new canaries, which test again.
    """
    labels = names.component_labels("canary", names.CANARY_COMPONENT, experiment)
    chart = cdk8s.Chart(scope, "canary", labels=labels)
    paths = asdict(ModelPaths())
    for variant in experiment.canaries:
        # For each role (target, draft): its mount path, and the checkpoint that must be there.
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
            # No group, as for the servers, because the S3 driver mounts differently with a group.
            fs_group=None,
        )
    return chart
