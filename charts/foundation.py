"""Namespace, service accounts and network policies, which every other chart needs."""

from collections.abc import Mapping

import cdk8s
from constructs import Construct

from charts import k8s, names
from charts.pods import metadata
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.serving.command import SERVING_PORT

# The agent that gives a pod the credentials of its EKS Pod Identity role.
POD_IDENTITY_AGENT_CIDR = "169.254.170.23/32"
POD_IDENTITY_AGENT_PORT = 80
# Addresses that are not of the public Internet: other pods, nodes and the metadata service stay
# shut. S3 has public ones, through a gateway endpoint too, and they cannot be listed here.
CLUSTER_CIDRS = ["10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16"]
LINK_LOCAL_CIDR = "169.254.0.0/16"
PRIVATE_CIDRS = sorted([*CLUSTER_CIDRS, LINK_LOCAL_CIDR])


class FoundationChart(cdk8s.Chart):
    """The objects that all others need."""

    def __init__(self, scope: Construct, id_: str, *, experiment: ResolvedNeuron) -> None:
        super().__init__(scope, id_, labels=names.experiment_labels(experiment))
        # `baseline`, not `restricted`: the Neuron images run as root.
        level = {"pod-security.kubernetes.io/enforce": "baseline"}
        k8s.KubeNamespace(
            self, "namespace", metadata=k8s.ObjectMeta(name=names.NAMESPACE, labels=level)
        )
        serving = [names.service_name(variant.name) for variant in experiment.variants]
        for name in (names.STAGER_SERVICE_ACCOUNT, *serving, names.MEASURING_JOB_SERVICE_ACCOUNT):
            # Only a measuring Job that starts and stops servers calls the Kubernetes API, and its
            # pod asks for the token. Pod Identity and the S3 driver bring tokens of their own.
            k8s.KubeServiceAccount(
                self,
                f"account-{name}",
                metadata=metadata(name),
                automount_service_account_token=False,
            )
        self._policy("default-deny", None)
        # Nobody in. Out: name look-ups, credentials and the Internet, for hubs have no fixed
        # addresses.
        out = [_dns(), _credentials(), _public_https()]
        self._policy("stager", names.STAGER_COMPONENT, ingress=[], egress=out)
        self._policy("canary", names.CANARY_COMPONENT, ingress=[], egress=out)
        # The measuring Job in; out: name look-ups, credentials and S3. The kubelet's probes come
        # from the pod's own node, which a network policy never shuts out. Checkpoints and artifacts
        # are read by the S3 driver's pods, not through this pod's network. The policy holds for the
        # whole pod, so vLLM may connect to whatever the uploader needs. The Neuron runtime reads
        # the instance type from /sys, so the metadata service, and with it the node's credentials,
        # stay shut.
        measuring = k8s.NetworkPolicyIngressRule(
            from_=[_pods(names.MEASURING_JOB_COMPONENT)], ports=[_port(SERVING_PORT)]
        )
        self._policy("serving", names.SERVING_COMPONENT, ingress=[measuring], egress=out)
        # Nobody in. Out: name look-ups, servers, credentials, S3, and the Kubernetes API where the
        # Job starts and stops servers.
        servers = _to(_pods(names.SERVING_COMPONENT), ports=[_port(SERVING_PORT)])
        out = [_dns(), servers, _credentials(), _public_https()]
        if experiment.spec.changes_servers:
            out.append(_kubernetes_api())
        self._policy("load-generator", names.MEASURING_JOB_COMPONENT, ingress=[], egress=out)

    def _policy(
        self,
        name: str,
        component: Mapping[str, str] | None,
        *,
        ingress: list[k8s.NetworkPolicyIngressRule] | None = None,
        egress: list[k8s.NetworkPolicyEgressRule] | None = None,
    ) -> None:
        """Refuse whatever no rule lets in or out. Without a component it holds for every pod."""
        k8s.KubeNetworkPolicy(
            self,
            f"policy-{name}",
            metadata=metadata(name),
            spec=k8s.NetworkPolicySpec(
                pod_selector=k8s.LabelSelector(match_labels=component),
                policy_types=["Ingress", "Egress"],
                ingress=ingress,
                egress=egress,
            ),
        )


def _pods(labels: Mapping[str, str]) -> k8s.NetworkPolicyPeer:
    return k8s.NetworkPolicyPeer(pod_selector=k8s.LabelSelector(match_labels=labels))


def _addresses(cidr: str, *, except_: list[str] | None = None) -> k8s.NetworkPolicyPeer:
    return k8s.NetworkPolicyPeer(ip_block=k8s.IpBlock(cidr=cidr, except_=except_))


def _to(
    *peers: k8s.NetworkPolicyPeer, ports: list[k8s.NetworkPolicyPort]
) -> k8s.NetworkPolicyEgressRule:
    return k8s.NetworkPolicyEgressRule(to=list(peers), ports=ports)


def _port(number: int, protocol: str = "TCP") -> k8s.NetworkPolicyPort:
    return k8s.NetworkPolicyPort(port=k8s.IntOrString.from_number(number), protocol=protocol)


def _credentials() -> k8s.NetworkPolicyEgressRule:
    return _to(_addresses(POD_IDENTITY_AGENT_CIDR), ports=[_port(POD_IDENTITY_AGENT_PORT)])


def _public_https() -> k8s.NetworkPolicyEgressRule:
    """Let out to S3, which has public addresses only, and to the model hub."""
    return _to(_addresses("0.0.0.0/0", except_=PRIVATE_CIDRS), ports=[_port(443)])


def _kubernetes_api() -> k8s.NetworkPolicyEgressRule:
    """Let out to the API's Service and to its interfaces in the VPC.

    Their addresses are private and generated, so all private ones are open at this port. Whatever
    else listens there lets nobody in without a secret, which this pod does not have.
    """
    return _to(*[_addresses(cidr) for cidr in CLUSTER_CIDRS], ports=[_port(443)])


def _dns() -> k8s.NetworkPolicyEgressRule:
    dns = k8s.NetworkPolicyPeer(
        namespace_selector=k8s.LabelSelector(
            match_labels={"kubernetes.io/metadata.name": "kube-system"}
        ),
        pod_selector=k8s.LabelSelector(match_labels={"k8s-app": "kube-dns"}),
    )
    return _to(dns, ports=[_port(53, "UDP"), _port(53)])
