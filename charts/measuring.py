"""The measuring Job and its run specification.

The specification is a file outside manifests and template: prompts may be personal or large, or
have text that CloudFormation or `envsubst` would replace.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import cdk8s
from constructs import Construct

from charts import k8s, names
from charts.jobs import add_job, on_exit
from charts.pods import empty_folder, field_variable, metadata, resources
from charts.serving import ServingChart
from draftworth.experiment.naming import dns_label
from draftworth.experiment.placement import PlacedSlot
from draftworth.measuring import run_specification
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.run_specification import Server, run_spec
from draftworth.records.codec import dump_record
from draftworth.records.results import RUNS_FOLDER
from draftworth.records.servers import START_ALLOWANCE_MINUTES


@dataclass(frozen=True, kw_only=True)
class RunSpecFile:
    """The run specification's bytes, and their hash, which the pod checks.

    The file's key in S3 has the hash, so no deploy replaces an object that a pod still needs.
    """

    data: bytes
    sha256: str


def run_spec_file(experiment: ResolvedNeuron) -> RunSpecFile:
    """Return the run specification of an experiment as a file."""
    spec = run_spec(
        experiment,
        servers={
            variant.name: [_server(experiment, slot) for slot in variant.slots]
            for variant in experiment.variants
        },
        # The pod reads its deadline from another file. In this one it would change the Job's name.
        ready_deadline_seconds=None,
        start_allowance_seconds=60 * START_ALLOWANCE_MINUTES,
    )
    data = dump_record(spec)
    return RunSpecFile(data=data, sha256=hashlib.sha256(data).hexdigest())


def _server(experiment: ResolvedNeuron, slot: PlacedSlot) -> Server:
    name = names.server_name(slot)
    # Without `changes_servers` a claim gets any free devices, so the slot number is unknown.
    number = slot.number if experiment.spec.changes_servers else None
    return Server(base_url=names.base_url(name), slot=number, name=name)


CONTAINER_NAME = "llmperf"
# This ConfigMap is changed in place, without a hash in its name, so that a new deadline reaches the
# running pod and the Job is not replaced.
DEADLINE_CONFIG_MAP = "llmperf-deadline"
DEADLINE_FOLDER = "/etc/draftworth-deadline"
DEADLINE_FILE = "deadline-minutes"
HOME = "/home/llmperf"
SCALING_ROLE = "scale-servers"

# After SIGTERM the program needs time to finish an upload and to write its journal.
TERMINATION_GRACE_SECONDS = 60

MEASURING_JOB_CPUS = 2
MEASURING_JOB_MEMORY_GIB = 4
WRITABLE_FOLDER_GIB = 5


class MeasuringChart(cdk8s.Chart):
    """The measuring Job, whose name has a hash of its content, and a ConfigMap with its deadline.

    job_name: the Job's name; the keys of its runs in S3 begin with `runs/<job name>-`.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        experiment: ResolvedNeuron,
        bindings: names.Bindings,
        serving: ServingChart,
    ) -> None:
        super().__init__(
            scope,
            id_,
            labels=names.component_labels("llmperf", names.MEASURING_JOB_COMPONENT, experiment),
        )
        # The role is the first in the chart, so it is applied before the pod that needs it.
        if experiment.spec.changes_servers:
            self._let_scale(names.server_names(experiment))
        k8s.KubeConfigMap(
            self,
            "deadline",
            metadata=metadata(DEADLINE_CONFIG_MAP),
            data={DEADLINE_FILE: str(experiment.spec.aws.deadline_minutes)},
        )
        self.job_name = _add_job(self, experiment, bindings, serving)

    def _let_scale(self, deployments: Sequence[str]) -> None:
        """Let the Job change the scale of these Deployments, and do nothing else with them."""
        k8s.KubeRole(
            self,
            "role",
            metadata=metadata(SCALING_ROLE),
            rules=[
                k8s.PolicyRule(
                    api_groups=["apps"],
                    resources=["deployments/scale"],
                    resource_names=list(deployments),
                    verbs=["patch"],
                )
            ],
        )
        role = k8s.RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name=SCALING_ROLE)
        account = k8s.Subject(
            kind="ServiceAccount",
            name=names.MEASURING_JOB_SERVICE_ACCOUNT,
            namespace=names.NAMESPACE,
        )
        k8s.KubeRoleBinding(
            self,
            "role-binding",
            metadata=metadata(SCALING_ROLE),
            role_ref=role,
            subjects=[account],
        )


def _add_job(
    chart: cdk8s.Chart, experiment: ResolvedNeuron, bindings: names.Bindings, serving: ServingChart
) -> str:
    return add_job(
        chart,
        bindings,
        prefix=f"llmperf-{dns_label(experiment.name)}",
        container=CONTAINER_NAME,
        command=["python", "-m", "pods.measuring"],
        arguments={
            # With the hash the Job's content and name change when the prompts change.
            "--run-spec": bindings.run_spec_url,
            "--run-spec-sha256": bindings.run_spec_sha256,
            "--results": f"s3://{bindings.results_bucket}/{RUNS_FOLDER}",
            "--deadline-minutes-file": f"{DEADLINE_FOLDER}/{DEADLINE_FILE}",
        },
        environment={"HOME": HOME},
        more_variables=[
            # The Job controller sets these labels to the same values in all pods of the Job.
            field_variable(
                run_specification.JOB_NAME_VARIABLE,
                f"metadata.labels['{run_specification.JOB_NAME_LABEL}']",
            ),
            field_variable(
                run_specification.JOB_UID_VARIABLE,
                f"metadata.labels['{run_specification.JOB_UID_LABEL}']",
            ),
        ],
        service_account=names.MEASURING_JOB_SERVICE_ACCOUNT,
        labels=names.component_labels("llmperf", names.MEASURING_JOB_COMPONENT, experiment),
        # The annotations are part of the Job's content: a change of the servers, or a higher
        # `rerun`, makes a Job with another name, which measures again.
        annotations={
            "draftworth/serving-content": names.stable_hash(serving.content, length=16),
            "draftworth/rerun": str(experiment.spec.rerun),
        },
        # There is no CPU limit: a throttled client would measure its own waiting as latency.
        resources=resources(cpus=MEASURING_JOB_CPUS, memory_gib=MEASURING_JOB_MEMORY_GIB),
        volumes=[
            k8s.Volume(
                name="deadline", config_map=k8s.ConfigMapVolumeSource(name=DEADLINE_CONFIG_MAP)
            ),
            # Ray writes to $HOME and /tmp; the rest of the container's file system is read-only.
            empty_folder("home", size_gib=WRITABLE_FOLDER_GIB),
            empty_folder("tmp", size_gib=WRITABLE_FOLDER_GIB),
        ],
        mounts=[
            # The folder is mounted, because a single mounted file (subPath) is never updated.
            k8s.VolumeMount(name="deadline", mount_path=DEADLINE_FOLDER, read_only=True),
            k8s.VolumeMount(name="home", mount_path=HOME),
            k8s.VolumeMount(name="tmp", mount_path="/tmp"),  # noqa: S108 (a volume of this pod)
        ],
        # Retries are for pods that died, for example out of memory: the next pod continues the run
        # with the same deadline. A run that failed has its own exit code and is not retried.
        retries=run_specification.POD_RETRIES,
        calls_kubernetes=experiment.spec.changes_servers,
        failure_rules=[
            on_exit(
                "FailJob",
                CONTAINER_NAME,
                run_specification.EXIT_FAILED,
                run_specification.EXIT_WRONG_INPUT,
            ),
            # A pod that got SIGTERM did not fail.
            on_exit("Ignore", CONTAINER_NAME, run_specification.EXIT_INTERRUPTED),
        ],
        # A new pod starts only when the old one has ended: two pods never measure at the same time.
        job_settings={"pod_replacement_policy": "Failed"},
        pod_settings={
            "active_deadline_seconds": run_specification.POD_DEADLINE_SECONDS,
            "affinity": k8s.Affinity(pod_affinity=_beside_the_servers()),
            "termination_grace_period_seconds": TERMINATION_GRACE_SECONDS,
        },
    )


def _beside_the_servers() -> k8s.PodAffinity:
    """Return an affinity that keeps the pod pending until the first server is on a node.

    So a run starts by itself when there are accelerator nodes, however long after the deploy, and
    traffic to the servers stays in their zone. There is ONE term for all servers: the scheduler
    counts only pods that match all required terms (kube-scheduler, InterPodAffinity,
    `updateWithAffinityTerms`), so with a term for each variant no pod would match. A Job with
    `suspend: true` would be no alternative: `kubectl apply` resets the fields of a manifest, so
    another apply after the start would suspend the run and delete its pod.
    """
    term = k8s.PodAffinityTerm(
        topology_key="topology.kubernetes.io/zone",
        label_selector=k8s.LabelSelector(match_labels=dict(names.SERVING_COMPONENT)),
    )
    return k8s.PodAffinity(required_during_scheduling_ignored_during_execution=[term])
