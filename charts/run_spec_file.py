"""The run specification of an experiment, as the file that the measuring Job's pod reads.

The specification is not in the manifests or the CloudFormation template but in a file of its own:
prompts may be personal or large, or have text that CloudFormation or `envsubst` would replace.
"""

import hashlib
from dataclasses import dataclass

from charts import names
from draftworth.experiment.placement import PlacedSlot
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.specify_run import Server, run_spec
from draftworth.records.codec import dump_record
from draftworth.records.servers import START_ALLOWANCE_MINUTES


@dataclass(frozen=True, kw_only=True)
class RunSpecFile:
    """The bytes of a run specification, and their SHA-256 in hexadecimal.

    The specification says what a run measures: servers, prompts, loads and limits. The measuring
    Job's pod checks the hash. The file's key in S3 contains the hash, so no deploy replaces an
    object that a pod still needs.
    """

    data: bytes
    sha256: str


def run_spec_file(experiment: ResolvedNeuron) -> RunSpecFile:
    """Return the run specification of an experiment: what the measuring Job measures, and how."""
    spec = run_spec(
        experiment,
        servers={
            variant.name: [_server(experiment, slot) for slot in variant.slots]
            for variant in experiment.variants
        },
        # The pod reads its deadline from a ConfigMap. A deadline in this file would change the
        # file's hash, and with it the Job's name.
        ready_deadline_seconds=None,
        start_allowance_seconds=60 * START_ALLOWANCE_MINUTES,
    )
    data = dump_record(spec)
    return RunSpecFile(data=data, sha256=hashlib.sha256(data).hexdigest())


def _server(experiment: ResolvedNeuron, slot: PlacedSlot) -> Server:
    name = names.server_name(slot)
    # If the run starts and stops no servers, a claim gets any free devices, so it is not known in
    # which slot the server is.
    number = slot.number if experiment.spec.changes_servers else None
    return Server(base_url=names.base_url(name), slot=number, name=name)
