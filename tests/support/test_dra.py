"""Tests the stand-in for Kubernetes' device allocation (DRA) on claims that no chart makes."""

from typing import Any

import pytest
from celpy.evaluation import CELEvalError

from tests.support import dra

GROUP = "resource.aws.com/devicegroup2_id"


def a_node(groups: str) -> tuple[dra.Device, ...]:
    """Return a node's devices: one for each letter of `groups`; equal letters are connected."""
    devices = []
    for index, group in enumerate(groups):
        attributes = {"instanceType": {"string": "trn2.48xlarge"}, GROUP: {"string": group}}
        devices.append({"name": f"device-{index}", "attributes": attributes})
    return dra.devices_of({"spec": {"driver": "neuron.aws.com", "devices": devices}})


def a_claim(expression: str = "true") -> dict[str, Any]:
    exactly = {
        "deviceClassName": "neuron.aws.com",
        "allocationMode": "ExactCount",
        "count": 2,
        "selectors": [{"cel": {"expression": expression}}],
    }
    return {
        "devices": {
            "requests": [{"name": "r", "exactly": exactly}],
            "constraints": [{"requests": ["r"], "matchAttribute": GROUP}],
        }
    }


def test_a_constraint_on_another_request_does_not_apply() -> None:
    claim = a_claim()
    claim["devices"]["constraints"][0]["requests"] = ["another"]
    assert len(dra.allocate(claim, a_node("abc"))) == 2


def test_a_selector_that_fails_is_an_error() -> None:
    misspelt = "device.attributes['neuron.aws.com'].instancetype == 'trn2.48xlarge'"
    with pytest.raises(CELEvalError):
        dra.allocate(a_claim(misspelt), a_node("aa"))


def test_a_claim_that_is_not_understood_is_refused() -> None:
    claim = a_claim()
    claim["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    with pytest.raises(dra.UnsupportedClaimError, match="adminAccess"):
        dra.allocate(claim, a_node("aa"))
    with pytest.raises(dra.UnallocatableError, match="no device class"):
        dra.allocate(a_claim(), a_node("aa"), classes={})
