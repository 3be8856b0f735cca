"""The measuring Job and the run specification it reads."""

from __future__ import annotations

from dataclasses import dataclass

import cdk8s
from cdk8s_plus_35 import k8s
from constructs import Construct

from charts.bindings import Bindings
from charts.names import (
    CPU_NODE_LABELS,
    LOAD_GENERATOR_SERVICE_ACCOUNT,
    NAMESPACE,
    SERVING_COMPONENT,
    content_name,
    has_cdk_token,
    load_generator_labels,
    stable_hash,
)
from charts.run_specification import (
    DEADLINE_CONFIG_MAP,
    DEADLINE_FILE,
    RUN_SPEC_FILE,
    deadline_config_map,
    run_spec_config_map,
)
from charts.serving import serving_content
from draftworth.experiment.naming import dns_label
from draftworth.measuring.job import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_WRONG_INPUT,
    JOB_NAME_LABEL,
    JOB_NAME_VARIABLE,
    JOB_UID_LABEL,
    JOB_UID_VARIABLE,
    POD_RETRIES,
)
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.results import RUNS_FOLDER

CONTAINER_NAME = "llmperf"
RUN_SPEC_FOLDER = "/etc/draftworth"
DEADLINE_FOLDER = "/etc/draftworth-deadline"
HOME = "/home/llmperf"
USER_ID = 10001

# Time to finish an upload and write the journal after SIGTERM.
TERMINATION_GRACE_SECONDS = 60
# The program ends by itself at the run's deadline. This ends one that hangs, for another to go on.
POD_DEADLINE_SECONDS = 24 * 3600

LOAD_GENERATOR_CPUS = 2
LOAD_GENERATOR_MEMORY_GIB = 4
WRITABLE_FOLDER_GIB = 5


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """What a Job is made of."""

    experiment: ResolvedNeuron
    bindings: Bindings
    config_map: str


class LoadGeneratorChart(cdk8s.Chart):
    """Run specification and Job, named by their content and never changed in place; the deadline.

    `job_name`: the runs of the Job lie below `runs/<job name>-`.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        experiment: ResolvedNeuron,
        bindings: Bindings,
    ) -> None:
        super().__init__(
            scope, id_, disable_resource_name_hashes=True, labels=load_generator_labels(experiment)
        )
        _check_image(bindings)
        properties = run_spec_config_map(experiment)
        config_map = k8s.KubeConfigMap(self, "run-spec", **properties)
        parts = _Parts(experiment=experiment, bindings=bindings, config_map=config_map.name)
        k8s.KubeConfigMap(self, "deadline", **deadline_config_map(experiment))
        self.job_name = _job_name(parts)
        metadata = k8s.ObjectMeta(name=self.job_name, namespace=NAMESPACE)
        k8s.KubeJob(self, "job", metadata=metadata, spec=_job_spec(parts))


def _check_image(bindings: Bindings) -> None:
    if has_cdk_token(bindings.llmperf_image) and not bindings.llmperf_image_fingerprint:
        raise ValueError(
            "Bindings.llmperf_image is a CDK token, whose text does not change with the image: "
            "give llmperf_image_fingerprint too (DockerImageAsset.asset_hash), or a new image "
            "would be applied to a Job of the same name, which Kubernetes refuses"
        )


def _job_name(parts: _Parts) -> str:
    content = {
        "job": k8s.KubeJob.manifest(spec=_job_spec(parts)),
        "image": parts.bindings.llmperf_image_fingerprint,
    }
    return content_name(f"llmperf-{dns_label(parts.experiment.name)}", content)


def _job_spec(parts: _Parts) -> k8s.JobSpec:
    labels = load_generator_labels(parts.experiment)
    # No ttlSecondsAfterFinished: a Job that deletes itself is created again, and measures again, by
    # the next apply or GitOps sync.
    return k8s.JobSpec(
        completions=1,
        parallelism=1,
        # Of pods that died on their own, out of memory for one: the next goes on where they were,
        # under one deadline. A run that failed says so by its exit code and is not retried.
        backoff_limit=POD_RETRIES,
        pod_failure_policy=_failure_policy(),
        # Not while the pod before it is still ending: two would measure at once.
        pod_replacement_policy="Failed",
        template=k8s.PodTemplateSpec(
            metadata=k8s.ObjectMeta(labels=labels, annotations=_annotations(parts)),
            spec=_pod_spec(parts),
        ),
    )


def _annotations(parts: _Parts) -> dict[str, str]:
    # Part of the Job's content, and so of its name: servers that changed are measured again, and
    # so is what the user wants measured once more.
    servers = stable_hash(serving_content(parts.experiment, parts.bindings), length=16)
    return {
        "draftworth/serving-content": servers,
        "draftworth/repetition": str(parts.experiment.spec.repetition),
    }


def _failure_policy() -> k8s.PodFailurePolicy:
    over = _on_exit("FailJob", EXIT_FAILED, EXIT_WRONG_INPUT)
    # A pod that was terminated, or lost its node, did not fail: it does not count as a retry.
    interrupted = _on_exit("Ignore", EXIT_INTERRUPTED)
    disrupted = k8s.PodFailurePolicyRule(
        action="Ignore",
        on_pod_conditions=[
            k8s.PodFailurePolicyOnPodConditionsPattern(type="DisruptionTarget", status="True")
        ],
    )
    return k8s.PodFailurePolicy(rules=[over, interrupted, disrupted])


def _on_exit(action: str, *codes: int) -> k8s.PodFailurePolicyRule:
    return k8s.PodFailurePolicyRule(
        action=action,
        on_exit_codes=k8s.PodFailurePolicyOnExitCodesRequirement(
            container_name=CONTAINER_NAME, operator="In", values=list(codes)
        ),
    )


def _pod_spec(parts: _Parts) -> k8s.PodSpec:
    size = k8s.Quantity.from_string(f"{WRITABLE_FOLDER_GIB}Gi")
    writable = k8s.EmptyDirVolumeSource(size_limit=size)
    return k8s.PodSpec(
        restart_policy="Never",
        active_deadline_seconds=POD_DEADLINE_SECONDS,
        affinity=_beside_the_servers(),
        service_account_name=LOAD_GENERATOR_SERVICE_ACCOUNT,
        automount_service_account_token=False,
        enable_service_links=False,
        node_selector=CPU_NODE_LABELS,
        termination_grace_period_seconds=TERMINATION_GRACE_SECONDS,
        security_context=ordinary_user(),
        containers=[_container(parts)],
        volumes=[
            k8s.Volume(
                name="run-spec", config_map=k8s.ConfigMapVolumeSource(name=parts.config_map)
            ),
            k8s.Volume(
                name="deadline", config_map=k8s.ConfigMapVolumeSource(name=DEADLINE_CONFIG_MAP)
            ),
            # Ray writes below $HOME and /tmp; the rest of the container is read-only.
            k8s.Volume(name="home", empty_dir=writable),
            k8s.Volume(name="tmp", empty_dir=writable),
        ],
    )


def ordinary_user() -> k8s.PodSecurityContext:
    """What every pod of our own image runs as."""
    return k8s.PodSecurityContext(
        run_as_non_root=True,
        run_as_user=USER_ID,
        run_as_group=USER_ID,
        fs_group=USER_ID,
        seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault"),
    )


def _beside_the_servers() -> k8s.Affinity:
    """The pod stays pending until the first server has its node and devices.

    So a run starts by itself once the accelerator nodes are there, however long after the deploy,
    and traffic to the servers stays within their zone. ONE term for all servers: the scheduler
    counts only pods that match every required term (kube-scheduler, InterPodAffinity,
    `updateWithAffinityTerms`), so with a term for each variant no pod would ever do. Not by
    `suspend: true`: `kubectl apply` puts every field that it is given back to the given value, so
    an apply after the start would suspend the run and delete its pod.
    """
    term = k8s.PodAffinityTerm(
        topology_key="topology.kubernetes.io/zone",
        label_selector=k8s.LabelSelector(match_labels=dict(SERVING_COMPONENT)),
    )
    return k8s.Affinity(
        pod_affinity=k8s.PodAffinity(required_during_scheduling_ignored_during_execution=[term])
    )


def _container(parts: _Parts) -> k8s.Container:
    bindings = parts.bindings
    arguments = {
        "--run-spec": f"{RUN_SPEC_FOLDER}/{RUN_SPEC_FILE}",
        "--results": f"s3://{bindings.results_bucket}/{RUNS_FOLDER}",
        "--deadline-minutes-file": f"{DEADLINE_FOLDER}/{DEADLINE_FILE}",
    }
    # boto3 reads the second name, other SDKs the first.
    environment = {
        "AWS_REGION": bindings.region,
        "AWS_DEFAULT_REGION": bindings.region,
        "HOME": HOME,
        "PYTHONUNBUFFERED": "1",
    }
    return k8s.Container(
        name=CONTAINER_NAME,
        image=bindings.llmperf_image,
        image_pull_policy="IfNotPresent",
        command=["python", "-m", "pods.llmperf"],
        args=[part for pair in arguments.items() for part in pair],
        env=[
            *(k8s.EnvVar(name=name, value=value) for name, value in environment.items()),
            _from_label(JOB_NAME_VARIABLE, JOB_NAME_LABEL),
            _from_label(JOB_UID_VARIABLE, JOB_UID_LABEL),
        ],
        resources=_resources(),
        security_context=k8s.SecurityContext(
            allow_privilege_escalation=False,
            read_only_root_filesystem=True,
            capabilities=k8s.Capabilities(drop=["ALL"]),
        ),
        volume_mounts=[
            k8s.VolumeMount(name="run-spec", mount_path=RUN_SPEC_FOLDER, read_only=True),
            # The folder and not the file: a file that is mounted alone is never updated.
            k8s.VolumeMount(name="deadline", mount_path=DEADLINE_FOLDER, read_only=True),
            k8s.VolumeMount(name="home", mount_path=HOME),
            k8s.VolumeMount(name="tmp", mount_path="/tmp"),  # noqa: S108 (a volume of this pod)
        ],
    )


def _from_label(variable: str, label: str) -> k8s.EnvVar:
    """What the Job controller wrote on the pod: the same for every pod of the Job."""
    field = k8s.ObjectFieldSelector(field_path=f"metadata.labels['{label}']")
    return k8s.EnvVar(name=variable, value_from=k8s.EnvVarSource(field_ref=field))


def _resources() -> k8s.ResourceRequirements:
    # No CPU limit: a client that is throttled would report its own waiting as latency.
    memory = k8s.Quantity.from_string(f"{LOAD_GENERATOR_MEMORY_GIB}Gi")
    return k8s.ResourceRequirements(
        requests={"cpu": k8s.Quantity.from_string(str(LOAD_GENERATOR_CPUS)), "memory": memory},
        limits={"memory": memory},
    )
