"""The vLLM servers: a Deployment and a Service per variant and slot; devices are claimed by DRA."""

from typing import Any

import cdk8s
from constructs import Construct

from charts import names
from charts.storage import bucket_volumes
from charts.templates import Object, add_objects, objects_in
from charts.vllm_pod import server_objects
from draftworth.experiment.naming import dns_label
from draftworth.experiment.placement import PlacedSlot
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron


class CandidateChart(cdk8s.Chart):
    """The server of a search's candidate. It needs the serving chart, not other candidates' charts.

    All candidates in one chart would exceed the size limit of an update
    (`stacks/constructs/applied_charts.py`).
    """


class ServingChart(cdk8s.Chart):
    """A server for each slot of each variant, and the templates of all device claims.

    A variant has a second slot if the experiment starts and stops servers. The server in the home
    slot runs from the start; the measuring Job starts the other (see `KubernetesServers`).
    Of a search's candidates, whose servers are in `candidates`, only the first runs from the start.

    There is no PodDisruptionBudget: EKS ends a Spot node that EC2 reclaims, or one that is scaled
    down, after about 15 minutes in spite of a budget, which would only make that node cost more.

    content: all Deployments without their metadata, as plain data.
    candidates: a chart for each candidate of a search; empty without a search.
    """

    def __init__(
        self, scope: Construct, id_: str, *, experiment: ResolvedNeuron, bindings: names.Bindings
    ) -> None:
        super().__init__(scope, id_, labels=names.experiment_labels(experiment))
        self._experiment = experiment
        self.candidates: list[CandidateChart] = []
        self.content: list[Any] = []
        self._claim_templates: dict[int | None, str] = {}
        for variant in experiment.variants:
            chart = self._chart_of(scope, variant)
            for slot in variant.slots:
                runs = slot == variant.slot and experiment.starts_up(variant)
                deployment, service = server_objects(
                    experiment,
                    variant,
                    slot,
                    bindings,
                    claim_template=self._claim_template(slot),
                    volumes=bucket_volumes(experiment, variant, bindings),
                    replicas=1 if runs else 0,
                )
                add_objects(chart, [deployment, service])
                del deployment["metadata"]
                self.content.append(deployment)

    def _chart_of(self, scope: Construct, variant: NeuronVariant) -> cdk8s.Chart:
        if self._experiment.spec.search is None or variant.is_baseline:
            return self
        chart = CandidateChart(
            scope,
            f"candidate-{dns_label(variant.name)}",
            labels=names.experiment_labels(self._experiment),
        )
        self.candidates.append(chart)
        return chart

    def _claim_template(self, slot: PlacedSlot) -> str:
        # The name has a hash of the spec, because a ResourceClaimTemplate cannot be changed.
        place = _asked_place(self._experiment, slot)
        if place in self._claim_templates:
            return self._claim_templates[place]
        template = claim_template(self._experiment, place)
        of_place = "" if place is None else f"-{place}"
        devices = self._experiment.spec.serving.slot_devices
        name = names.content_name(f"neuron-{devices}-devices{of_place}", template)
        metadata = {"name": name, "namespace": names.NAMESPACE}
        add_objects(self, [{**template, "metadata": metadata}])
        self._claim_templates[place] = name
        return name


def _asked_place(experiment: ResolvedNeuron, slot: PlacedSlot) -> int | None:
    # A claim is limited to one place only if servers start and stop and a node has several places.
    placement = experiment.placement
    asked = experiment.spec.changes_servers and placement.slots_a_node > 1
    return placement.place(slot) if asked else None


def claim_template(experiment: ResolvedNeuron, place: int | None) -> Object:
    """Return the template of a server's device claim, as an object without metadata.

    place: the place on a node (`Placement.place`) to which the claim is limited; None: the claim
        may get any free devices.
    """
    # The claim may not get these devices: one device of each other place is enough.
    corners = enumerate(experiment.placement.corner_devices())
    others = [device for number, device in corners if place not in (None, number)]
    template: Object = objects_in(
        "charts",
        "claim_template.yaml.jinja",
        experiment=experiment.spec,
        other_places=others,
    )
    return template
