"""Jobs on CPU nodes. A Job's name has a hash of its content, so no Job is changed in place."""

from collections.abc import Mapping, Sequence
from typing import Any

import cdk8s

from charts import k8s, pods
from charts.names import CPU_NODE_LABELS, Bindings, content_name, has_cdk_token

# A pod that is disrupted, for example with its node, does not count as a failure.
_DISRUPTED = k8s.PodFailurePolicyRule(
    action="Ignore",
    on_pod_conditions=[
        k8s.PodFailurePolicyOnPodConditionsPattern(type="DisruptionTarget", status="True")
    ],
)


def add_job(
    chart: cdk8s.Chart,
    bindings: Bindings,
    *,
    prefix: str,
    container: str,
    command: Sequence[str],
    arguments: Mapping[str, str],
    environment: Mapping[str, str],
    more_variables: Sequence[k8s.EnvVar] = (),
    service_account: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    resources: k8s.ResourceRequirements,
    volumes: Sequence[k8s.Volume],
    mounts: Sequence[k8s.VolumeMount],
    retries: int,
    failure_rules: Sequence[k8s.PodFailurePolicyRule] = (),
    fs_group: int | None = pods.USER_ID,
    calls_kubernetes: bool = False,
    job_settings: Mapping[str, Any] | None = None,
    pod_settings: Mapping[str, Any] | None = None,
) -> str:
    """Add a Job that runs one program until it succeeds once; return the Job's name.

    retries: how many failed pods are replaced, unless a failure rule says otherwise.
    failure_rules: rules in addition to `_DISRUPTED`.
    calls_kubernetes: the pod mounts a token of its service account.
    job_settings, pod_settings: further fields of JobSpec and PodSpec.
    """
    if has_cdk_token(bindings.llmperf_image) and not bindings.llmperf_image_fingerprint:
        raise ValueError(
            "Bindings.llmperf_image is a CDK token, whose text does not change with the image: "
            "give llmperf_image_fingerprint too (DockerImageAsset.asset_hash), or a new image "
            "would be applied to a Job of the same name, which Kubernetes refuses"
        )
    program = k8s.Container(
        name=container,
        image=bindings.llmperf_image,
        image_pull_policy="IfNotPresent",
        command=list(command),
        args=[part for pair in arguments.items() for part in pair],
        env=[
            *pods.variables({**pods.aws_environment(bindings.region), **environment}),
            *more_variables,
        ],
        resources=resources,
        security_context=pods.no_rights(),
        volume_mounts=list(mounts),
    )
    pod = k8s.PodSpec(
        # Kubernetes requires "Never" for a Job with a pod failure policy.
        restart_policy="Never",
        service_account_name=service_account,
        automount_service_account_token=calls_kubernetes,
        enable_service_links=False,
        # The pod has no toleration, so it never runs on an accelerator node.
        node_selector=CPU_NODE_LABELS,
        security_context=pods.ordinary_user(fs_group),
        containers=[program],
        volumes=list(volumes),
        **(pod_settings or {}),
    )
    # No ttlSecondsAfterFinished: a Job that deletes itself is created again, and runs again, by
    # the next apply or GitOps sync.
    spec = k8s.JobSpec(
        completions=1,
        parallelism=1,
        backoff_limit=retries,
        pod_failure_policy=k8s.PodFailurePolicy(rules=[*failure_rules, _DISRUPTED]),
        template=k8s.PodTemplateSpec(
            metadata=k8s.ObjectMeta(labels=labels, annotations=annotations), spec=pod
        ),
        **(job_settings or {}),
    )
    content = {
        "job": k8s.KubeJob.manifest(spec=spec),
        "image": bindings.llmperf_image_fingerprint,
    }
    name = content_name(prefix, content)
    k8s.KubeJob(chart, f"job-{name}", metadata=pods.metadata(name), spec=spec)
    return name


def on_exit(action: str, container: str, *codes: int) -> k8s.PodFailurePolicyRule:
    """Return the rule for pods whose container `container` exited with one of these codes."""
    return k8s.PodFailurePolicyRule(
        action=action,
        on_exit_codes=k8s.PodFailurePolicyOnExitCodesRequirement(
            container_name=container, operator="In", values=list(codes)
        ),
    )
