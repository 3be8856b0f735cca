"""The draft reader: a Job that reads the baseline's outputs of a search with each of its drafts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import cdk8s
from constructs import Construct

from charts import k8s
from charts.jobs import PROGRAMS_PATH, ProgramJob, add_job, copied_programs, on_exit
from charts.measuring import beside_the_servers
from charts.names import (
    DRAFT_READER_SERVICE_ACCOUNT,
    LOAD_GENERATOR_COMPONENT,
    Bindings,
    draft_reader_labels,
)
from charts.pods import empty_folder, resources
from charts.storage import BucketVolume
from draftworth.errors import UserInputError
from draftworth.experiment.naming import RUNS_PREFIX
from draftworth.experiment.variants import HubModel
from draftworth.measuring.run_specification import POD_DEADLINE_SECONDS
from draftworth.planning.draft_reading import DraftReading
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.serving.command import ModelPaths

CONTAINER_NAME = "draft-reader"
SCRATCH_PATH = "/scratch"
SCRATCH_GIB = 2
DRAFTS_PATH = "/models/drafts"
# More where they are free: the load generator is on another node.
READER_CPUS = 2
RETRIES = 3


class DraftReaderChart(cdk8s.Chart):
    """The Job. `job_name` is of the measuring Job, whose outputs are read."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        experiment: ResolvedNeuron,
        reading: DraftReading,
        bindings: Bindings,
        job_name: str,
    ) -> None:
        super().__init__(
            scope, id_, disable_resource_name_hashes=True, labels=draft_reader_labels(experiment)
        )
        add_job(self, _job(experiment, reading, bindings, job_name), bindings)


def _job(
    experiment: ResolvedNeuron, reading: DraftReading, bindings: Bindings, job_name: str
) -> ProgramJob:
    models = _Models(target=experiment.spec.target, drafts=reading.models)
    return ProgramJob(
        prefix="draft-reader",
        container=CONTAINER_NAME,
        # Torch and transformers are there, of releases that read the drafts when they are served.
        image=experiment.spec.image,
        working_folder=PROGRAMS_PATH,
        command=[
            *("python3", "-m", "pods.draft_reader"),
            *(f"--draft={folder}={model.model}" for folder, model in models.draft_folders.items()),
            *["--enable-thinking"] * experiment.spec.workload.enable_thinking,
        ],
        arguments={
            "--results": bindings.results_bucket,
            "--runs": f"{RUNS_PREFIX}{job_name}-",
            "--target": ModelPaths().target,
            "--scratch": SCRATCH_PATH,
            "--memory-gib": str(reading.memory_gib),
        },
        environment={"HOME": SCRATCH_PATH, "TMPDIR": SCRATCH_PATH},
        service_account=DRAFT_READER_SERVICE_ACCOUNT,
        labels=draft_reader_labels(experiment),
        annotations={},
        resources=resources(cpus=READER_CPUS, memory_gib=reading.memory_gib),
        volumes=[
            *models.volumes(experiment, bindings),
            empty_folder("scratch", size_gib=SCRATCH_GIB),
            empty_folder("programs", size_gib=1),
        ],
        mounts=[
            *models.mounts(),
            k8s.VolumeMount(name="scratch", mount_path=SCRATCH_PATH),
            k8s.VolumeMount(name="programs", mount_path=PROGRAMS_PATH, read_only=True),
        ],
        retries=RETRIES,
        failure_rules=[on_exit("FailJob", CONTAINER_NAME, UserInputError.exit_code)],
        # No user, as with the servers: the Neuron images say nothing of another one.
        security_context=k8s.PodSecurityContext(
            seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault")
        ),
        pod_settings={
            "init_containers": [copied_programs(bindings)],
            "active_deadline_seconds": POD_DEADLINE_SECONDS,
            "affinity": k8s.Affinity(
                # Pending until there is something to measure: while models are staged, their files
                # and this image would fill a CPU node's disk.
                pod_affinity=beside_the_servers(),
                pod_anti_affinity=_not_beside_the_load_generator(),
            ),
        },
    )


@dataclass(frozen=True, kw_only=True)
class _Models:
    """What is mounted: the volumes that servers mount too, with the rights of this pod."""

    target: HubModel
    drafts: tuple[HubModel, ...]

    @property
    def draft_folders(self) -> dict[str, HubModel]:
        """Where each draft is mounted."""
        return {f"{DRAFTS_PATH}/{m.model.replace('/', '--')}": m for m in self.drafts}

    def volumes(self, experiment: ResolvedNeuron, bindings: Bindings) -> Iterator[k8s.Volume]:
        roles = {"target": [self.target], "draft": self.drafts}
        models = [(role, model) for role, of_role in roles.items() for model in of_role]
        for number, (role, model) in enumerate(models):
            volume = BucketVolume(
                role=role,
                bucket=bindings.checkpoints_bucket,
                region=bindings.region,
                prefix=model.storage_prefix,
            )
            claim = k8s.PersistentVolumeClaimVolumeSource(
                claim_name=volume.name(experiment), read_only=True
            )
            yield k8s.Volume(name=f"model-{number}", persistent_volume_claim=claim)

    def mounts(self) -> Iterator[k8s.VolumeMount]:
        for number, folder in enumerate((ModelPaths().target, *self.draft_folders)):
            yield k8s.VolumeMount(name=f"model-{number}", mount_path=folder, read_only=True)


def _not_beside_the_load_generator() -> k8s.PodAntiAffinity:
    """It would take CPU time from who measures, and be measured as latency."""
    term = k8s.PodAffinityTerm(
        topology_key="kubernetes.io/hostname",
        label_selector=k8s.LabelSelector(match_labels=dict(LOAD_GENERATOR_COMPONENT)),
    )
    return k8s.PodAntiAffinity(required_during_scheduling_ignored_during_execution=[term])
