"""The pods' device claims can be allocated from the devices that the Neuron driver publishes."""

import copy
import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.names import server_name
from tests.charts import rendering
from tests.support.dra import Device, UnallocatableError, allocate_all, devices_of
from tests.support.experiments import on_small_nodes, resolved, with_third_variant

pytestmark = pytest.mark.synth

FIXTURES = Path(__file__).parent / "fixtures"
EIGHT = "resource.aws.com/devicegroup8_id"


@cache
def node_of(instance_type: str) -> tuple[Device, ...]:
    """Return the devices that the Neuron driver publishes on a node of this instance type.

    Those of trn2.3xlarge are an assumption by the driver's documentation, because no ResourceSlice
    of such a node has been published.
    """
    text = (FIXTURES / f"resourceslice-{instance_type}.yaml").read_text(encoding="utf-8")
    return devices_of(yaml.safe_load(text))


@pytest.fixture
def node() -> tuple[Device, ...]:
    devices = node_of("trn2.48xlarge")
    assert len(devices) == 16
    return devices


def claims_at_start(name: str) -> dict[str, rendering.Object]:
    """Return the device claims of the servers that run from the start, {server: claim}."""
    return claims_in(rendering.homes(rendering.all_objects(name)), rendering.all_objects(name))


def claims_of_pods(name: str = "qwen3-32b") -> list[rendering.Object]:
    return list(claims_at_start(name).values())


def claims_in(
    servers: list[rendering.Object], objects: list[rendering.Object]
) -> dict[str, rendering.Object]:
    """Return {server: the claim that its pod gets}, found by the claim template's name."""
    templates = {t["metadata"]["name"]: t for t in objects if t["kind"] == "ResourceClaimTemplate"}
    claims = {}
    for deployment in servers:
        pod = deployment["spec"]["template"]["spec"]
        (claim,) = pod["resourceClaims"]
        assert pod["containers"][0]["resources"]["claims"] == [{"name": claim["name"]}]
        template = templates[claim["resourceClaimTemplateName"]]
        claims[deployment["metadata"]["name"]] = template["spec"]["spec"]
    return claims


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


def sides(objects: list[rendering.Object], node: tuple[Device, ...]) -> dict[str, set[Any]]:
    """Return {server: the ids of the devices that it gets}.

    First the two servers that run from the start are allocated on the empty node, then, again on
    the empty node, the other two.
    """
    ids_by_server: dict[str, set[Any]] = {}
    for at_first in (True, False):
        servers = [
            o
            for o in objects
            if o["kind"] == "Deployment" and bool(o["spec"]["replicas"]) is at_first
        ]
        claims = claims_in(servers, objects)
        devices = allocate_all(claims.values(), node)
        numbers = ({d.attribute("neuron.aws.com/deviceId") for d in a} for a in devices)
        ids_by_server |= dict(zip(claims, numbers, strict=True))
    return ids_by_server


def in_other_groups(node: tuple[Device, ...], group: Callable[[int], object]) -> tuple[Device, ...]:
    """Return the node's devices in other groups of connected devices than a real node's.

    group: returns the group's id for the id of a device.
    """
    changed_node = []
    for device in node:
        number = device.attribute("neuron.aws.com/deviceId")
        attributes = {domain: dict(values) for domain, values in device.attributes.items()}
        domain, _, name = EIGHT.partition("/")
        attributes[domain][name] = str(group(number))
        changed_node.append(dataclasses.replace(device, attributes=attributes))
    return tuple(changed_node)


@pytest.mark.parametrize("backwards", [False, True])
def test_servers_swap_slots_in_any_order(node: tuple[Device, ...], *, backwards: bool) -> None:
    objects = list(rendering.rendered()["serving"])
    if backwards:
        objects, node = objects[::-1], node[::-1]
    low, high = set(range(8)), set(range(8, 16))
    assert sides(objects, node) == {
        "vllm-baseline": low,
        "vllm-qwen3-1-7b-k7": high,
        "slot1-vllm-baseline": high,
        "slot0-vllm-qwen3-1-7b-k7": low,
    }


@pytest.mark.parametrize(
    "group",
    [
        lambda n: n % 2,  # every second device
        lambda n: n % 4 // 2,  # columns of the torus and not rows
        lambda n: n // 4 % 2,  # every second row
    ],
)
def test_servers_swap_slots_with_other_groups(node: tuple[Device, ...], group: Any) -> None:
    other = in_other_groups(node, group)
    ids_by_server = sides(rendering.rendered()["serving"], other)
    assert ids_by_server["vllm-baseline"] == ids_by_server["slot0-vllm-qwen3-1-7b-k7"]
    assert ids_by_server["vllm-qwen3-1-7b-k7"] == ids_by_server["slot1-vllm-baseline"]
    assert not ids_by_server["vllm-baseline"] & ids_by_server["vllm-qwen3-1-7b-k7"]


def test_other_device_numbers_keep_no_server_out(
    node: tuple[Device, ...],
) -> None:
    """With unexpected device ids a claim excludes no slot, but each server still gets one."""
    other = []
    for device in node:
        attributes = {domain: dict(values) for domain, values in device.attributes.items()}
        attributes["neuron.aws.com"]["deviceId"] += 100
        other.append(dataclasses.replace(device, attributes=attributes))
    assert len(sides(rendering.rendered()["serving"], tuple(other))) == 4


def test_the_control_takes_the_free_slot(node: tuple[Device, ...]) -> None:
    objects = rendering.rendered_with(repetitions=1, control=True)["serving"]
    servers = [o for o in objects if o["kind"] == "Deployment"]
    names = [server["metadata"]["name"] for server in servers]
    assert names == ["vllm-baseline", "slot1-vllm-baseline", "vllm-qwen3-1-7b-k7"]
    claims = claims_in(servers, objects)
    baseline, control = allocate_all([claims[name] for name in names[:2]], node)
    (down,) = allocate_all([claims[names[2]]], node)
    assert control == down != baseline


def test_three_variants_fit_two_nodes_at_both_times(
    node: tuple[Device, ...],
) -> None:
    """At any time at most two servers claim slot 0 of a node, and two slot 1; two nodes have both.

    The scheduler chooses the node.
    """
    objects = rendering.render(with_third_variant(resolved()))["serving"]
    places = []
    for at_first in (1, 0):
        servers = [
            o for o in objects if o["kind"] == "Deployment" and o["spec"]["replicas"] == at_first
        ]
        claims = claims_in(servers, objects)
        places.append(["0" if "[15]" in str(claim) else "1" for claim in claims.values()])
    assert places == [["0", "1", "0"], ["1", "0", "0"]]


def test_servers_that_stay_claim_any_slot() -> None:
    objects = rendering.rendered_with(repetitions=1, control=False)["serving"]
    (template,) = (o for o in objects if o["kind"] == "ResourceClaimTemplate")
    assert "deviceId" not in str(template)
    assert len([o for o in objects if o["kind"] == "Deployment"]) == 2


def test_another_instance_type_is_not_taken(node: tuple[Device, ...]) -> None:
    claim = copy.deepcopy(claims_of_pods()[0])
    selector = claim["devices"]["requests"][0]["exactly"]["selectors"][0]
    selector["cel"]["expression"] = selector["cel"]["expression"].replace("trn2", "trn1")
    with pytest.raises(UnallocatableError, match="0 of 16 free devices fit"):
        allocate_all([claim], node)


def test_one_device_needs_no_group() -> None:
    small = on_small_nodes(resolved("llama-3.1-8b-eagle3"))
    objects = rendering.render(small)["serving"]
    claims = list(claims_in(rendering.homes(objects), objects).values())
    assert small.placement.nodes == len(claims) == 2
    for claim in claims:
        assert "constraints" not in claim["devices"]
        ((device,),) = allocate_all([claim], node_of("trn2.3xlarge"))
        assert device.name == "neuron-device-0"
    with pytest.raises(UnallocatableError):
        allocate_all(claims, node_of("trn2.3xlarge"))


def test_one_device_of_a_group_is_never_allocated() -> None:
    small = on_small_nodes(resolved("llama-3.1-8b-eagle3"))
    objects = rendering.render(small)["serving"]
    claim = copy.deepcopy(next(iter(claims_in(rendering.homes(objects), objects).values())))
    (request,) = claim["devices"]["requests"]
    group = {"requests": [request["name"]], "matchAttribute": "resource.aws.com/devicegroup1_id"}
    claim["devices"]["constraints"] = [group]
    with pytest.raises(UnallocatableError, match="1 of 1 free devices fit"):
        allocate_all([claim], node_of("trn2.3xlarge"))


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_every_node_holds_its_slots(name: str) -> None:
    placement, node = resolved(name).placement, node_of(resolved(name).spec.instance_type)
    claims = claims_at_start(name)
    assert len(claims) == placement.held
    for number in range(placement.nodes):
        slots = [s for s in placement.slots if s.node == number and server_name(s) in claims]
        allocations = allocate_all([claims[server_name(slot)] for slot in slots], node)
        assert [len(a) for a in allocations] == [slot.devices for slot in slots]
