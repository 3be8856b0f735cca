"""The run specification, and with it the prompts, as a file that the pod fetches.

It stands in no manifest and no template: prompts may be personal, may be large, and may hold what
CloudFormation or `envsubst` would take for their own.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from charts.names import base_url, server_name
from draftworth.experiment.placement import PlacedSlot
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.run_specification import Server, run_spec
from draftworth.records.codec import dump_record
from draftworth.records.servers import START_ALLOWANCE_MINUTES


@dataclass(frozen=True, kw_only=True)
class RunSpecFile:
    """The file's bytes. It is stored under its content's hash, which the pod checks."""

    data: bytes

    @cached_property
    def sha256(self) -> str:
        """Of the bytes, in hex digits."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def name(self) -> str:
        """Other prompts, another name: an object that a pod was told of is never replaced."""
        return f"{self.sha256}.json"


def run_spec_file(experiment: ResolvedNeuron) -> RunSpecFile:
    """What the measuring Job of an experiment is given."""
    spec = run_spec(
        experiment,
        servers={
            variant.name: [_server(experiment, slot) for slot in variant.slots]
            for variant in experiment.variants
        },
        # The pod reads its deadline from a file: in here it would be part of the Job's content.
        ready_deadline_seconds=None,
        start_allowance_seconds=60 * START_ALLOWANCE_MINUTES,
    )
    return RunSpecFile(data=dump_record(spec))


def _server(experiment: ResolvedNeuron, slot: PlacedSlot) -> Server:
    name = server_name(slot)
    # Of servers that stay nobody knows the slot: their claims take whatever is free.
    number = slot.number if experiment.spec.changes_servers else None
    return Server(base_url=base_url(name), slot=number, name=name)
