"""The measuring Job and its run specification.

The specification is in no manifest and no template: prompts may be personal, may be large, and may
hold text that CloudFormation or `envsubst` would replace.
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
    """The file's bytes, and their hash, which the pod checks.

    It is stored under the hash, so an object that a pod was told of is never replaced.
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
        # The pod reads its deadline from a file: here it would become part of the Job's content.
        ready_deadline_seconds=None,
        start_allowance_seconds=60 * START_ALLOWANCE_MINUTES,
    )
    data = dump_record(spec)
    return RunSpecFile(data=data, sha256=hashlib.sha256(data).hexdigest())


def _server(experiment: ResolvedNeuron, slot: PlacedSlot) -> Server:
    name = names.server_name(slot)
    # The claims of servers that stay take whatever is free, so their slot is not known.
    number = slot.number if experiment.spec.changes_servers else None
    return Server(base_url=names.base_url(name), slot=number, name=name)


CONTAINER_NAME = "llmperf"
# It keeps its name and is changed in place, so a new deadline reaches the pod that measures and the
# Job stays.
DEADLINE_CONFIG_MAP = "llmperf-deadline"
DEADLINE_FOLDER = "/etc/draftworth-deadline"
DEADLINE_FILE = "deadline-minutes"
HOME = "/home/llmperf"
SCALING_ROLE = "scale-servers"

# Time to finish an upload and write the journal after SIGTERM.
TERMINATION_GRACE_SECONDS = 60

MEASURING_JOB_CPUS = 2
MEASURING_JOB_MEMORY_GIB = 4
WRITABLE_FOLDER_GIB = 5


class MeasuringChart(cdk8s.Chart):
    """The Job, named by its content and never changed in place, and its deadline.

    job_name: the keys of its runs begin with `runs/<job name>-`.
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
        # First in the chart, and so in the cluster before the pod that needs it.
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
        """Let the Job set the scale of these Deployments, and not even look at them otherwise."""
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
            # The hash is part of the Job's content and so of its name: other prompts, another Job.
            "--run-spec": bindings.run_spec_url,
            "--run-spec-sha256": bindings.run_spec_sha256,
            "--results": f"s3://{bindings.results_bucket}/{RUNS_FOLDER}",
            "--deadline-minutes-file": f"{DEADLINE_FOLDER}/{DEADLINE_FILE}",
        },
        environment={"HOME": HOME},
        more_variables=[
            # The Job controller writes these labels: they are the same for every pod of the Job.
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
        # Part of the Job's content and so of its name: a change of the servers, or a raised rerun,
        # makes another Job, which measures again.
        annotations={
            "draftworth/serving-content": names.stable_hash(serving.content, length=16),
            "draftworth/rerun": str(experiment.spec.rerun),
        },
        # No CPU limit: a throttled client would report its own waiting as latency.
        resources=resources(cpus=MEASURING_JOB_CPUS, memory_gib=MEASURING_JOB_MEMORY_GIB),
        volumes=[
            k8s.Volume(
                name="deadline", config_map=k8s.ConfigMapVolumeSource(name=DEADLINE_CONFIG_MAP)
            ),
            # Ray writes below $HOME and /tmp; the rest of the container is read-only.
            empty_folder("home", size_gib=WRITABLE_FOLDER_GIB),
            empty_folder("tmp", size_gib=WRITABLE_FOLDER_GIB),
        ],
        mounts=[
            # The folder and not the file: a file that is mounted alone is never updated.
            k8s.VolumeMount(name="deadline", mount_path=DEADLINE_FOLDER, read_only=True),
            k8s.VolumeMount(name="home", mount_path=HOME),
            k8s.VolumeMount(name="tmp", mount_path="/tmp"),  # noqa: S108 (a volume of this pod)
        ],
        # For pods that died, for example without memory: the next one goes on where they stopped,
        # under the same deadline. A run that failed has its own exit code and is not retried.
        retries=run_specification.POD_RETRIES,
        calls_kubernetes=experiment.spec.changes_servers,
        failure_rules=[
            on_exit(
                "FailJob",
                CONTAINER_NAME,
                run_specification.EXIT_FAILED,
                run_specification.EXIT_WRONG_INPUT,
            ),
            # A pod that was told to end did not fail.
            on_exit("Ignore", CONTAINER_NAME, run_specification.EXIT_INTERRUPTED),
        ],
        # A new pod waits until the one before has ended, or two would measure at once.
        job_settings={"pod_replacement_policy": "Failed"},
        pod_settings={
            "active_deadline_seconds": run_specification.POD_DEADLINE_SECONDS,
            "affinity": k8s.Affinity(pod_affinity=_beside_the_servers()),
            "termination_grace_period_seconds": TERMINATION_GRACE_SECONDS,
        },
    )


def _beside_the_servers() -> k8s.PodAffinity:
    """Keep the pod pending until the first server has its node and devices.

    So a run starts by itself once the accelerator nodes are there, however long after the deploy,
    and traffic to the servers stays within their zone. There is ONE term for all servers: the
    scheduler counts only pods that match every required term (kube-scheduler, InterPodAffinity,
    `updateWithAffinityTerms`), so with a term for each variant no pod would match. `suspend: true`
    would not do: `kubectl apply` resets every field that it is given, so an apply after the start
    would suspend the run and delete its pod.
    """
    term = k8s.PodAffinityTerm(
        topology_key="topology.kubernetes.io/zone",
        label_selector=k8s.LabelSelector(match_labels=dict(names.SERVING_COMPONENT)),
    )
    return k8s.PodAffinity(required_during_scheduling_ignored_during_execution=[term])
