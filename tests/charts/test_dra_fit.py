"""The synthesized claims against the devices that the driver publishes for one node."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.rendering import EXPERIMENTS, Object, render, rendered
from tests.support.dra import Device, UnallocatableError, allocate_all, devices_of
from tests.support.experiments import on_small_nodes, resolved

pytestmark = pytest.mark.synth

FIXTURES = Path(__file__).parent / "fixtures"
EIGHT = "resource.aws.com/devicegroup8_id"


def node_of(instance_type: str) -> tuple[Device, ...]:
    """Its devices; of trn2.3xlarge as the driver's documentation lets expect them: nobody published
    such a slice."""
    text = (FIXTURES / f"resourceslice-{instance_type}.yaml").read_text(encoding="utf-8")
    return devices_of(yaml.safe_load(text))


@pytest.fixture
def node() -> tuple[Device, ...]:
    devices = node_of("trn2.48xlarge")
    assert len(devices) == 16
    return devices


def claims_of_pods(name: str = "qwen3-32b") -> list[Object]:
    return claims_in(rendered(name)["serving"])


def claims_in(objects: list[Object]) -> list[Object]:
    """The claim that each serving pod gets, found the way Kubernetes finds it."""
    templates = {t["metadata"]["name"]: t for t in objects if t["kind"] == "ResourceClaimTemplate"}
    claims = []
    for deployment in (item for item in objects if item["kind"] == "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        (claim,) = pod["resourceClaims"]
        assert pod["containers"][0]["resources"]["claims"] == [{"name": claim["name"]}]
        claims.append(templates[claim["resourceClaimTemplateName"]]["spec"]["spec"])
    return claims


def groups(allocation: tuple[Device, ...]) -> set[Any]:
    return {device.attribute(EIGHT) for device in allocation}


def test_two_services_fit_one_node_on_different_device_groups(node: tuple[Device, ...]) -> None:
    first, second = allocate_all(claims_of_pods(), node)
    assert len(first) == len(second) == 8
    assert len(groups(first)) == len(groups(second)) == 1
    assert groups(first) != groups(second)


def test_a_third_service_does_not_fit(node: tuple[Device, ...]) -> None:
    with pytest.raises(UnallocatableError, match="8 wanted; 0 of 0 free"):
        allocate_all([*claims_of_pods(), claims_of_pods()[0]], node)


def test_eight_devices_of_two_groups_are_no_slot(node: tuple[Device, ...]) -> None:
    # Five free devices in each group: ten in all, and no eight that are connected.
    first, second = sorted({device.attribute(EIGHT) for device in node})
    scattered = [
        device
        for group in (first, second)
        for device in [d for d in node if d.attribute(EIGHT) == group][:5]
    ]
    with pytest.raises(UnallocatableError, match="10 of 10 free devices fit"):
        allocate_all(claims_of_pods()[:1], scattered)


def test_another_instance_type_is_not_taken(node: tuple[Device, ...]) -> None:
    claim = copy.deepcopy(claims_of_pods()[0])
    (selector,) = claim["devices"]["requests"][0]["exactly"]["selectors"]
    selector["cel"]["expression"] = selector["cel"]["expression"].replace("trn2", "trn1")
    with pytest.raises(UnallocatableError, match="0 of 16 free devices fit"):
        allocate_all([claim], node)


def test_a_device_of_no_group_is_enough_for_a_slot_of_one() -> None:
    small = on_small_nodes(resolved("llama-3.1-8b-eagle3"))
    claims = claims_in(render(small)["serving"])
    assert small.placement.nodes == len(claims) == 2
    for claim in claims:
        assert "constraints" not in claim["devices"]
        ((device,),) = allocate_all([claim], node_of("trn2.3xlarge"))
        assert device.name == "neuron-device-0"
    with pytest.raises(UnallocatableError):
        allocate_all(claims, node_of("trn2.3xlarge"))


def test_a_slot_of_one_that_asked_for_a_group_would_wait_for_ever() -> None:
    small = on_small_nodes(resolved("llama-3.1-8b-eagle3"))
    claim = copy.deepcopy(claims_in(render(small)["serving"])[0])
    (request,) = claim["devices"]["requests"]
    group = {"requests": [request["name"]], "matchAttribute": "resource.aws.com/devicegroup1_id"}
    claim["devices"]["constraints"] = [group]
    with pytest.raises(UnallocatableError, match="1 of 1 free devices fit"):
        allocate_all([claim], node_of("trn2.3xlarge"))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_node_holds_the_slots_that_are_placed_on_it(name: str) -> None:
    placement, node = resolved(name).placement, node_of(resolved(name).spec.instance_type)
    claims = dict(zip(placement.slots, claims_of_pods(name), strict=True))
    for number in range(placement.nodes):
        slots = [slot for slot in placement.slots if slot.node == number]
        allocations = allocate_all([claims[slot] for slot in slots], node)
        assert [len(a) for a in allocations] == [slot.devices for slot in slots]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_claim_sets_the_experiments_logical_cores(name: str) -> None:
    (config,) = claims_of_pods(name)[0]["devices"]["config"]
    assert config["opaque"] == {
        "driver": "neuron.aws.com",
        "parameters": {
            "apiVersion": "neuron.aws.com/v1",
            "kind": "NeuronConfig",
            "logicalNeuronCore": resolved(name).spec.serving.lnc,
        },
    }
