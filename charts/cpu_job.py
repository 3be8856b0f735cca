"""A Job on a CPU node, which runs a program of the measuring image until it succeeds once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cdk8s_plus_35 import k8s
from constructs import Construct

from charts import names
from charts.bindings import Bindings
from charts.container_parts import DEFAULT_SECCOMP, LOCKED_DOWN, aws_environment, environment
from charts.content_names import content_name, has_cdk_token

# The id of the measuring image's user, and of this user's group.
IMAGE_USER = 10001


@dataclass(frozen=True, kw_only=True)
class ImageProgram:
    """A program of the measuring image, `python -m MODULE ARGUMENTS`, and its container.

    container: the container's name.
    environment: variables beside those for AWS, {variable: value}.
    pod_fields: variables whose value is a field of the pod, {variable: the field's path}.
    volumes: the pod's volumes. mounts: where the container mounts them.
    """

    container: str
    module: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    pod_fields: Mapping[str, str] = field(default_factory=dict)
    resources: k8s.ResourceRequirements
    volumes: Sequence[k8s.Volume]
    mounts: Sequence[k8s.VolumeMount]


def cpu_pod(
    program: ImageProgram,
    bindings: Bindings,
    *,
    account: str,
    file_group: int | None = IMAGE_USER,
    mounts_token: bool = False,
    affinity: k8s.Affinity | None = None,
    active_deadline_seconds: int | None = None,
    termination_grace_period_seconds: int | None = None,
) -> k8s.PodSpec:
    """Return the spec of a pod that runs a program of the measuring image on a CPU node.

    account: the pod's service account.
    file_group: the group that gets the volumes' files (`fsGroup`); None: no group is set.
    mounts_token: whether the pod gets a token, with which it can call the Kubernetes API.
    """
    return k8s.PodSpec(
        # Kubernetes requires "Never" for a Job with a pod failure policy.
        restart_policy="Never",
        service_account_name=account,
        automount_service_account_token=mounts_token,
        enable_service_links=False,
        # The pod has no toleration, so it never runs on an accelerator node.
        node_selector=names.CPU_NODE_LABELS,
        security_context=k8s.PodSecurityContext(
            run_as_non_root=True,
            run_as_user=IMAGE_USER,
            run_as_group=IMAGE_USER,
            fs_group=file_group,
            seccomp_profile=DEFAULT_SECCOMP,
        ),
        affinity=affinity,
        active_deadline_seconds=active_deadline_seconds,
        termination_grace_period_seconds=termination_grace_period_seconds,
        containers=[_container(program, bindings)],
        volumes=[*program.volumes],
    )


def _container(program: ImageProgram, bindings: Bindings) -> k8s.Container:
    variables = {**aws_environment(bindings.region), **program.environment}
    return k8s.Container(
        name=program.container,
        image=bindings.llmperf_image,
        image_pull_policy="IfNotPresent",
        command=["python", "-m", program.module],
        args=[*program.arguments],
        env=environment(variables, program.pod_fields),
        resources=program.resources,
        security_context=LOCKED_DOWN,
        volume_mounts=[*program.mounts],
    )


class CpuJob(Construct):
    """A Job that runs one pod at a time and is complete when one pod has succeeded.

    It raises ValueError if the image is a CDK token and `bindings` has no fingerprint of the image:
    then the hash in the Job's name could not change with the image.

    prefix: the beginning of the Job's name; a hash of the Job's content follows, because Kubernetes
        cannot change a Job in place.
    retries: how many failed pods are replaced, unless a failure rule says otherwise.
    failure_rules: what Kubernetes does when a pod ends with a certain exit code. A pod whose node
        is drained never counts as a failure.
    counts_failures: whether each pod has an annotation with the number of pods that failed before.
    waits_for_end: whether a new pod starts only when the old one has ended.

    name: the Job's name, with the hash.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        prefix: str,
        bindings: Bindings,
        labels: Mapping[str, str],
        annotations: Mapping[str, str],
        pod: k8s.PodSpec,
        retries: int,
        failure_rules: Sequence[k8s.PodFailurePolicyRule] = (),
        counts_failures: bool = False,
        waits_for_end: bool = False,
    ) -> None:
        super().__init__(scope, id_)
        _check_fingerprint(bindings)
        metadata = k8s.ObjectMeta(labels=labels, annotations=annotations)
        spec = k8s.JobSpec(
            completions=1,
            parallelism=1,
            backoff_limit=retries,
            # Only in an Indexed Job do pods get an annotation with the number of failures.
            completion_mode="Indexed" if counts_failures else None,
            backoff_limit_per_index=retries if counts_failures else None,
            pod_replacement_policy="Failed" if waits_for_end else None,
            # No ttlSecondsAfterFinished: a Job that deletes itself is created again, and runs
            # again, by the next apply or GitOps sync.
            pod_failure_policy=k8s.PodFailurePolicy(rules=[*failure_rules, _ignored_disruption()]),
            template=k8s.PodTemplateSpec(metadata=metadata, spec=pod),
        )
        content = k8s.KubeJob.manifest(spec=spec)
        image = bindings.llmperf_image_fingerprint
        self.name = content_name(prefix, {"job": content, "image": image})
        k8s.KubeJob(
            self,
            "Job",
            metadata=k8s.ObjectMeta(name=self.name, namespace=names.NAMESPACE),
            spec=spec,
        )


def _check_fingerprint(bindings: Bindings) -> None:
    if has_cdk_token(bindings.llmperf_image) and not bindings.llmperf_image_fingerprint:
        raise ValueError(
            "Bindings.llmperf_image is a CDK token, whose text does not change with the image: "
            "give llmperf_image_fingerprint too (DockerImageAsset.asset_hash), or a new image "
            "would be applied to a Job of the same name, which Kubernetes refuses"
        )


def exit_code_rule(
    action: str, program: ImageProgram, *exit_codes: int
) -> k8s.PodFailurePolicyRule:
    """Return the rule by which Kubernetes takes `action` if the program ends with one of the codes.

    action: `FailJob`, `Ignore`, `Count` or `FailIndex`.
    exit_codes: the codes for which the rule holds.
    """
    return k8s.PodFailurePolicyRule(
        action=action,
        on_exit_codes=k8s.PodFailurePolicyOnExitCodesRequirement(
            container_name=program.container, operator="In", values=[*exit_codes]
        ),
    )


def _ignored_disruption() -> k8s.PodFailurePolicyRule:
    """Return the rule that a disrupted pod, for example on a drained node, is not a failure."""
    disrupted = k8s.PodFailurePolicyOnPodConditionsPattern(type="DisruptionTarget", status="True")
    return k8s.PodFailurePolicyRule(action="Ignore", on_pod_conditions=[disrupted])
