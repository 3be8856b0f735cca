"""The real scheduler gives pods the right nodes and devices.

The devices are those of a ResourceSlice that the Neuron driver published on a trn2.48xlarge.
"""

import asyncio
import copy
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from charts.names import (
    MEASURING_JOB_SERVICE_ACCOUNT,
    NAMESPACE,
    SERVER_LABEL,
    SERVING_COMPONENT,
    server_names,
)
from charts.run_spec_file import run_spec_file
from draftworth.measuring.run_specification import Endpoint, RunSpec
from draftworth.records.codec import load_record
from pods.measuring.kubernetes_servers import KubernetesApi, KubernetesServers
from tests.charts.rendering import all_objects
from tests.cluster.api import Api, Object, of_component, path_of, path_of_object
from tests.cluster.nodes import NodeKind, Nodes, node_kinds, nodes_of, recorded_slice
from tests.pods.compiled_graphs.pods import eventually
from tests.stacks.synthesis import synthesis
from tests.support.experiments import resolved

pytestmark = [pytest.mark.synth]

CONNECTED = "resource.aws.com/devicegroup8_id"
ACCELERATOR = "ip-10-0-1-10.us-east-2.compute.internal"
DEVICES_PER_SLOT = 8


@pytest.fixture
def nodes(api: Api) -> Iterator[Nodes]:
    with nodes_of(api) as made:
        yield made


@pytest.fixture(scope="module")
def kinds() -> Mapping[str, NodeKind]:
    experiment = resolved()
    return node_kinds(
        synthesis().template(experiment.name, "cluster"),
        experiment.spec.accelerator,
        experiment.spec.instance_type,
        experiment.spec.aws.availability_zone,
    )


@pytest.fixture
def applied(api: Api, nodes: Nodes, kinds: Mapping[str, NodeKind]) -> Nodes:
    """Create the objects of qwen3-32b and two CPU nodes; return the nodes.

    There is no accelerator node.
    """
    api.create(*all_objects())
    for name in ("cpu-1", "cpu-2"):
        nodes.join(name, kinds["cpu"])
    return nodes


@pytest.fixture
def joined(applied: Nodes, kinds: Mapping[str, NodeKind]) -> Nodes:
    """Add an accelerator node to the cluster with the objects of qwen3-32b; return the nodes."""
    applied.join(ACCELERATOR, kinds["accelerator"])
    return applied


def pods(api: Api, component: str) -> dict[str, Object]:
    selected = api.all("Pod", labelSelector=of_component(component))
    return {_owner(pod): pod for pod in selected}


def _owner(pod: Object) -> str:
    labels: Mapping[str, str] = pod["metadata"]["labels"]
    return labels.get("draftworth/variant") or labels["batch.kubernetes.io/job-name"]


def node_of(pod: Object) -> str | None:
    name: str | None = pod["spec"].get("nodeName")
    return name


def why_pending(pod: Object) -> str:
    """Return why the scheduler cannot place a pod; empty before its first attempt."""
    conditions = pod.get("status", {}).get("conditions", ())
    return next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")


def are_placed(api: Api, component: str, count: int) -> dict[str, Object]:
    def placed() -> dict[str, Object]:
        with_node = {k: p for k, p in pods(api, component).items() if node_of(p)}
        return with_node if len(with_node) == count else {}

    return dict(eventually(placed))


def is_kept_waiting(api: Api, variant: str, reason: str) -> None:
    """Wait until the scheduler gives `reason` for not placing the pod of a variant.

    At its first attempt there may be no nodes yet, so the first reason may be another one.
    """

    def kept_waiting() -> bool:
        pod = pods(api, "serving").get(variant)
        return pod is not None and not node_of(pod) and reason in why_pending(pod)

    eventually(kept_waiting)


def allocated(api: Api) -> dict[str, list[str]]:
    return {
        claim["metadata"]["ownerReferences"][0]["name"]: [
            device["device"] for device in claim["status"]["allocation"]["devices"]["results"]
        ]
        for claim in api.all("ResourceClaim")
        if "allocation" in claim.get("status", {})
    }


def third_server() -> Object:
    """Return the Deployment of a third server, which requests nothing but devices."""
    third: Object = copy.deepcopy(next(i for i in all_objects() if i["kind"] == "Deployment"))
    labels = {**SERVING_COMPONENT, "draftworth/variant": "third", SERVER_LABEL: "vllm-third"}
    third["metadata"]["name"] = "vllm-third"
    third["spec"]["selector"]["matchLabels"] = labels
    template = third["spec"]["template"]
    template["metadata"]["labels"] = labels
    claims = template["spec"]["containers"][0]["resources"]["claims"]
    for container in template["spec"]["containers"]:
        container["resources"] = {}
    template["spec"]["containers"][0]["resources"] = {"claims": claims}
    return third


def test_without_accelerators_servers_and_the_job_wait(api: Api, applied: Nodes) -> None:
    stagers = are_placed(api, "checkpoint-stager", 2)
    assert {node_of(pod) for pod in stagers.values()} <= {"cpu-1", "cpu-2"}
    for variant in ("baseline", "qwen3-1.7b-k7"):
        is_kept_waiting(api, variant, "0/2 nodes are available")
    (measuring,) = pods(api, "load-generator").values()
    assert node_of(measuring) is None
    assert allocated(api) == {}


def test_with_nodes_each_server_gets_connected_devices(api: Api, joined: Nodes) -> None:
    servers = are_placed(api, "serving", 2)
    assert {node_of(pod) for pod in servers.values()} == {ACCELERATOR}
    claims = allocated(api)
    assert sorted(claims) == sorted(pod["metadata"]["name"] for pod in servers.values())
    assert [len(set(devices)) for devices in claims.values()] == [DEVICES_PER_SLOT] * 2
    assert not set.intersection(*(set(devices) for devices in claims.values()))
    for devices in claims.values():
        assert len({_groups()[device] for device in devices}) == 1
    # The measuring Job, which waited for the servers, does not run on their node.
    (measuring,) = are_placed(api, "load-generator", 1).values()
    assert node_of(measuring) in {"cpu-1", "cpu-2"}


def _groups() -> dict[str, str]:
    devices = recorded_slice("x")["spec"]["devices"]
    return {d["name"]: d["attributes"][CONNECTED]["string"] for d in devices}


def test_a_third_server_waits_until_devices_are_free(api: Api, joined: Nodes) -> None:
    are_placed(api, "serving", 2)
    api.create(third_server())
    is_kept_waiting(api, "third", "cannot allocate all claims")
    api.delete(path_of("Deployment", "vllm-baseline"))
    eventually(lambda: _ended(api, "baseline"))
    assert set(are_placed(api, "serving", 2)) == {"third", "qwen3-1.7b-k7"}


def _ended(api: Api, variant: str) -> bool:
    """Delete a variant's pod for good if it is being deleted, as its kubelet would.

    Return whether the pod is gone.
    """
    pod = pods(api, "serving").get(variant)
    if pod and "deletionTimestamp" in pod["metadata"]:
        api.delete(path_of_object(pod), grace_seconds=0)
    return pod is None


@pytest.mark.parametrize(
    ("lacking", "reason"),
    # If an attribute of a selector is missing, the scheduler reports that error; if that of the
    # constraint is missing, it reports that it cannot allocate.
    [(CONNECTED, "cannot allocate all claims"), ("instanceType", "no such key: instanceType")],
)
def test_devices_without_a_needed_attribute_are_not_taken(
    api: Api, applied: Nodes, kinds: Mapping[str, NodeKind], lacking: str, reason: str
) -> None:
    """Without an EFA interface the driver publishes no attribute of connected devices."""
    other: Any = recorded_slice(ACCELERATOR)
    for device in other["spec"]["devices"]:
        del device["attributes"][lacking]
    applied.join(ACCELERATOR, kinds["accelerator"], resource_slice=other)
    is_kept_waiting(api, "baseline", reason)
    assert allocated(api) == {}


def test_what_tolerates_nothing_keeps_off_the_accelerator_nodes(
    api: Api, nodes: Nodes, kinds: Mapping[str, NodeKind]
) -> None:
    """The taint of accelerator nodes is enough to keep Jobs off them, without node selectors."""
    # The canaries' volumes are created too, because the scheduler checks volumes before taints.
    volumes = ("PersistentVolume", "PersistentVolumeClaim")
    wanted = ("Namespace", "ServiceAccount", *volumes)
    api.create(*(i for i in all_objects() if i["kind"] in wanted))
    jobs = [copy.deepcopy(i) for i in all_objects() if i["kind"] == "Job"]
    assert len(jobs) >= 3
    for job in jobs:
        for key in ("nodeSelector", "affinity"):
            job["spec"]["template"]["spec"].pop(key, None)
    nodes.join(ACCELERATOR, kinds["accelerator"])
    api.create(*jobs)

    def kept_off() -> list[Object]:
        tainted_off = [pod for pod in api.all("Pod") if "untolerated taint" in why_pending(pod)]
        return tainted_off if len(tainted_off) == len(jobs) else []

    assert [node_of(pod) for pod in eventually(kept_off)] == [None] * len(jobs)


def test_servers_start_on_no_node_of_another_type(
    api: Api, applied: Nodes, kinds: Mapping[str, NodeKind]
) -> None:
    """A node of another type stays empty though it has free devices of the same kind.

    Claims require devices of the instance type, and pods require the node's label with the type.
    """
    labels = {**kinds["accelerator"].labels, "node.kubernetes.io/instance-type": "trn1.32xlarge"}
    other = NodeKind(
        labels=labels,
        taints=(),
        capacity=kinds["accelerator"].capacity,
        has_devices=True,
    )
    applied.join(ACCELERATOR, other)
    is_kept_waiting(api, "baseline", "/3 nodes")
    assert allocated(api) == {}


@pytest.fixture
def kubernetes(api: Api, applied: Nodes, tmp_path: Path) -> KubernetesServers:
    """Return the client with which the measuring pod starts and stops servers.

    It has a token of the pod's own service account.
    """
    (tmp_path / "token").write_text(api.token_of(MEASURING_JOB_SERVICE_ACCOUNT))
    (tmp_path / "namespace").write_text(NAMESPACE)
    (tmp_path / "ca.crt").write_bytes(api.certificate.read_bytes())
    return KubernetesServers(
        api=KubernetesApi(url=api.url, folder=tmp_path),
        names=server_names(resolved()),
        log=lambda _: None,
    )


def endpoints_of(repetition: int) -> tuple[Endpoint, ...]:
    spec = load_record(RunSpec, run_spec_file(resolved()).data)
    return spec.in_repetition(repetition)


def sides(api: Api, names: Iterable[str]) -> dict[str, set[int]]:
    """Return {server: numbers of its devices}, once exactly the servers `names` have devices.

    Pods that are being deleted are ended, as their kubelet would do it.
    """
    wanted = set(names)

    def devices_by_server() -> dict[str, set[int]]:
        devices = allocated(api)
        servers = {}
        for pod in api.all("Pod", labelSelector=of_component("serving")):
            if "deletionTimestamp" in pod["metadata"]:
                api.delete(path_of_object(pod), grace_seconds=0)
            elif pod["metadata"]["name"] in devices:
                name = pod["metadata"]["labels"][SERVER_LABEL]
                device_names = devices[pod["metadata"]["name"]]
                servers[name] = {int(device.rpartition("-")[2]) for device in device_names}
        return servers if set(servers) == wanted else {}

    return dict(eventually(devices_by_server))


def test_a_swap_moves_both_servers_to_other_devices(
    api: Api, joined: Nodes, kubernetes: KubernetesServers
) -> None:
    """In every second repetition the servers of both variants run in the other variant's slot."""
    low, high = set(range(8)), set(range(8, 16))
    at_first = {"vllm-baseline": low, "vllm-qwen3-1-7b-k7": high}
    swapped = {"slot1-vllm-baseline": high, "slot0-vllm-qwen3-1-7b-k7": low}
    assert sides(api, at_first) == at_first
    for repetition, expected in ((2, swapped), (3, at_first)):
        endpoints = endpoints_of(repetition)
        asyncio.run(kubernetes.run_only(endpoints, restart=True))
        assert sides(api, expected) == expected
        assert {e.server for e in endpoints} == set(expected)


def test_a_restart_in_place_is_another_pod(
    api: Api, joined: Nodes, kubernetes: KubernetesServers
) -> None:
    names = [endpoint.server for endpoint in endpoints_of(1)]
    sides(api, names)
    before = {pod["metadata"]["uid"] for pod in pods(api, "serving").values()}
    asyncio.run(kubernetes.run_only(endpoints_of(1), restart=False))
    assert {pod["metadata"]["uid"] for pod in pods(api, "serving").values()} == before
    asyncio.run(kubernetes.run_only(endpoints_of(1), restart=True))
    eventually(lambda: sides(api, names) and not _uids(api) & before)


def _uids(api: Api) -> set[str]:
    return {
        p["metadata"]["uid"] for p in api.all("Pod") if "deletionTimestamp" not in p["metadata"]
    }


def test_a_stopped_server_frees_its_slot_for_another(
    api: Api, joined: Nodes, kubernetes: KubernetesServers
) -> None:
    """In a run's control the baseline is measured against itself: two servers of it run.

    The other variant's server is stopped, and the second baseline server gets its slot.
    """
    baseline, control = endpoints_of(1)[0], endpoints_of(2)[0]
    asyncio.run(kubernetes.run_only([baseline, control], restart=False))
    devices = sides(api, [baseline.server, control.server])
    assert devices == {"vllm-baseline": set(range(8)), "slot1-vllm-baseline": set(range(8, 16))}
