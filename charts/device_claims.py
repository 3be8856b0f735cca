"""Claims of connected Neuron devices, which pods make by dynamic resource allocation (DRA).

Each pod gets its own claim from a template. The devices are allocated when the pod is scheduled,
before its init containers run, so no init container has to wait for devices.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cdk8s_plus_35 import k8s
from constructs import Construct

from charts.content_names import content_name
from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.placement import Placement
from draftworth.planning.resolved import ResolvedNeuron

DRIVER = "neuron.aws.com"
_REQUEST = "neurons"


@dataclass(frozen=True, kw_only=True)
class ClaimTemplate:
    """Name and spec of a ResourceClaimTemplate for the connected devices of one server.

    The name has a hash of the spec, because Kubernetes cannot change the spec in place.
    """

    name: str
    spec: k8s.ResourceClaimTemplateSpec


def claim_template(experiment: ResolvedNeuron, place: int | None = None) -> ClaimTemplate:
    """Return the template of a claim of as many connected devices as a server needs.

    A slot is such a set of devices. place: the number of a slot on its node, from 0
    (`Placement.place`); the claim gets only the devices of this slot. None: the claim may get any
    free devices that are connected.
    """
    claim = _connected_devices(experiment.spec, _corners_elsewhere(experiment.placement, place))
    spec = k8s.ResourceClaimTemplateSpec(spec=k8s.ResourceClaimSpec(devices=claim))
    of_place = "" if place is None else f"-{place}"
    prefix = f"neuron-{experiment.spec.serving.slot_devices}-devices{of_place}"
    name = content_name(prefix, k8s.KubeResourceClaimTemplate.manifest(spec=spec))
    return ClaimTemplate(name=name, spec=spec)


class DeviceClaimTemplate(Construct):
    """The ResourceClaimTemplate object of a `ClaimTemplate`, in a namespace.

    Kubernetes 1.34 and the Neuron DRA driver are needed.
    """

    def __init__(
        self, scope: Construct, id_: str, *, template: ClaimTemplate, namespace: str
    ) -> None:
        super().__init__(scope, id_)
        k8s.KubeResourceClaimTemplate(
            self,
            "Template",
            metadata=k8s.ObjectMeta(name=template.name, namespace=namespace),
            spec=template.spec,
        )


def _corners_elsewhere(placement: Placement, place: int | None) -> list[int]:
    """Return the ids of devices that a claim must not get, so that it gets those of slot `place`.

    A slot is the set of devices of one server, and `place` is its number on its node, from 0. The
    result has one device of each other slot of the node: the rest of such a slot is too small for
    the claim. It is empty if `place` is None, because the claim may then get any slot.
    """
    if place is None:
        return []
    return [device for at, device in enumerate(placement.corner_devices()) if at != place]


def _connected_devices(
    experiment: NeuronExperiment, excluded_devices: Sequence[int]
) -> k8s.DeviceClaim:
    devices = experiment.serving.slot_devices
    # The constraint says that the devices of a claim are connected. A claim of one device must have
    # no constraint: the driver publishes which devices are connected only on nodes with EFA and
    # several devices.
    group = k8s.DeviceConstraint(
        requests=[_REQUEST], match_attribute=f"resource.aws.com/devicegroup{devices}_id"
    )
    return k8s.DeviceClaim(
        requests=[
            k8s.DeviceRequest(
                name=_REQUEST,
                exactly=k8s.ExactDeviceRequest(
                    device_class_name=DRIVER,
                    allocation_mode="ExactCount",
                    count=devices,
                    selectors=[
                        k8s.DeviceSelector(cel=k8s.CelDeviceSelector(expression=expression))
                        for expression in _conditions(experiment, excluded_devices)
                    ],
                ),
            )
        ],
        constraints=[group] if devices > 1 else None,
        config=[_logical_cores(experiment.serving.lnc)],
    )


def _conditions(experiment: NeuronExperiment, excluded_devices: Sequence[int]) -> Iterator[str]:
    """Yield CEL expressions, all of which hold for a device that a claim may get.

    excluded_devices: the ids (`deviceId`) of devices that the claim must not get.
    """
    device = f"device.attributes['{DRIVER}']"
    yield f"{device}.instanceType == '{experiment.instance_type}'"
    if excluded_devices:
        # To exclude another slot of the node, one of its devices is enough: the connected devices
        # that remain of that slot are too few for a claim. No further device is excluded, because
        # the driver, and not this code, decides which devices are connected: if a driver numbers or
        # groups devices in another way than expected here, claims can still be allocated
        # (docs/decisions/0018-repetitions.md).
        yield f"!({device}.deviceId in {list(excluded_devices)})"


def _logical_cores(lnc: int) -> k8s.DeviceClaimConfiguration:
    parameters = {
        "apiVersion": "neuron.aws.com/v1",
        "kind": "NeuronConfig",
        "logicalNeuronCore": lnc,
    }
    opaque = k8s.OpaqueDeviceConfiguration(driver=DRIVER, parameters=parameters)
    return k8s.DeviceClaimConfiguration(requests=[_REQUEST], opaque=opaque)
