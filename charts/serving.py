"""The vLLM servers: a Deployment and a Service per variant and slot; devices are claimed by DRA."""

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
# Added to the compile limit: time for a node to join the cluster and for the image to be pulled.
ROLLOUT_MARGIN_MINUTES = 30


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

    content: the specs of all Deployments, as plain data.
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
        # The name has a hash of the spec, because a ResourceClaimTemplate cannot be changed.
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
        name, labels = names.server_name(slot), names.server_labels(self._experiment, slot)
        selector = names.selector_labels(name)
        spec = k8s.DeploymentSpec(
            replicas=replicas,
            # A rolling update would need devices for a second pod.
            strategy=k8s.DeploymentStrategy(type="Recreate"),
            revision_history_limit=1,
            progress_deadline_seconds=60 * (COMPILE_LIMIT_MINUTES + ROLLOUT_MARGIN_MINUTES),
            selector=k8s.LabelSelector(match_labels=selector),
            template=template,
        )
        self.content.append(k8s.KubeDeployment.manifest(spec=spec))
        startup = (
            f"up to {COMPILE_LIMIT_MINUTES} minutes: a start that finds no compiled graphs "
            "compiles the model first"
        )
        about = metadata(name, labels, {"draftworth/startup": startup})
        k8s.KubeDeployment(chart, f"deployment-{name}", metadata=about, spec=spec)
        port = k8s.ServicePort(
            name=PORT_NAME,
            port=SERVING_PORT,
            # Equal to `port`, because otherwise the VPC CNI does not enforce network policies.
            target_port=k8s.IntOrString.from_number(SERVING_PORT),
            protocol="TCP",
        )
        service = k8s.ServiceSpec(type="ClusterIP", selector=selector, ports=[port])
        k8s.KubeService(chart, f"service-{name}", metadata=metadata(name, labels), spec=service)


def _asked_place(experiment: ResolvedNeuron, slot: PlacedSlot) -> int | None:
    # A claim is limited to one place only if servers start and stop and a node has several places.
    placement = experiment.placement
    asked = experiment.spec.changes_servers and placement.slots_a_node > 1
    return placement.place(slot) if asked else None


def claim_template_spec(
    experiment: ResolvedNeuron, place: int | None
) -> k8s.ResourceClaimTemplateSpec:
    """Return a claim of connected devices, configured for the experiment's logical cores.

    Each pod gets its own claim from the template. The devices are allocated when the pod is
    scheduled, before its init containers run, so no init container has to wait for devices.
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
    # Excluding a single device of each other place is enough: a group of connected devices without
    # that device is too small for a claim. The driver decides which other devices are in a group,
    # so claims can be allocated also if a driver numbers or groups devices in another way
    # (docs/decisions/0018-repetitions.md).
    others = [d for n, d in enumerate(experiment.placement.corner_devices()) if n != place]
    return f"!(device.attributes['{NEURON_DRIVER}'].deviceId in {others})"


def _connected(devices: int) -> list[k8s.DeviceConstraint] | None:
    # Without a constraint a claim may get any devices. A claim of one device must have none: the
    # driver publishes the group only on nodes with EFA and several devices.
    if devices == 1:
        return None
    group = f"resource.aws.com/devicegroup{devices}_id"
    return [k8s.DeviceConstraint(requests=[DEVICE_REQUEST], match_attribute=group)]
