"""Allocates one node's devices to resource claims, as the Kubernetes scheduler does (DRA).

It knows as much of the API resource.k8s.io/v1 as a claim with one exact request needs: device
classes, CEL selectors, match attributes and counts. It refuses any claim that has something else,
so that no claim passes unchecked.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import celpy
from celpy.adapter import json_to_cel

# What the driver's Helm chart installs: the class of every device that the driver publishes.
NEURON_CLASSES: Mapping[str, str] = {"neuron.aws.com": "device.driver == 'neuron.aws.com'"}

_KNOWN_CLAIM_KEYS = {"requests", "constraints", "config"}
_KNOWN_REQUEST_KEYS = {"deviceClassName", "allocationMode", "count", "selectors"}


class UnallocatableError(Exception):
    """No free devices of the node fit the claim."""


class UnsupportedClaimError(Exception):
    """The claim uses something that this allocator does not know."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """One device of a ResourceSlice; `attributes` are by domain, then by name in the domain."""

    name: str
    driver: str
    attributes: Mapping[str, Mapping[str, Any]]

    def attribute(self, qualified_name: str) -> Any:
        domain, _, name = qualified_name.partition("/")
        return self.attributes.get(domain, {}).get(name)


def devices_of(resource_slice: Mapping[str, Any]) -> tuple[Device, ...]:
    """Return the devices of a ResourceSlice. A name without a domain is in the driver's domain."""
    spec = resource_slice["spec"]
    return tuple(_device(device, spec["driver"]) for device in spec["devices"])


def _device(device: Mapping[str, Any], driver: str) -> Device:
    attributes: dict[str, dict[str, Any]] = defaultdict(dict)
    for qualified_name, typed in device["attributes"].items():
        domain, _, name = qualified_name.rpartition("/")
        (attributes[domain or driver][name],) = typed.values()
    return Device(name=device["name"], driver=driver, attributes=attributes)


def allocate(
    claim_spec: Mapping[str, Any],
    free: Sequence[Device],
    *,
    classes: Mapping[str, str] = NEURON_CLASSES,
) -> tuple[Device, ...]:
    """Return the devices that one claim gets, out of the free devices.

    classes: for each known device class, the CEL expression that its devices must fulfil.

    Raises:
        UnallocatableError: too few free devices fit.
        UnsupportedClaimError: the claim has something that this allocator does not know.
    """
    devices = claim_spec["devices"]
    request = _only_request(devices)
    exactly = request["exactly"]
    if exactly["deviceClassName"] not in classes:
        raise UnallocatableError(f"no device class {exactly['deviceClassName']}")
    selectors = [classes[exactly["deviceClassName"]]]
    selectors += [selector["cel"]["expression"] for selector in exactly.get("selectors", [])]
    fitting = [d for d in free if all(_selects(expression, d) for expression in selectors)]
    for group in _connected(fitting, _match_attributes(devices, request["name"])):
        if len(group) >= exactly["count"]:
            return tuple(group[: exactly["count"]])
    raise UnallocatableError(
        f"{exactly['count']} wanted; {len(fitting)} of {len(free)} free devices fit the selectors"
    )


def allocate_all(
    claim_specs: Iterable[Mapping[str, Any]], devices: Sequence[Device]
) -> list[tuple[Device, ...]]:
    """Return the devices of each claim; the claims get them one after another on one node.

    UnallocatableError is raised if no free devices are left that fit a claim.
    """
    free = list(devices)
    allocations = []
    for claim_spec in claim_specs:
        allocation = allocate(claim_spec, free)
        free = [device for device in free if device not in allocation]
        allocations.append(allocation)
    return allocations


def _only_request(devices: Mapping[str, Any]) -> Mapping[str, Any]:
    requests: Sequence[Mapping[str, Any]] = devices["requests"]
    if len(requests) != 1 or "exactly" not in requests[0] or set(devices) - _KNOWN_CLAIM_KEYS:
        raise UnsupportedClaimError("only claims with one exact request")
    exactly = requests[0]["exactly"]
    if set(exactly) - _KNOWN_REQUEST_KEYS or exactly["allocationMode"] != "ExactCount":
        raise UnsupportedClaimError(f"an exact request with {sorted(exactly)}")
    return requests[0]


def _match_attributes(devices: Mapping[str, Any], request: str) -> list[str]:
    """Return the attributes in which all devices of the request `request` must be equal.

    A constraint without `requests` applies to every request of the claim.
    """
    return [
        constraint["matchAttribute"]
        for constraint in devices.get("constraints", [])
        if request in constraint.get("requests", [request])
    ]


def _connected(devices: Iterable[Device], attributes: Sequence[str]) -> list[list[Device]]:
    """Group devices with equal attributes; leave out a device that lacks any of the attributes."""
    groups: dict[tuple[Any, ...], list[Device]] = defaultdict(list)
    for device in devices:
        values = tuple(device.attribute(attribute) for attribute in attributes)
        if None not in values:
            groups[values].append(device)
    return list(groups.values())


def _selects(expression: str, device: Device) -> bool:
    """Return whether a CEL expression selects the device.

    An error of the expression is raised, because the scheduler too gives up at such an error.
    """
    value = {"driver": device.driver, "attributes": device.attributes}
    result = _program(expression).evaluate({"device": json_to_cel(value)})
    if isinstance(result, Exception):
        raise result
    return bool(result)


@cache
def _program(expression: str) -> Any:
    environment = celpy.Environment()
    return environment.program(environment.compile(expression))
