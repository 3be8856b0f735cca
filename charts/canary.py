"""The canaries: Jobs on CPU nodes that test the servers' mounts before accelerators are bought."""

import cdk8s
from constructs import Construct

from charts import names
from charts.jobs import add_job
from charts.storage import bucket_volumes
from charts.vllm_pod import graph_environment
from draftworth.planning.resolved import ResolvedNeuron

# A failing pod runs for two minutes. Together with Kubernetes' back-off (10 s, 20 s, ... 6 minutes)
# the user has more than half an hour to correct an IAM right or to remove a damaged graph.
RETRIES = 8


def canary_chart(
    scope: Construct, *, experiment: ResolvedNeuron, bindings: names.Bindings, job_name: str
) -> cdk8s.Chart:
    """Make a Job for each variant in `experiment.canaries`, with its service account and volumes.

    job_name: the measuring Job's name. A new measuring Job gets new canaries, which test again.
    """
    labels = names.component_labels("canary", names.CANARY_COMPONENT, experiment)
    chart = cdk8s.Chart(scope, "canary", labels=labels)
    for variant in experiment.canaries:
        account = names.service_name(variant.name)
        add_job(
            chart,
            "canary.yaml.jinja",
            prefix=f"canary-{account}",
            bindings=bindings,
            labels=labels,
            retries=RETRIES,
            account=account,
            environment=graph_environment(variant),
            volumes=bucket_volumes(experiment, variant, bindings),
            job_name=job_name,
            variant=variant,
        )
    return chart
