"""Checks the test allocator, an assumption about Kubernetes, with cases that a reader can judge."""

from typing import Any

import pytest
from celpy.evaluation import CELEvalError

from tests.support import dra

GROUP = "resource.aws.com/devicegroup2_id"


def a_node(groups: str) -> tuple[dra.Device, ...]:
    """Return one device for each letter; equal letters are connected devices, `-` has no group."""
    devices = []
    for index, group in enumerate(groups):
        attributes: dict[str, Any] = {"instanceType": {"string": "trn2.48xlarge"}}
        if group != "-":
            attributes[GROUP] = {"string": group}
        devices.append({"name": f"device-{index}", "attributes": attributes})
    return dra.devices_of({"spec": {"driver": "neuron.aws.com", "devices": devices}})


def a_claim(*, count: int = 2, expression: str = "true", attribute: str = GROUP) -> dict[str, Any]:
    exactly = {
        "deviceClassName": "neuron.aws.com",
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": [{"cel": {"expression": expression}}],
    }
    return {
        "devices": {
            "requests": [{"name": "r", "exactly": exactly}],
            "constraints": [{"requests": ["r"], "matchAttribute": attribute}],
        }
    }


def names(devices: tuple[dra.Device, ...]) -> list[str]:
    return [device.name for device in devices]


def test_devices_of_one_group_are_taken_together() -> None:
    assert names(dra.allocate(a_claim(), a_node("abba"))) == ["device-0", "device-3"]


def test_enough_free_devices_in_different_groups_do_not_fit() -> None:
    with pytest.raises(dra.UnallocatableError, match="2 wanted; 3 of 3 free"):
        dra.allocate(a_claim(), a_node("abc"))


def test_without_a_constraint_any_devices_fit() -> None:
    claim = a_claim()
    claim["devices"]["constraints"] = []
    assert names(dra.allocate(claim, a_node("abc"))) == ["device-0", "device-1"]


def test_a_device_without_the_attribute_matches_nothing() -> None:
    with pytest.raises(dra.UnallocatableError):
        dra.allocate(a_claim(), a_node("--a"))


def test_a_constraint_on_another_request_does_not_apply() -> None:
    claim = a_claim()
    claim["devices"]["constraints"][0]["requests"] = ["another"]
    assert len(dra.allocate(claim, a_node("abc"))) == 2


def test_a_device_is_given_once() -> None:
    first, second = dra.allocate_all([a_claim(), a_claim()], a_node("aabb"))
    assert names(first) + names(second) == ["device-0", "device-1", "device-2", "device-3"]
    with pytest.raises(dra.UnallocatableError):
        dra.allocate_all([a_claim()] * 3, a_node("aabb"))


def test_a_selector_decides_by_the_drivers_attributes() -> None:
    other = "device.attributes['neuron.aws.com'].instanceType == 'trn1.32xlarge'"
    with pytest.raises(dra.UnallocatableError, match="0 of 2 free"):
        dra.allocate(a_claim(expression=other), a_node("aa"))


def test_a_selector_that_cannot_be_evaluated_is_an_error() -> None:
    misspelt = "device.attributes['neuron.aws.com'].instancetype == 'trn2.48xlarge'"
    with pytest.raises(CELEvalError):
        dra.allocate(a_claim(expression=misspelt), a_node("aa"))


def test_a_claim_that_is_not_understood_is_refused() -> None:
    claim = a_claim()
    claim["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    with pytest.raises(dra.UnsupportedClaimError, match="adminAccess"):
        dra.allocate(claim, a_node("aa"))
    with pytest.raises(dra.UnallocatableError, match="no device class"):
        dra.allocate(a_claim(), a_node("aa"), classes={})
