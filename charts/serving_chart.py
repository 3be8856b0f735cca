"""The charts of the vLLM servers, and of the claims by which they get their Neuron devices (DRA).

A slot is the set of connected devices of one server. A variant has a server for each of its slots.
"""

from typing import Any

import cdk8s
from constructs import Construct

from charts import names
from charts.bindings import Bindings
from charts.bucket_volumes import draft_volume
from charts.device_claims import DeviceClaimTemplate, claim_template
from charts.shared_settings import shared_settings
from charts.vllm_server import VllmServer
from draftworth.experiment.naming import dns_label
from draftworth.experiment.placement import PlacedSlot
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron


class CandidateChart(cdk8s.Chart):
    """The server of one candidate: a variant among which a search chooses.

    It needs the serving chart, and no other candidate's chart. Each candidate has a chart of its
    own, because the event with which CloudFormation updates a chart contains all objects of the
    chart, and the size of an event is limited (`stacks/constructs/applied_charts.py`): one chart
    with all candidates would exceed the limit.
    """


class ServingChart(cdk8s.Chart):
    """A server for each slot of each variant, and the templates of all device claims.

    A slot is the set of connected devices that a server claims. The server in a variant's first
    slot runs from the start. With several repetitions each variant has a server in a second slot
    too. With one repetition and a control (the baseline measured against itself) only the baseline
    has one. The measuring Job starts the servers in second slots (see `KubernetesServers`). In a
    search all candidates share a slot, and only the server of the first candidate runs from the
    start.

    There is no PodDisruptionBudget. If EC2 reclaims a Spot node, or if the nodes are scaled down,
    EKS ends the node after about 15 minutes in spite of a budget, which would only delay the end.

    content: all Deployments without their metadata, as plain data.
    candidates: a chart for each candidate of a search; empty without a search.
    """

    def __init__(
        self, scope: Construct, id_: str, *, experiment: ResolvedNeuron, bindings: Bindings
    ) -> None:
        super().__init__(scope, id_, labels=names.experiment_labels(experiment.name))
        self._experiment = experiment
        self.candidates: list[CandidateChart] = []
        self.content: list[Any] = []
        self._claim_templates: dict[int | None, str] = {}
        shared = shared_settings(experiment, bindings)
        for variant in experiment.variants:
            chart = self._chart_of(scope, variant)
            for slot in variant.slots:
                runs = slot == variant.slot and experiment.starts_up(variant)
                name = names.server_name(slot)
                server = VllmServer(
                    chart,
                    name,
                    shared=shared,
                    name=name,
                    variant=variant.name,
                    flags=variant.command.flags,
                    draft=draft_volume(experiment, variant, bindings),
                    artifact_key=variant.artifact_key,
                    artifact_inputs=variant.artifact_inputs,
                    claim_template=self._claim_template(slot),
                    replicas=1 if runs else 0,
                )
                self.content.append(server.content)

    def _chart_of(self, scope: Construct, variant: NeuronVariant) -> cdk8s.Chart:
        if self._experiment.spec.search is None or variant.is_baseline:
            return self
        chart = CandidateChart(
            scope,
            f"candidate-{dns_label(variant.name)}",
            labels=names.experiment_labels(self._experiment.name),
        )
        self.candidates.append(chart)
        return chart

    def _claim_template(self, slot: PlacedSlot) -> str:
        place = self._place_of(slot)
        if place not in self._claim_templates:
            template = claim_template(self._experiment, place)
            DeviceClaimTemplate(self, template.name, template=template, namespace=names.NAMESPACE)
            self._claim_templates[place] = template.name
        return self._claim_templates[place]

    def _place_of(self, slot: PlacedSlot) -> int | None:
        # A claim is limited to the devices of one slot only if the run starts and stops servers and
        # a node has several slots.
        placement = self._experiment.placement
        limited = self._experiment.spec.changes_servers and placement.slots_per_node > 1
        return placement.place(slot) if limited else None
