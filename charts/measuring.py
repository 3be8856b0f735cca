"""The measuring Job and its run specification.

The specification is not in the manifests or the CloudFormation template but in a file of its own:
prompts may be personal or large, or have text that CloudFormation or `envsubst` would replace.
"""

import hashlib
from dataclasses import dataclass

import cdk8s
from constructs import Construct

from charts import names
from charts.jobs import add_job
from charts.serving import ServingChart
from charts.templates import add_objects, objects_in
from draftworth.experiment.naming import dns_label
from draftworth.experiment.placement import PlacedSlot
from draftworth.measuring import run_specification
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.specify_run import Server, run_spec
from draftworth.records.codec import dump_record
from draftworth.records.results import RUNS_FOLDER
from draftworth.records.servers import START_ALLOWANCE_MINUTES


@dataclass(frozen=True, kw_only=True)
class RunSpecFile:
    """The bytes of a run specification, and their SHA-256 in hexadecimal.

    The measuring Job's pod checks the hash. The file's key in S3 contains the hash, so no deploy
    replaces an object that a pod still needs.
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


SCALING_ROLE = "scale-servers"


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
        labels = names.component_labels("llmperf", names.MEASURING_JOB_COMPONENT, experiment)
        super().__init__(scope, id_, labels=labels)
        scales = experiment.spec.changes_servers
        beside = objects_in(
            "charts",
            "measuring_config.yaml.jinja",
            servers=names.server_names(experiment) if scales else (),
            scaling_role=SCALING_ROLE,
            deadline_minutes=experiment.spec.aws.deadline_minutes,
        )
        add_objects(self, beside)
        self.job_name = add_job(
            self,
            "measuring.yaml.jinja",
            prefix=f"llmperf-{dns_label(experiment.name)}",
            bindings=bindings,
            labels=labels,
            # For pods that died, for example out of memory: the next pod continues the run with the
            # same deadline. A run that failed has its own exit code and is not retried.
            retries=run_specification.POD_RETRIES,
            scales=scales,
            experiment=experiment.spec,
            run=run_specification,
            runs_folder=RUNS_FOLDER,
            serving_content=names.stable_hash(serving.content, length=16),
        )
