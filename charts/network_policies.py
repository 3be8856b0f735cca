"""The network policies of the namespace: what each kind of pod may reach, and who reaches it."""

from collections.abc import Mapping, Sequence

from cdk8s_plus_35 import k8s
from constructs import Construct

from charts import names
from draftworth.serving.server_command import SERVING_PORT

# Addresses of pods, nodes and interfaces in a VPC.
_PRIVATE = ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16")
# Link-local addresses: the metadata service's and the Pod Identity agent's are among them.
_LINK_LOCAL = "169.254.0.0/16"
# The agent that gives a pod the credentials of its EKS Pod Identity role.
_POD_IDENTITY_AGENT = "169.254.170.23/32"


class NetworkPolicies(Construct):
    """A policy for each kind of pod, and one that denies all traffic that no other policy allows.

    calls_kubernetes: whether the measuring Job starts and stops servers.
    """

    def __init__(self, scope: Construct, id_: str, *, calls_kubernetes: bool) -> None:
        super().__init__(scope, id_)
        self._policy("default-deny", {}, ingress=None, egress=None)
        outside = [_dns(), _credentials(), _public_https()]
        # No pod can connect to a stager or a canary. They can connect to DNS, to the Pod Identity
        # agent for credentials, and to port 443 of all public addresses, because model hubs have no
        # fixed addresses.
        self._policy("stager", names.STAGER_COMPONENT, ingress=[], egress=outside)
        self._policy("canary", names.CANARY_COMPONENT, ingress=[], egress=outside)
        # Servers are reached by the measuring Job; the kubelet's probes come from the pod's own
        # node, which a network policy never blocks. Servers may reach DNS, their pod's credentials
        # and S3, because the server's pod uploads compiled graphs. (Checkpoints and artifacts are
        # read by the S3 driver's own pods.) A policy applies to the whole pod, so vLLM can reach
        # what the uploader needs. The Neuron runtime reads the instance type from /sys and not from
        # the metadata service, which stays blocked, and with it the node's credentials.
        from_measuring = k8s.NetworkPolicyIngressRule(
            from_=[_pods(names.MEASURING_JOB_COMPONENT)], ports=[_port(SERVING_PORT)]
        )
        self._policy("serving", names.SERVING_COMPONENT, ingress=[from_measuring], egress=outside)
        # No pod can connect to the measuring Job's pod. It can connect to DNS, to the servers, to
        # the Pod Identity agent for credentials, and to S3.
        to_servers = _to(_pods(names.SERVING_COMPONENT), ports=[_port(SERVING_PORT)])
        allowed = [_dns(), to_servers, _credentials(), _public_https()]
        if calls_kubernetes:
            allowed.append(_kubernetes_api())
        component = names.MEASURING_JOB_COMPONENT
        self._policy("load-generator", component, ingress=[], egress=allowed)

    def _policy(
        self,
        name: str,
        pod_labels: Mapping[str, str],
        *,
        ingress: Sequence[k8s.NetworkPolicyIngressRule] | None,
        egress: Sequence[k8s.NetworkPolicyEgressRule] | None,
    ) -> None:
        k8s.KubeNetworkPolicy(
            self,
            name,
            metadata=k8s.ObjectMeta(name=name, namespace=names.NAMESPACE),
            spec=k8s.NetworkPolicySpec(
                pod_selector=_selector(pod_labels),
                policy_types=["Ingress", "Egress"],
                ingress=ingress,
                egress=egress,
            ),
        )


def _dns() -> k8s.NetworkPolicyEgressRule:
    servers = k8s.NetworkPolicyPeer(
        namespace_selector=_selector({"kubernetes.io/metadata.name": "kube-system"}),
        pod_selector=_selector({"k8s-app": "kube-dns"}),
    )
    return _to(servers, ports=[_port(53, "UDP"), _port(53)])


def _credentials() -> k8s.NetworkPolicyEgressRule:
    return _to(_addresses(_POD_IDENTITY_AGENT), ports=[_port(80)])


def _public_https() -> k8s.NetworkPolicyEgressRule:
    # S3's addresses are public, also through a gateway endpoint. Private addresses are excluded, so
    # pods cannot reach other pods, nodes and the metadata service.
    everywhere = k8s.IpBlock(cidr="0.0.0.0/0", except_=sorted([*_PRIVATE, _LINK_LOCAL]))
    return _to(k8s.NetworkPolicyPeer(ip_block=everywhere), ports=[_port(443)])


def _kubernetes_api() -> k8s.NetworkPolicyEgressRule:
    # The addresses of the API, of its Service and of its interfaces in the VPC, are private and not
    # known before the deploy, so the rule allows port 443 of all private addresses. Other servers
    # at that port need a secret that the measuring pod lacks.
    return _to(*map(_addresses, _PRIVATE), ports=[_port(443)])


def _to(
    *peers: k8s.NetworkPolicyPeer, ports: Sequence[k8s.NetworkPolicyPort]
) -> k8s.NetworkPolicyEgressRule:
    return k8s.NetworkPolicyEgressRule(to=[*peers], ports=[*ports])


def _addresses(cidr: str) -> k8s.NetworkPolicyPeer:
    return k8s.NetworkPolicyPeer(ip_block=k8s.IpBlock(cidr=cidr))


def _pods(labels: Mapping[str, str]) -> k8s.NetworkPolicyPeer:
    return k8s.NetworkPolicyPeer(pod_selector=_selector(labels))


def _selector(labels: Mapping[str, str]) -> k8s.LabelSelector:
    return k8s.LabelSelector(match_labels=labels or None)


def _port(number: int, protocol: str = "TCP") -> k8s.NetworkPolicyPort:
    return k8s.NetworkPolicyPort(port=k8s.IntOrString.from_number(number), protocol=protocol)
