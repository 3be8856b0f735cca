"""Which pods may reach which, found by evaluating the network policies as Kubernetes does."""

import copy
import ipaddress
import itertools
from collections.abc import Iterator, Sequence

import pytest

from draftworth.serving.server_command import SERVING_PORT
from tests.charts.rendering import EXPERIMENTS, Object, of_kind, rendered_with

pytestmark = pytest.mark.synth

Labels = dict[str, str]
STRANGER: Labels = {"app.kubernetes.io/name": "curl"}


def matches(selector: Object, labels: Labels) -> bool:
    assert set(selector) <= {"matchLabels"}, "this test does not know matchExpressions"
    wanted: Labels = selector.get("matchLabels", {})
    return wanted.items() <= labels.items()


def isolated_rules(
    policies: Sequence[Object], labels: Labels, direction: str
) -> Iterator[Object] | None:
    """Return the rules of all policies that select a pod in `direction`; None if none selects it.

    direction: `Ingress` or `Egress`. Without a policy a pod may do all.
    """
    spec = [
        policy["spec"]
        for policy in policies
        if matches(policy["spec"]["podSelector"], labels)
        and direction in policy["spec"]["policyTypes"]
    ]
    return (rule for s in spec for rule in s.get(direction.lower(), [])) if spec else None


def has_port(rule: Object, port: int, protocol: str = "TCP") -> bool:
    return {"port": port, "protocol": protocol} in rule["ports"]


def may_leave(policies: Sequence[Object], source: Labels, target: Labels, port: int) -> bool:
    """Return whether the policies of the pod `source` let it connect to the pod `target`.

    source, target: the labels of two pods of the same namespace.
    """
    return _pod_is_allowed(isolated_rules(policies, source, "Egress"), "to", target, port)


def may_enter(policies: Sequence[Object], source: Labels, target: Labels, port: int) -> bool:
    """Return whether the policies of the pod `target` let the pod `source` connect to it.

    source, target: the labels of two pods of the same namespace.
    """
    return _pod_is_allowed(isolated_rules(policies, target, "Ingress"), "from", source, port)


def _pod_is_allowed(rules: Iterator[Object] | None, peers: str, other: Labels, port: int) -> bool:
    return rules is None or any(
        has_port(rule, port)
        and any(
            "podSelector" in peer
            and "namespaceSelector" not in peer
            and matches(peer["podSelector"], other)
            for peer in rule[peers]
        )
        for rule in rules
    )


def pod_may_reach_address(
    policies: Sequence[Object], source: Labels, address: str, port: int
) -> bool:
    """Return whether a pod may connect to an IP address that is not a pod's."""
    rules = isolated_rules(policies, source, "Egress")
    blocks = (
        peer["ipBlock"]
        for rule in rules or []
        if has_port(rule, port)
        for peer in rule["to"]
        if "ipBlock" in peer
    )
    return rules is None or any(_holds(block, address) for block in blocks)


def _holds(block: Object, address: str) -> bool:
    ip = ipaddress.ip_address(address)
    inside = ip in ipaddress.ip_network(block["cidr"])
    return inside and not any(ip in ipaddress.ip_network(c) for c in block.get("except", []))


def pods(kind: str, name: str = "qwen3-32b") -> list[Labels]:
    return [item["spec"]["template"]["metadata"]["labels"] for item in of_kind(kind, name)]


def job_pods(component: str, name: str = "qwen3-32b") -> list[Labels]:
    pod_labels = [p for p in pods("Job", name) if p["app.kubernetes.io/component"] == component]
    assert pod_labels
    return pod_labels


def serving_pods(name: str = "qwen3-32b") -> list[Labels]:
    """Return the labels of the servers' pods, and of the pod that stands in for one."""
    return [*pods("Deployment", name), *job_pods("serving", name)]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_only_the_load_generator_reaches_the_services(name: str) -> None:
    policies = of_kind("NetworkPolicy", name)
    servers, stagers = serving_pods(name), job_pods("checkpoint-stager", name)
    load_generators = job_pods("load-generator", name)
    assert len(load_generators) == 2, "the measuring Job and the canary of its paths"
    for server, load_generator in itertools.product(servers, load_generators):
        assert may_leave(policies, load_generator, server, SERVING_PORT)
        assert may_enter(policies, load_generator, server, SERVING_PORT)
        assert not may_enter(policies, load_generator, server, 22)
        for other in [STRANGER, *servers, *stagers]:
            assert not may_enter(policies, other, server, SERVING_PORT)


def test_a_policy_that_lets_everybody_in_is_noticed() -> None:
    policies = copy.deepcopy(of_kind("NetworkPolicy"))
    (serving,) = [p for p in policies if p["metadata"]["name"] == "serving"]
    serving["spec"]["ingress"][0]["from"].append({"podSelector": {}})
    server = pods("Deployment")[0]
    assert may_enter(policies, STRANGER, server, SERVING_PORT)
    assert may_enter([], STRANGER, server, SERVING_PORT)


def test_only_the_load_generator_reaches_other_pods() -> None:
    policies, servers = of_kind("NetworkPolicy"), serving_pods()
    jobs = [pod for pod in pods("Job") if pod not in servers]
    assert len(jobs) == 6
    for pod, other in itertools.product([STRANGER, *servers, *jobs], repeat=2):
        for port in (22, 80, 443, SERVING_PORT):
            assert other not in jobs or not may_enter(policies, pod, other, port)
            measures = pod in job_pods("load-generator") and other in servers
            if pod != STRANGER:
                leaves = may_leave(policies, pod, other, port)
                assert leaves is (measures and port == SERVING_PORT)


def test_a_stager_without_its_policy_reaches_nothing() -> None:
    policies = [p for p in of_kind("NetworkPolicy") if p["metadata"]["name"] != "stager"]
    (stager, _) = job_pods("checkpoint-stager")
    for address, port in (("52.219.96.1", 443), ("169.254.170.23", 80)):
        assert not pod_may_reach_address(policies, stager, address, port)


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
@pytest.mark.parametrize(
    ("address", "port", "allowed"),
    [
        ("52.219.96.1", 443, True),  # a public address of S3; Hugging Face has such ones too
        ("52.219.96.1", 80, False),
        ("169.254.170.23", 80, True),  # EKS Pod Identity agent
        ("169.254.170.23", 443, False),
        ("169.254.169.254", 80, False),  # instance metadata: the node's credentials
        ("10.0.1.10", 443, "scales"),  # nodes and the Kubernetes API
        ("172.20.0.1", 443, "scales"),
        ("10.0.1.10", 10250, False),  # the kubelet
        ("172.20.0.1", 80, False),
        ("169.254.169.254", 443, False),
    ],
)
def test_pods_reach_s3_and_credentials_alone(
    kind: str, address: str, port: int, *, allowed: bool | str
) -> None:
    """Only the measuring Job's pod, which starts and stops servers, reaches the Kubernetes API."""
    policies = of_kind("NetworkPolicy")
    for labels in pods(kind):
        scales = labels["app.kubernetes.io/component"] == "load-generator"
        expected = scales if allowed == "scales" else allowed
        assert pod_may_reach_address(policies, labels, address, port) is expected


def test_where_servers_stay_nobody_reaches_the_kubernetes_api() -> None:
    objects = rendered_with(repetitions=1, control=False)
    policies = [o for o in objects["foundation"] if o["kind"] == "NetworkPolicy"]
    jobs = [o for chart in objects.values() for o in chart if o["kind"] == "Job"]
    assert len(jobs) == 7
    for job, address in itertools.product(jobs, ("10.0.1.10", "172.20.0.1")):
        labels = job["spec"]["template"]["metadata"]["labels"]
        assert not pod_may_reach_address(policies, labels, address, 443)


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_every_pod_can_look_names_up(kind: str) -> None:
    for labels in pods(kind):
        rules = list(isolated_rules(of_kind("NetworkPolicy"), labels, "Egress") or [])
        assert any(has_port(rule, 53, "UDP") and has_port(rule, 53) for rule in rules)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_service_selects_one_servers_pods(name: str) -> None:
    for service in of_kind("Service", name):
        spec = service["spec"]
        assert spec["type"] == "ClusterIP"
        owners = [*of_kind("Deployment", name), *of_kind("Job", name)]
        (selected,) = (owner for owner in owners if _selects(spec["selector"], owner))
        service_name = service["metadata"]["name"]
        assert (selected["metadata"]["name"] == service_name) is (selected["kind"] == "Deployment")
        assert selected["metadata"]["name"].startswith(service_name)
        (port,) = spec["ports"]
        assert port["port"] == port["targetPort"] == SERVING_PORT


def _selects(selector: Labels, owner: Object) -> bool:
    return matches({"matchLabels": selector}, owner["spec"]["template"]["metadata"]["labels"])
