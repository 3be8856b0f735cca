"""One Job a checkpoint: from the model hub into the bucket, before any accelerator exists."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import cdk8s
from cdk8s_plus_35 import k8s
from constructs import Construct

from charts.bindings import Bindings
from charts.load_generator import ordinary_user
from charts.names import (
    CPU_NODE_LABELS,
    NAMESPACE,
    STAGER_SERVICE_ACCOUNT,
    content_name,
    stager_labels,
)
from draftworth.experiment.catalog import catalog
from draftworth.experiment.model import HubModel
from draftworth.planning.resolved import ResolvedNeuron

CONTAINER_NAME = "checkpoint-stager"
SCRATCH_PATH = "/scratch"
EXIT_WRONG_INPUT = 2

# With Kubernetes' growing waits (10 s, 20 s, ... 6 minutes) a hub may be down for over 20 minutes.
RETRIES = 8
PARALLEL_FILES = 4
# Files that are on their way at once. Hubs cut weights into files of about 5 GiB: four of them.
MAX_SCRATCH_GIB = 24
# What the hub's client notes beside the files, the log, the container's own layer.
OTHER_STORAGE_GIB = 3
STAGER_CPUS = 1
STAGER_MEMORY_GIB = 2
MAX_SLUG_LENGTH = 40

# The hub's client: plain HTTP (see pods/checkpoint_stager/hub.py), no token of its own, no
# calls that the work does not need, and no addresses with signatures in the log.
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


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """What a Job is made of."""

    experiment: ResolvedNeuron
    model: HubModel
    bindings: Bindings


class StagingChart(cdk8s.Chart):
    """A Job for each of the experiment's checkpoints, named by its content."""

    def __init__(
        self, scope: Construct, id_: str, *, experiment: ResolvedNeuron, bindings: Bindings
    ) -> None:
        super().__init__(
            scope, id_, disable_resource_name_hashes=True, labels=stager_labels(experiment)
        )
        for model in experiment.spec.models:
            parts = _Parts(experiment=experiment, model=model, bindings=bindings)
            name = _job_name(parts)
            metadata = k8s.ObjectMeta(name=name, namespace=NAMESPACE)
            k8s.KubeJob(self, f"job-{name}", metadata=metadata, spec=_job_spec(parts))


def scratch_gib(model: HubModel) -> int:
    """Room for files on their way: a small checkpoint needs no more than itself."""
    facts = catalog().models.get(model.model)
    return min(MAX_SCRATCH_GIB, math.ceil(facts.checkpoint_gib) + 1) if facts else MAX_SCRATCH_GIB


def _job_name(parts: _Parts) -> str:
    content = {
        "job": k8s.KubeJob.manifest(spec=_job_spec(parts)),
        "image": parts.bindings.llmperf_image_fingerprint,
    }
    slug = re.sub(r"[^a-z0-9]+", "-", parts.model.model.rpartition("/")[2].lower())
    return content_name(f"stage-{slug[:MAX_SLUG_LENGTH].strip('-')}", content)


def _job_spec(parts: _Parts) -> k8s.JobSpec:
    # No ttlSecondsAfterFinished: a Job that deletes itself is created again by the next apply.
    return k8s.JobSpec(
        completions=1,
        parallelism=1,
        backoff_limit=RETRIES,
        pod_failure_policy=_failure_policy(),
        template=k8s.PodTemplateSpec(
            metadata=k8s.ObjectMeta(
                labels=stager_labels(parts.experiment), annotations=_annotations(parts)
            ),
            spec=_pod_spec(parts),
        ),
    )


def _annotations(parts: _Parts) -> dict[str, str]:
    return {
        "draftworth/model": parts.model.model,
        "draftworth/revision": parts.model.revision,
        # A Job that gave up, for want of a token for one, is tried anew by a raised repetition;
        # one of a model that is READY has nothing to do.
        "draftworth/repetition": str(parts.experiment.spec.repetition),
    }


def _failure_policy() -> k8s.PodFailurePolicy:
    wrong_input = k8s.PodFailurePolicyRule(
        action="FailJob",
        on_exit_codes=k8s.PodFailurePolicyOnExitCodesRequirement(
            container_name=CONTAINER_NAME, operator="In", values=[EXIT_WRONG_INPUT]
        ),
    )
    # A pod that lost its node did not fail.
    disrupted = k8s.PodFailurePolicyRule(
        action="Ignore",
        on_pod_conditions=[
            k8s.PodFailurePolicyOnPodConditionsPattern(type="DisruptionTarget", status="True")
        ],
    )
    return k8s.PodFailurePolicy(rules=[wrong_input, disrupted])


def _pod_spec(parts: _Parts) -> k8s.PodSpec:
    size = _gib(scratch_gib(parts.model) + OTHER_STORAGE_GIB - 1)
    return k8s.PodSpec(
        # A failure policy asks for it: each try is a pod of its own.
        restart_policy="Never",
        service_account_name=STAGER_SERVICE_ACCOUNT,
        automount_service_account_token=False,
        enable_service_links=False,
        # And no toleration: never on an accelerator node.
        node_selector=CPU_NODE_LABELS,
        security_context=ordinary_user(),
        containers=[_container(parts)],
        volumes=[k8s.Volume(name="scratch", empty_dir=k8s.EmptyDirVolumeSource(size_limit=size))],
    )


def _container(parts: _Parts) -> k8s.Container:
    environment = {
        "AWS_REGION": parts.bindings.region,
        "AWS_DEFAULT_REGION": parts.bindings.region,
        "HOME": SCRATCH_PATH,
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": SCRATCH_PATH,
        **HUB_ENVIRONMENT,
    }
    return k8s.Container(
        name=CONTAINER_NAME,
        image=parts.bindings.llmperf_image,
        image_pull_policy="IfNotPresent",
        command=["python", "-m", "pods.checkpoint_stager"],
        args=[part for pair in _arguments(parts).items() for part in pair],
        env=[k8s.EnvVar(name=name, value=value) for name, value in sorted(environment.items())],
        resources=_resources(parts),
        security_context=k8s.SecurityContext(
            allow_privilege_escalation=False,
            read_only_root_filesystem=True,
            capabilities=k8s.Capabilities(drop=["ALL"]),
        ),
        volume_mounts=[k8s.VolumeMount(name="scratch", mount_path=SCRATCH_PATH)],
    )


def _arguments(parts: _Parts) -> dict[str, str]:
    arguments = {
        "--model": parts.model.model,
        "--revision": parts.model.revision,
        "--bucket": parts.bindings.checkpoints_bucket,
        "--scratch": SCRATCH_PATH,
        "--scratch-gib": str(scratch_gib(parts.model)),
        "--parallel-files": str(PARALLEL_FILES),
    }
    secret = parts.experiment.spec.aws.hub_token_secret
    # The secret's name: the token itself is read by the program, and is in no manifest.
    return {**arguments, "--token-secret": secret} if secret else arguments


def _resources(parts: _Parts) -> k8s.ResourceRequirements:
    # Files pass through in pieces: memory does not grow with the model. What the kernel caches of
    # them counts too, and is given back when asked for.
    amounts = {
        "memory": _gib(STAGER_MEMORY_GIB),
        "ephemeral-storage": _gib(scratch_gib(parts.model) + OTHER_STORAGE_GIB),
    }
    cpus = {"cpu": k8s.Quantity.from_string(str(STAGER_CPUS))}
    return k8s.ResourceRequirements(requests={**cpus, **amounts}, limits=amounts)


def _gib(amount: int) -> k8s.Quantity:
    return k8s.Quantity.from_string(f"{amount}Gi")
