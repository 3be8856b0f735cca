"""Jobs on CPU nodes: they copy checkpoints, and test mounts, before accelerators are bought.

A Job's name has a hash of its content, so no Job is changed in place.
"""

import math
import re
from typing import Any

import cdk8s
from constructs import Construct

from charts import names
from charts.names import NAMESPACE, Bindings, content_name, has_cdk_token
from charts.storage import bucket_volumes
from charts.templates import add_objects, objects_in
from charts.vllm_pod import graph_environment
from draftworth.errors import UserInputError
from draftworth.experiment.variants import HubModel
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records import checkpoints

# With Kubernetes' back-off (10 s, 20 s, ... 6 minutes) a hub may be down for over 20 minutes. A
# failing canary runs for two minutes each time, so the user has more than half an hour to correct
# an IAM right or to remove a damaged graph.
RETRIES = 8
# For the files that are copied at the same time: four of about 5 GiB, the usual size on hubs.
MAX_SCRATCH_GIB = 24
# For the hub client's metadata files, the log and the container's writable layer.
OTHER_STORAGE_GIB = 3
MAX_SLUG_LENGTH = 40

# The hub's client uses ordinary HTTP, not Xet (see pods/checkpoint_stager/hub.py), finds no token
# itself, makes no other calls than the download, and logs no signed URLs.
HUB_ENVIRONMENT = {
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    "HF_HUB_DISABLE_XET": "1",
    "HF_HUB_DOWNLOAD_TIMEOUT": "60",
    "HF_HUB_ETAG_TIMEOUT": "30",
    "HF_HUB_VERBOSITY": "error",
}


def add_job(
    chart: cdk8s.Chart, template: str, *, prefix: str, bindings: Bindings, **values: Any
) -> str:
    """Add the Job in `template`, filled with `values`; return its name: `prefix` and a hash."""
    if has_cdk_token(bindings.llmperf_image) and not bindings.llmperf_image_fingerprint:
        raise ValueError(
            "Bindings.llmperf_image is a CDK token, whose text does not change with the image: "
            "give llmperf_image_fingerprint too (DockerImageAsset.asset_hash), or a new image "
            "would be applied to a Job of the same name, which Kubernetes refuses"
        )
    job = objects_in("charts", template, bindings=bindings, **values)
    name = content_name(prefix, {"job": job, "image": bindings.llmperf_image_fingerprint})
    add_objects(chart, [{**job, "metadata": {"name": name, "namespace": NAMESPACE}}])
    return name


def canary_chart(
    scope: Construct, *, experiment: ResolvedNeuron, bindings: names.Bindings, job_name: str
) -> cdk8s.Chart:
    """Make a Job per variant in `experiment.canaries`; it tests mounts as the variant's account.

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


def staging_chart(
    scope: Construct, *, experiment: ResolvedNeuron, bindings: names.Bindings
) -> cdk8s.Chart:
    """Make a Job for each checkpoint of the experiment, which copies it from the hub to S3."""
    labels = names.component_labels("checkpoint-stager", names.STAGER_COMPONENT, experiment)
    chart = cdk8s.Chart(scope, "staging", labels=labels)
    for model in experiment.spec.models:
        slug = re.sub(r"[^a-z0-9]+", "-", model.model.rpartition("/")[2].lower())
        add_job(
            chart,
            "checkpoint_stager.yaml.jinja",
            prefix=f"stage-{slug[:MAX_SLUG_LENGTH].strip('-')}",
            bindings=bindings,
            labels=labels,
            retries=RETRIES,
            environment={"HOME": "/scratch", "TMPDIR": "/scratch", **HUB_ENVIRONMENT},
            experiment=experiment.spec,
            model=model,
            scratch_gib=scratch_gib(model),
            storage_gib=scratch_gib(model) + OTHER_STORAGE_GIB,
            failures=checkpoints,
            wrong_input=UserInputError.exit_code,
        )
    return chart


def scratch_gib(model: HubModel) -> int:
    """Return a Job's disk in GiB: checkpoint + 1, at most (and if unknown) MAX_SCRATCH_GIB."""
    size = model.facts and model.facts.checkpoint_gib
    return min(MAX_SCRATCH_GIB, math.ceil(size) + 1) if size else MAX_SCRATCH_GIB
