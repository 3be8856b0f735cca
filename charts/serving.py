"""The vLLM services: a Deployment and a Service for each variant and slot, with devices by DRA."""

from typing import Any

import cdk8s
from constructs import Construct

from charts import k8s, names
from charts.pods import metadata
from charts.vllm_pod import PORT_NAME, pod_template
from draftworth.experiment.naming import dns_label
from draftworth.experiment.placement import PlacedSlot
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron
from draftworth.records.servers import COMPILE_LIMIT_MINUTES
from draftworth.serving.command import SERVING_PORT

NEURON_DRIVER = "neuron.aws.com"
DEVICE_CLASS = "neuron.aws.com"
DEVICE_REQUEST = "neurons"
# On top of the startup probe, for the node to join and the image to be pulled.
ROLLOUT_MARGIN_MINUTES = 30


class CandidateChart(cdk8s.Chart):
    """One candidate's server of a search. It needs the serving chart, and no other candidate's.

    All candidates in one chart would be too much for the event of an update
    (`stacks/constructs/applied_charts.py`).
    """


class ServingChart(cdk8s.Chart):
    """Every variant's server, and a second one for its other slot where servers start and stop.

    The first one runs from the start, in its variant's home; the other one when the measuring Job
    scales it (`pods/measuring/kubernetes_servers.py`). A search's candidates but the first do so
    too. Their servers are in `candidates`; the claims of all are here.

    There is no PodDisruptionBudget: EKS ends a node that Spot wants back, or that is scaled down,
    after about 15 minutes whatever a budget says; it would only keep a node that is paid for.

    content: all that decides how the servers behave, as plain data.
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
                template = pod_template(
                    experiment, variant, slot, bindings, claim_template=self._claim_template(slot)
                )
                runs = slot == variant.slot and experiment.starts_up(variant)
                self._server(chart, slot, template, replicas=1 if runs else 0)

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
        # The name has a content hash: a ResourceClaimTemplate cannot be changed in place.
        place = _asked_place(self._experiment, slot)
        if place in self._claim_templates:
            return self._claim_templates[place]
        spec = claim_template_spec(self._experiment, place)
        of_place, id_ = ("", "devices") if place is None else (f"-{place}", f"devices-{place}")
        name = names.content_name(
            f"neuron-{self._experiment.spec.serving.slot_devices}-devices{of_place}",
            k8s.KubeResourceClaimTemplate.manifest(spec=spec),
        )
        k8s.KubeResourceClaimTemplate(self, id_, metadata=metadata(name), spec=spec)
        self._claim_templates[place] = name
        return name

    def _server(
        self, chart: cdk8s.Chart, slot: PlacedSlot, template: k8s.PodTemplateSpec, *, replicas: int
    ) -> None:
        spec = k8s.DeploymentSpec(
            replicas=replicas,
            # A rolling update would need a second slot beside the running one.
            strategy=k8s.DeploymentStrategy(type="Recreate"),
            revision_history_limit=1,
            progress_deadline_seconds=60 * (COMPILE_LIMIT_MINUTES + ROLLOUT_MARGIN_MINUTES),
            selector=k8s.LabelSelector(match_labels=names.selector_labels(slot)),
            template=template,
        )
        self.content.append(k8s.KubeDeployment.manifest(spec=spec))
        name, labels = names.server_name(slot), names.server_labels(self._experiment, slot)
        startup = (
            f"up to {COMPILE_LIMIT_MINUTES} minutes: a start that finds no compiled graphs "
            "compiles the model first"
        )
        about = metadata(name, labels, {"draftworth/startup": startup})
        k8s.KubeDeployment(chart, f"deployment-{name}", metadata=about, spec=spec)
        port = k8s.ServicePort(
            name=PORT_NAME,
            port=SERVING_PORT,
            # The same number: the VPC CNI enforces network policies only then.
            target_port=k8s.IntOrString.from_number(SERVING_PORT),
            protocol="TCP",
        )
        service = k8s.ServiceSpec(
            type="ClusterIP", selector=names.selector_labels(slot), ports=[port]
        )
        k8s.KubeService(chart, f"service-{name}", metadata=metadata(name, labels), spec=service)


def _asked_place(experiment: ResolvedNeuron, slot: PlacedSlot) -> int | None:
    # Nothing depends on the place where servers stay, or where a node has one place.
    placement = experiment.placement
    asked = experiment.spec.changes_servers and placement.slots_a_node > 1
    return placement.place(slot) if asked else None


def claim_template_spec(
    experiment: ResolvedNeuron, place: int | None
) -> k8s.ResourceClaimTemplateSpec:
    """Connected devices, configured for the experiment's logical cores.

    Every pod made from the template gets a claim of its own, and its devices when it is scheduled,
    before any init container runs: an init container that waits for devices would wait for ever.
    """
    serving = experiment.spec.serving
    selectors = [
        f"device.attributes['{NEURON_DRIVER}'].instanceType == '{experiment.spec.instance_type}'"
    ]
    if place is not None:
        selectors.append(_not_of_other_places(experiment, place))
    request = k8s.DeviceRequest(
        name=DEVICE_REQUEST,
        exactly=k8s.ExactDeviceRequest(
            device_class_name=DEVICE_CLASS,
            allocation_mode="ExactCount",
            count=serving.slot_devices,
            selectors=[
                k8s.DeviceSelector(cel=k8s.CelDeviceSelector(expression=expression))
                for expression in selectors
            ],
        ),
    )
    cores = {
        "apiVersion": "neuron.aws.com/v1",
        "kind": "NeuronConfig",
        "logicalNeuronCore": serving.lnc,
    }
    config = k8s.DeviceClaimConfiguration(
        requests=[DEVICE_REQUEST],
        opaque=k8s.OpaqueDeviceConfiguration(driver=NEURON_DRIVER, parameters=cores),
    )
    devices = k8s.DeviceClaim(
        requests=[request], constraints=_connected(serving.slot_devices), config=[config]
    )
    return k8s.ResourceClaimTemplateSpec(spec=k8s.ResourceClaimSpec(devices=devices))


def _not_of_other_places(experiment: ResolvedNeuron, place: int) -> str:
    # A group of connected devices that lacks one is too small for a claim. So the driver's groups
    # decide which devices a place has, and no numbers that are written here: if a driver counts or
    # groups in another way, the claims still fit, as they do without a place
    # (docs/decisions/0018-repetitions.md).
    others = [d for n, d in enumerate(experiment.placement.corner_devices()) if n != place]
    return f"!(device.attributes['{NEURON_DRIVER}'].deviceId in {others})"


def _connected(devices: int) -> list[k8s.DeviceConstraint] | None:
    # Without it a claim may get any devices. For one device it must be left out: the driver
    # publishes the groups only where there are several devices, and EFA.
    if devices == 1:
        return None
    group = f"resource.aws.com/devicegroup{devices}_id"
    return [k8s.DeviceConstraint(requests=[DEVICE_REQUEST], match_attribute=group)]
