"""Jobs on CPU nodes, named by their content and never changed in place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import cdk8s

from charts import k8s, pods
from charts.names import CPU_NODE_LABELS, Bindings, content_name, has_cdk_token


@dataclass(frozen=True, kw_only=True)
class ProgramJob:
    """One program that runs once, to its end, with its differences from others.

    retries: how often a pod that failed is replaced, where no failure rule decides.
    failure_rules: beside the one for pods that lost their node, which does not count.
    calls_kubernetes: the pod holds a token of its service account.
    job_settings, pod_settings: further fields of JobSpec and PodSpec.
    """

    prefix: str
    container: str
    command: Sequence[str]
    arguments: Mapping[str, str]
    environment: Mapping[str, str]
    more_variables: Sequence[k8s.EnvVar] = ()
    service_account: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    resources: k8s.ResourceRequirements
    volumes: Sequence[k8s.Volume]
    mounts: Sequence[k8s.VolumeMount]
    retries: int
    failure_rules: Sequence[k8s.PodFailurePolicyRule]
    security_context: k8s.PodSecurityContext = field(default_factory=pods.ordinary_user)
    calls_kubernetes: bool = False
    job_settings: Mapping[str, Any] = field(default_factory=dict)
    pod_settings: Mapping[str, Any] = field(default_factory=dict)


def add_job(chart: cdk8s.Chart, job: ProgramJob, bindings: Bindings) -> str:
    """Add the Job to a chart and return its name."""
    if has_cdk_token(bindings.llmperf_image) and not bindings.llmperf_image_fingerprint:
        raise ValueError(
            "Bindings.llmperf_image is a CDK token, whose text does not change with the image: "
            "give llmperf_image_fingerprint too (DockerImageAsset.asset_hash), or a new image "
            "would be applied to a Job of the same name, which Kubernetes refuses"
        )
    spec = _job_spec(job, bindings)
    content = {
        "job": k8s.KubeJob.manifest(spec=spec),
        "image": bindings.llmperf_image_fingerprint,
    }
    name = content_name(job.prefix, content)
    k8s.KubeJob(chart, f"job-{name}", metadata=pods.metadata(name), spec=spec)
    return name


def on_exit(action: str, container: str, *codes: int) -> k8s.PodFailurePolicyRule:
    """Return the rule for a Job whose container ended with one of these codes."""
    return k8s.PodFailurePolicyRule(
        action=action,
        on_exit_codes=k8s.PodFailurePolicyOnExitCodesRequirement(
            container_name=container, operator="In", values=list(codes)
        ),
    )


def _job_spec(job: ProgramJob, bindings: Bindings) -> k8s.JobSpec:
    # A pod that lost its node did not fail, so it does not count as a retry.
    disrupted = k8s.PodFailurePolicyRule(
        action="Ignore",
        on_pod_conditions=[
            k8s.PodFailurePolicyOnPodConditionsPattern(type="DisruptionTarget", status="True")
        ],
    )
    # No ttlSecondsAfterFinished: a Job that deletes itself is created again, and runs again, by
    # the next apply or GitOps sync.
    return k8s.JobSpec(
        completions=1,
        parallelism=1,
        backoff_limit=job.retries,
        pod_failure_policy=k8s.PodFailurePolicy(rules=[*job.failure_rules, disrupted]),
        template=k8s.PodTemplateSpec(
            metadata=k8s.ObjectMeta(labels=job.labels, annotations=job.annotations),
            spec=_pod_spec(job, bindings),
        ),
        **job.job_settings,
    )


def _pod_spec(job: ProgramJob, bindings: Bindings) -> k8s.PodSpec:
    return k8s.PodSpec(
        # The failure policy needs a new pod for each try.
        restart_policy="Never",
        service_account_name=job.service_account,
        automount_service_account_token=job.calls_kubernetes,
        enable_service_links=False,
        # Without a toleration it never runs on an accelerator node.
        node_selector=CPU_NODE_LABELS,
        security_context=job.security_context,
        containers=[_container(job, bindings)],
        volumes=list(job.volumes),
        **job.pod_settings,
    )


def _container(job: ProgramJob, bindings: Bindings) -> k8s.Container:
    environment = {**pods.aws_environment(bindings.region), **job.environment}
    return k8s.Container(
        name=job.container,
        image=bindings.llmperf_image,
        image_pull_policy="IfNotPresent",
        command=list(job.command),
        args=[part for pair in job.arguments.items() for part in pair],
        env=[*pods.variables(environment), *job.more_variables],
        resources=job.resources,
        security_context=pods.no_rights(),
        volume_mounts=list(job.mounts),
    )
