"""A Job for each checkpoint copies it from the model hub to S3, before accelerators are bought."""

import math
import re

import cdk8s
from constructs import Construct

from charts import k8s, names
from charts.jobs import add_job, on_exit
from charts.pods import empty_folder, field_variable, resources
from draftworth.errors import UserInputError
from draftworth.experiment.variants import HubModel
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.checkpoints import FAILURES_ANNOTATION, FAILURES_VARIABLE

CONTAINER_NAME = "checkpoint-stager"
SCRATCH_PATH = "/scratch"

# With Kubernetes' back-off (10 s, 20 s, ... 6 minutes) a hub may be down for over 20 minutes.
RETRIES = 8
# For the files that are copied at the same time: four of about 5 GiB, the usual size on hubs.
MAX_SCRATCH_GIB = 24
# For the hub client's metadata files, the log and the container's writable layer.
OTHER_STORAGE_GIB = 3
STAGER_CPUS = 1
STAGER_MEMORY_GIB = 2
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


def staging_chart(
    scope: Construct, *, experiment: ResolvedNeuron, bindings: names.Bindings
) -> cdk8s.Chart:
    """Make a Job for each of the experiment's checkpoints."""
    labels = names.component_labels("checkpoint-stager", names.STAGER_COMPONENT, experiment)
    chart = cdk8s.Chart(scope, "staging", labels=labels)
    for model in experiment.spec.models:
        slug = re.sub(r"[^a-z0-9]+", "-", model.model.rpartition("/")[2].lower())
        storage_gib = scratch_gib(model) + OTHER_STORAGE_GIB
        add_job(
            chart,
            bindings,
            prefix=f"stage-{slug[:MAX_SLUG_LENGTH].strip('-')}",
            container=CONTAINER_NAME,
            command=["python", "-m", "pods.checkpoint_stager"],
            arguments=_arguments(experiment, model, bindings),
            environment={"HOME": SCRATCH_PATH, "TMPDIR": SCRATCH_PATH, **HUB_ENVIRONMENT},
            more_variables=[
                field_variable(FAILURES_VARIABLE, f"metadata.annotations['{FAILURES_ANNOTATION}']")
            ],
            service_account=names.STAGER_SERVICE_ACCOUNT,
            labels=labels,
            annotations={
                "draftworth/model": model.model,
                "draftworth/revision": model.revision,
                # A higher number makes a new Job, which does nothing if its model is READY.
                "draftworth/rerun": str(experiment.spec.rerun),
            },
            # Files are copied in pieces, so the memory does not depend on the model's size. The
            # kernel's page cache of the files counts too, but is released on demand.
            resources=resources(
                cpus=STAGER_CPUS,
                memory_gib=STAGER_MEMORY_GIB,
                ephemeral_storage_gib=storage_gib,
            ),
            volumes=[empty_folder("scratch", size_gib=storage_gib - 1)],
            mounts=[k8s.VolumeMount(name="scratch", mount_path=SCRATCH_PATH)],
            retries=RETRIES,
            failure_rules=[on_exit("FailJob", CONTAINER_NAME, UserInputError.exit_code)],
            # In an Indexed Job a pod's annotation has the number of failures before it, so that
            # the last pod knows that it must report that staging is given up.
            job_settings={"completion_mode": "Indexed", "backoff_limit_per_index": RETRIES},
        )
    return chart


def scratch_gib(model: HubModel) -> int:
    """Return the disk space for a copy, in GiB: the checkpoint's size, up to MAX_SCRATCH_GIB."""
    size = model.facts and model.facts.checkpoint_gib
    return min(MAX_SCRATCH_GIB, math.ceil(size) + 1) if size else MAX_SCRATCH_GIB


def _arguments(
    experiment: ResolvedNeuron, model: HubModel, bindings: names.Bindings
) -> dict[str, str]:
    arguments = {
        "--model": model.model,
        "--revision": model.revision,
        "--bucket": bindings.checkpoints_bucket,
        "--scratch": SCRATCH_PATH,
        "--scratch-gib": str(scratch_gib(model)),
        "--retries": str(RETRIES),
    }
    if model.allow_pickle_weights:
        arguments["--pickle-weights"] = "allowed"
    secret = experiment.spec.aws.hub_token_secret
    # Only the secret's name is in the manifest; the program reads the token itself.
    return {**arguments, "--token-secret": secret} if secret else arguments
