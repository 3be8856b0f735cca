"""The vLLM services: one Deployment and Service a variant, devices by DRA."""

from __future__ import annotations

from typing import Any

import cdk8s
from constructs import Construct

from charts import k8s
from charts.bindings import Bindings
from charts.names import (
    content_name,
    experiment_labels,
    selector_labels,
    service_name,
    variant_labels,
)
from charts.pods import metadata
from charts.vllm_pod import PORT_NAME, pod_template
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron
from draftworth.records.server_state import COMPILE_LIMIT_MINUTES
from draftworth.serving.command import SERVING_PORT

NEURON_DRIVER = "neuron.aws.com"
DEVICE_CLASS = "neuron.aws.com"
DEVICE_REQUEST = "neurons"
# On top of the startup probe: for the node to join and the image to be pulled.
ROLLOUT_MARGIN_MINUTES = 30


class ServingChart(cdk8s.Chart):
    """Every variant's server.

    No PodDisruptionBudget: EKS drains a node that Spot wants back, or that is scaled down, for
    about 15 minutes whatever a budget says, and ends it then. One that refuses evictions would save
    no block and only keep a node that is paid for.

    `content`: all that decides how the servers behave, as plain data.
    """

    def __init__(
        self, scope: Construct, id_: str, *, experiment: ResolvedNeuron, bindings: Bindings
    ) -> None:
        super().__init__(
            scope, id_, disable_resource_name_hashes=True, labels=experiment_labels(experiment)
        )
        self._experiment = experiment
        self.content: list[Any] = []
        claim_template = self._claim_template()
        for variant in experiment.variants:
            template = pod_template(experiment, variant, bindings, claim_template=claim_template)
            spec = _deployment_spec(variant, template)
            self.content.append(k8s.KubeDeployment.manifest(spec=spec))
            self._deployment(variant, spec)
            self._service(variant)

    def _claim_template(self) -> str:
        """Its name carries a content hash: a ResourceClaimTemplate cannot be changed in place."""
        spec = _claim_template_spec(self._experiment)
        name = content_name(
            f"neuron-{self._experiment.spec.serving.slot_devices}-devices",
            k8s.KubeResourceClaimTemplate.manifest(spec=spec),
        )
        k8s.KubeResourceClaimTemplate(self, "devices", metadata=metadata(name), spec=spec)
        return name

    def _deployment(self, variant: NeuronVariant, spec: k8s.DeploymentSpec) -> None:
        labels = variant_labels(self._experiment, variant)
        startup = (
            f"up to {COMPILE_LIMIT_MINUTES} minutes: a start that finds no compiled graphs "
            "compiles the model first"
        )
        k8s.KubeDeployment(
            self,
            f"deployment-{variant.name}",
            metadata=metadata(service_name(variant.name), labels, {"draftworth/startup": startup}),
            spec=spec,
        )

    def _service(self, variant: NeuronVariant) -> None:
        labels = variant_labels(self._experiment, variant)
        # The same number outside and inside: the VPC CNI wants it so to enforce network policies.
        port = k8s.ServicePort(
            name=PORT_NAME,
            port=SERVING_PORT,
            target_port=k8s.IntOrString.from_number(SERVING_PORT),
            protocol="TCP",
        )
        k8s.KubeService(
            self,
            f"service-{variant.name}",
            metadata=metadata(service_name(variant.name), labels),
            spec=k8s.ServiceSpec(type="ClusterIP", selector=selector_labels(variant), ports=[port]),
        )


def _deployment_spec(variant: NeuronVariant, template: k8s.PodTemplateSpec) -> k8s.DeploymentSpec:
    return k8s.DeploymentSpec(
        replicas=1,
        # A rolling update would need a second slot beside the running one.
        strategy=k8s.DeploymentStrategy(type="Recreate"),
        revision_history_limit=1,
        progress_deadline_seconds=60 * (COMPILE_LIMIT_MINUTES + ROLLOUT_MARGIN_MINUTES),
        selector=k8s.LabelSelector(match_labels=selector_labels(variant)),
        template=template,
    )


def _claim_template_spec(experiment: ResolvedNeuron) -> k8s.ResourceClaimTemplateSpec:
    """Connected devices, configured for the experiment's logical cores.

    Every pod made from the template gets a claim of its own, and its devices when it is scheduled,
    before any init container runs: an init container that waits for devices would wait for ever.
    """
    serving = experiment.spec.serving
    selector = (
        f"device.attributes['{NEURON_DRIVER}'].instanceType == '{experiment.spec.instance_type}'"
    )
    request = k8s.DeviceRequest(
        name=DEVICE_REQUEST,
        exactly=k8s.ExactDeviceRequest(
            device_class_name=DEVICE_CLASS,
            allocation_mode="ExactCount",
            count=serving.slot_devices,
            selectors=[k8s.DeviceSelector(cel=k8s.CelDeviceSelector(expression=selector))],
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


def _connected(devices: int) -> list[k8s.DeviceConstraint] | None:
    """Devices of one group are neighbours on the node's torus; without this a claim may get any.

    One device has nothing to be connected with. It must not be asked for: the driver publishes the
    groups only where there are several devices, and EFA.
    """
    if devices == 1:
        return None
    group = f"resource.aws.com/devicegroup{devices}_id"
    return [k8s.DeviceConstraint(requests=[DEVICE_REQUEST], match_attribute=group)]
