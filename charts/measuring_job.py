"""The Job that measures the servers, and what it needs in the cluster."""

from collections.abc import Mapping, Sequence

import cdk8s
from cdk8s_plus_35 import k8s
from constructs import Construct

from charts import names
from charts.bindings import Bindings
from charts.container_parts import amounts, gib
from charts.content_names import stable_hash
from charts.cpu_job import CpuJob, ImageProgram, cpu_pod, exit_code_rule
from charts.serving_chart import ServingChart
from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.naming import dns_label
from draftworth.measuring import run_specification
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.results import RUNS_FOLDER

SCALING_ROLE = "scale-servers"
_RBAC = "rbac.authorization.k8s.io"
_DEADLINE_MAP, _DEADLINE_FILE = "llmperf-deadline", "deadline-minutes"
# The ConfigMap with the deadline is mounted as a folder: Kubernetes never updates a file that is
# mounted by itself (subPath).
_DEADLINE = k8s.VolumeMount(name="deadline", mount_path="/etc/draftworth-deadline", read_only=True)
# Ray writes to $HOME and /tmp; the rest of the container's file system is read-only.
_HOME = k8s.VolumeMount(name="home", mount_path="/home/llmperf")
_TMP = k8s.VolumeMount(name="tmp", mount_path="/tmp")  # noqa: S108 (a volume of the pod's own)
_WRITABLE_GIB = 5


class MeasuringChart(cdk8s.Chart):
    """The measuring Job, the ConfigMap with its deadline, and its right to scale servers.

    The right is added only if the run starts and stops servers.
    job_name: the Job's name; the keys of its runs in S3 begin with `runs/<job name>-`.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        experiment: ResolvedNeuron,
        bindings: Bindings,
        serving: ServingChart,
    ) -> None:
        labels = names.component_labels("llmperf", names.MEASURING_JOB_COMPONENT, experiment.name)
        super().__init__(scope, id_, labels=labels)
        if experiment.spec.changes_servers:
            # The permission to scale servers is added first, so that it is applied before the Job,
            # which needs it.
            ServerScaling(self, "ServerScaling", servers=names.server_names(experiment))
        # This ConfigMap is changed in place (its name has no hash), so that a new deadline reaches
        # the running pod and the Job is not replaced.
        k8s.KubeConfigMap(
            self,
            "Deadline",
            metadata=k8s.ObjectMeta(name=_DEADLINE_MAP, namespace=names.NAMESPACE),
            data={_DEADLINE_FILE: str(experiment.spec.aws.deadline_minutes)},
        )
        job = MeasuringJob(
            self,
            "MeasuringJob",
            experiment=experiment.spec,
            bindings=bindings,
            labels=labels,
            serving_content=stable_hash(serving.content, length=16),
        )
        self.job_name = job.name


class ServerScaling(Construct):
    """The measuring Job's right to change the number of replicas of servers, and nothing else.

    servers: the names of the servers' Deployments.
    """

    def __init__(self, scope: Construct, id_: str, *, servers: Sequence[str]) -> None:
        super().__init__(scope, id_)
        metadata = k8s.ObjectMeta(name=SCALING_ROLE, namespace=names.NAMESPACE)
        k8s.KubeRole(
            self,
            "Role",
            metadata=metadata,
            rules=[
                k8s.PolicyRule(
                    api_groups=["apps"],
                    resources=["deployments/scale"],
                    resource_names=[*servers],
                    verbs=["patch"],
                )
            ],
        )
        account = k8s.Subject(
            kind="ServiceAccount",
            name=names.MEASURING_JOB_SERVICE_ACCOUNT,
            namespace=names.NAMESPACE,
        )
        k8s.KubeRoleBinding(
            self,
            "RoleBinding",
            metadata=metadata,
            role_ref=k8s.RoleRef(api_group=_RBAC, kind="Role", name=SCALING_ROLE),
            subjects=[account],
        )


class MeasuringJob(CpuJob):
    """The Job that measures; all its pods continue one run, whose id begins with the Job's name.

    serving_content: a hash of all servers' Deployments. If it changes, so does the Job's name, and
        a new Job measures the changed servers.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        experiment: NeuronExperiment,
        bindings: Bindings,
        labels: Mapping[str, str],
        serving_content: str,
    ) -> None:
        program = _measuring(bindings)
        super().__init__(
            scope,
            id_,
            prefix=f"llmperf-{dns_label(experiment.name)}",
            bindings=bindings,
            labels=labels,
            # The annotations are part of the Job's content: a change of the servers, or a higher
            # `rerun`, makes a Job with another name, which measures again. So does the end of
            # `aws.hold`: the deadline then counts anew, and the canaries try everything again.
            annotations={
                "draftworth/serving-content": serving_content,
                "draftworth/rerun": str(experiment.rerun),
                **({"draftworth/hold": "true"} if experiment.aws.hold else {}),
            },
            pod=cpu_pod(
                program,
                bindings,
                account=names.MEASURING_JOB_SERVICE_ACCOUNT,
                mounts_token=experiment.changes_servers,
                affinity=_beside_servers(),
                active_deadline_seconds=run_specification.POD_DEADLINE_SECONDS,
                # After SIGTERM the program needs time to finish an upload and to write its journal.
                termination_grace_period_seconds=60,
            ),
            # A pod is retried only if it died, for example out of memory: the next pod continues
            # the run with an unchanged deadline. If the run itself failed, the program ends with
            # the code EXIT_FAILED, for which a failure rule ends the Job without a retry.
            retries=run_specification.POD_RETRIES,
            failure_rules=_failure_rules(program),
            # Two pods never measure at the same time.
            waits_for_end=True,
        )


def _measuring(bindings: Bindings) -> ImageProgram:
    deadline = k8s.ConfigMapVolumeSource(name=_DEADLINE_MAP)
    writable = k8s.EmptyDirVolumeSource(size_limit=gib(_WRITABLE_GIB))
    return ImageProgram(
        container="llmperf",
        module="pods.measuring",
        arguments=_arguments(bindings),
        environment={"HOME": _HOME.mount_path},
        # The Job controller sets these labels to the same values in all pods of the Job.
        pod_fields={
            variable: f"metadata.labels['{label}']"
            for variable, label in (
                (run_specification.JOB_NAME_VARIABLE, run_specification.JOB_NAME_LABEL),
                (run_specification.JOB_UID_VARIABLE, run_specification.JOB_UID_LABEL),
            )
        },
        # There is no CPU limit: a throttled client would measure its own waiting as latency.
        resources=k8s.ResourceRequirements(
            requests=amounts({"cpu": "2", "memory": "4Gi"}), limits=amounts({"memory": "4Gi"})
        ),
        volumes=[
            k8s.Volume(name=_DEADLINE.name, config_map=deadline),
            k8s.Volume(name=_HOME.name, empty_dir=writable),
            k8s.Volume(name=_TMP.name, empty_dir=writable),
        ],
        mounts=[_DEADLINE, _HOME, _TMP],
    )


def _arguments(bindings: Bindings) -> list[str]:
    return [
        *("--run-spec", bindings.run_spec_url),
        # If the prompts change, this hash changes, and with it the Job's name: a new Job runs.
        *("--run-spec-sha256", bindings.run_spec_sha256),
        *("--results", f"s3://{bindings.results_bucket}/{RUNS_FOLDER}"),
        *("--deadline-minutes-file", f"{_DEADLINE.mount_path}/{_DEADLINE_FILE}"),
    ]


def _beside_servers() -> k8s.Affinity:
    """Return the pod affinity of the measuring Job's pod: it must be in the zone of a server's pod.

    The scheduler keeps the measuring Job's pod pending until a server's pod is on a node. So a run
    starts by itself when there are accelerator nodes, however long after the deploy, and traffic to
    the servers stays in their zone. There is ONE affinity term for all servers: the scheduler
    counts only pods that match all required terms (kube-scheduler, InterPodAffinity,
    `updateWithAffinityTerms`), so with a term for each variant no pod would match. It requires a
    server's name too, which the canaries' listener lacks: else the run would start beside that. A
    Job with `suspend: true` would be no alternative: `kubectl apply` resets the fields of a
    manifest, so another apply after the start would suspend the run and delete its pod.
    """
    any_server = k8s.PodAffinityTerm(
        topology_key="topology.kubernetes.io/zone",
        label_selector=k8s.LabelSelector(
            match_labels=names.SERVING_COMPONENT,
            match_expressions=[
                k8s.LabelSelectorRequirement(key=names.SERVER_LABEL, operator="Exists")
            ],
        ),
    )
    return k8s.Affinity(
        pod_affinity=k8s.PodAffinity(
            required_during_scheduling_ignored_during_execution=[any_server]
        )
    )


def _failure_rules(program: ImageProgram) -> list[k8s.PodFailurePolicyRule]:
    failed, wrong = run_specification.EXIT_FAILED, run_specification.EXIT_WRONG_INPUT
    return [
        exit_code_rule("FailJob", program, failed, wrong),
        # A pod that got SIGTERM did not fail.
        exit_code_rule("Ignore", program, run_specification.EXIT_INTERRUPTED),
    ]
