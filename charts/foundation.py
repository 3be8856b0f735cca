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
# Private addresses. A rule for HTTPS to the Internet excludes them, so pods cannot reach other
# pods, nodes and the metadata service. S3's addresses are public, also through a gateway endpoint.
CLUSTER_CIDRS = ["10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16"]
LINK_LOCAL_CIDR = "169.254.0.0/16"
PRIVATE_CIDRS = sorted([*CLUSTER_CIDRS, LINK_LOCAL_CIDR])


class FoundationChart(cdk8s.Chart):
    """The namespace, the service accounts and the network policies."""

    def __init__(self, scope: Construct, id_: str, *, experiment: ResolvedNeuron) -> None:
        super().__init__(scope, id_, labels=names.experiment_labels(experiment))
        # `baseline`, not `restricted`: the Neuron images run as root.
        level = {"pod-security.kubernetes.io/enforce": "baseline"}
        k8s.KubeNamespace(
            self, "namespace", metadata=k8s.ObjectMeta(name=names.NAMESPACE, labels=level)
        )
        serving = [names.service_name(variant.name) for variant in experiment.variants]
        for name in (names.STAGER_SERVICE_ACCOUNT, *serving, names.MEASURING_JOB_SERVICE_ACCOUNT):
            # Only a measuring Job that starts and stops servers calls the Kubernetes API; its pod
            # mounts the token itself. Pod Identity and the S3 driver use other tokens.
            k8s.KubeServiceAccount(
                self,
                f"account-{name}",
                metadata=metadata(name),
                automount_service_account_token=False,
            )
        self._policy("default-deny", None)
        # Stager and canary. Ingress: none. Egress: DNS, credentials and HTTPS to the Internet,
        # because model hubs have no fixed addresses.
        out = [_dns(), _credentials(), _public_https()]
        self._policy("stager", names.STAGER_COMPONENT, ingress=[], egress=out)
        self._policy("canary", names.CANARY_COMPONENT, ingress=[], egress=out)
        # Servers. Ingress: the measuring Job. Egress: DNS, credentials and S3. The kubelet's probes
        # come from the pod's own node, which a network policy never blocks. Checkpoints and
        # artifacts are read by the S3 driver's pods, not through this pod's network. A policy
        # applies to the whole pod, so vLLM can reach all that the uploader needs. The Neuron
        # runtime reads the instance type from /sys and not from the metadata service, which stays
        # blocked, and with it the node's credentials.
        measuring = k8s.NetworkPolicyIngressRule(
            from_=[_pods(names.MEASURING_JOB_COMPONENT)], ports=[_port(SERVING_PORT)]
        )
        self._policy("serving", names.SERVING_COMPONENT, ingress=[measuring], egress=out)
        # Measuring Job. Ingress: none. Egress: DNS, servers, credentials, S3, and the Kubernetes
        # API if the Job starts and stops servers.
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
        """Add a policy that allows only these rules, for pods of `component` (None: all pods)."""
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
    """Allow HTTPS to S3, which has only public addresses, and to the model hub."""
    return _to(_addresses("0.0.0.0/0", except_=PRIVATE_CIDRS), ports=[_port(443)])


def _kubernetes_api() -> k8s.NetworkPolicyEgressRule:
    """Allow HTTPS to the Kubernetes API: its Service and its network interfaces in the VPC.

    Their addresses are private and not known before the deploy, so the rule allows port 443 of all
    private addresses. Other servers at that port need a secret that the measuring pod lacks.
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
