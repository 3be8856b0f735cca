"""A Job for each checkpoint copies it from the model hub to S3, before accelerators are bought."""

import math
import re

import cdk8s
from constructs import Construct

from charts import names
from charts.jobs import add_job
from draftworth.errors import UserInputError
from draftworth.experiment.variants import HubModel
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records import checkpoints

# With Kubernetes' back-off (10 s, 20 s, ... 6 minutes) a hub may be down for over 20 minutes.
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


def staging_chart(
    scope: Construct, *, experiment: ResolvedNeuron, bindings: names.Bindings
) -> cdk8s.Chart:
    """Make a Job for each of the experiment's checkpoints."""
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
    """Return a Job's disk in GiB: checkpoint + 1; MAX_SCRATCH_GIB if that is more or unknown."""
    size = model.facts and model.facts.checkpoint_gib
    return min(MAX_SCRATCH_GIB, math.ceil(size) + 1) if size else MAX_SCRATCH_GIB
