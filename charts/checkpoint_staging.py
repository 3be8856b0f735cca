"""Jobs that copy checkpoints from Hugging Face to S3, before accelerators are bought."""

import math
import re
from collections.abc import Iterator

import cdk8s
from cdk8s_plus_35 import k8s
from constructs import Construct

from charts import names
from charts.bindings import Bindings
from charts.container_parts import amounts, gib
from charts.cpu_job import CpuJob, ImageProgram, cpu_pod, exit_code_rule
from draftworth.errors import UserInputError
from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.variants import HubModel
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.checkpoints import FAILURES_ANNOTATION, FAILURES_VARIABLE

# With Kubernetes' waits between pods (10 s, 20 s, ... 6 minutes) staging succeeds even if Hugging
# Face is down for 20 minutes.
RETRIES = 8
# Disk for the files that are copied at the same time: four of about 5 GiB, the usual size.
MAX_SCRATCH_GIB = 24
# Disk for the metadata files of Hugging Face's client, the log and the container's writable layer.
OTHER_STORAGE_GIB = 3
MAX_SLUG_LENGTH = 40
_SCRATCH = k8s.VolumeMount(name="scratch", mount_path="/scratch")

# With these variables Hugging Face's client uses ordinary HTTP, not Xet (see
# pods/checkpoint_stager/hub.py), looks for no token, makes no calls but those of the download, and
# logs no signed URLs.
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


class StagingChart(cdk8s.Chart):
    """A Job for each checkpoint of the experiment that copies it from Hugging Face to S3.

    The checkpoints are the target model and the draft models.
    """

    def __init__(
        self, scope: Construct, id_: str, *, experiment: ResolvedNeuron, bindings: Bindings
    ) -> None:
        labels = names.component_labels(
            "checkpoint-stager", names.STAGER_COMPONENT, experiment.name
        )
        super().__init__(scope, id_, labels=labels)
        for model in experiment.spec.models:
            CheckpointStager(
                self,
                model.storage_prefix,
                experiment=experiment.spec,
                model=model,
                bindings=bindings,
                labels=labels,
            )


class CheckpointStager(CpuJob):
    """A Job that copies one checkpoint from Hugging Face to S3."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        experiment: NeuronExperiment,
        model: HubModel,
        bindings: Bindings,
        labels: dict[str, str],
    ) -> None:
        program = _stager(experiment, model, bindings)
        slug = re.sub(r"[^a-z0-9]+", "-", model.model.rpartition("/")[2].lower())
        super().__init__(
            scope,
            id_,
            prefix=f"stage-{slug[:MAX_SLUG_LENGTH].strip('-')}",
            bindings=bindings,
            labels=labels,
            annotations={
                "draftworth/model": model.model,
                "draftworth/revision": model.revision,
                # If a user raises `rerun`, the Job's name changes, so a new Job runs. It copies
                # nothing if the whole checkpoint is already in S3.
                "draftworth/rerun": str(experiment.rerun),
            },
            pod=cpu_pod(program, bindings, account=names.STAGER_SERVICE_ACCOUNT),
            retries=RETRIES,
            failure_rules=[exit_code_rule("FailJob", program, UserInputError.exit_code)],
            # Each pod gets the number of pods that failed before it. So the last pod that the Job
            # may start knows that it is the last, and reports that staging is given up.
            counts_failures=True,
        )


def _stager(experiment: NeuronExperiment, model: HubModel, bindings: Bindings) -> ImageProgram:
    storage_gib = scratch_gib(model) + OTHER_STORAGE_GIB
    storage = {"ephemeral-storage": f"{storage_gib}Gi"}
    scratch = k8s.EmptyDirVolumeSource(size_limit=gib(storage_gib - 1))
    return ImageProgram(
        container="checkpoint-stager",
        module="pods.checkpoint_stager",
        arguments=[*_arguments(experiment, model, bindings)],
        environment={
            "HOME": _SCRATCH.mount_path,
            "TMPDIR": _SCRATCH.mount_path,
            **HUB_ENVIRONMENT,
        },
        pod_fields={FAILURES_VARIABLE: f"metadata.annotations['{FAILURES_ANNOTATION}']"},
        # Files are copied in pieces, so the memory does not depend on the model's size. The
        # kernel's page cache of the files counts too, but is released on demand.
        resources=k8s.ResourceRequirements(
            requests=amounts({"cpu": "1", "memory": "2Gi", **storage}),
            limits=amounts({"memory": "2Gi", **storage}),
        ),
        volumes=[k8s.Volume(name=_SCRATCH.name, empty_dir=scratch)],
        mounts=[_SCRATCH],
    )


def _arguments(experiment: NeuronExperiment, model: HubModel, bindings: Bindings) -> Iterator[str]:
    yield from ("--model", model.model, "--revision", model.revision)
    yield from ("--bucket", bindings.checkpoints_bucket)
    yield from ("--scratch", _SCRATCH.mount_path, "--scratch-gib", str(scratch_gib(model)))
    yield from ("--retries", str(RETRIES))
    if model.allow_pickle_weights:
        yield from ("--pickle-weights", "allowed")
    if secret := experiment.aws.hub_token_secret:
        # Only the secret's name is in the manifest; the program reads the token itself.
        yield from ("--token-secret", secret)


def scratch_gib(model: HubModel) -> int:
    """Return the GiB of disk that a staging Job has for the files of a model's checkpoint.

    This is the checkpoint's size + 1, but at most MAX_SCRATCH_GIB. If the size is unknown, it is
    MAX_SCRATCH_GIB.
    """
    size = model.facts and model.facts.checkpoint_gib
    return min(MAX_SCRATCH_GIB, math.ceil(size) + 1) if size else MAX_SCRATCH_GIB
