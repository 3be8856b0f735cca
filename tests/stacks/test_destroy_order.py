"""At destroy nothing waits for something that is gone: who must outlive whom, and why.

`kubectl delete` and `helm uninstall`, which CDK's functions call, wait for finalizers, up to the
function's quarter of an hour. A finalizer is taken off by a controller, and most controllers live
in the control plane; but these need something that lives on a node or in an add-on:

- `kubernetes.io/pvc-protection` and `pv-protection`: taken off when no pod uses the claim, so pods
  go first, and a pod is gone when the kubelet of its node says so.
- `resource.kubernetes.io/delete-protection` of ResourceClaims: taken off when the claim's pod is
  gone; the kubelet ends the pod after the Neuron DRA plugin of its node unprepared the devices.
- volumes: the kubelet ends a pod after the S3 CSI driver of its node unmounted its buckets.
- a namespace ends when every API could be asked for what is in it: an aggregated API whose service
  is gone (metrics-server's) holds up every namespace.
- nodes drain through the network plugin, which gives their interfaces back; an interface that is
  left holds its security group and its subnet.
"""

import copy

import pytest

from tests.stacks.graph import Graph, Node, graph_of, reached, templates_of
from tests.stacks.rendering import kubernetes_objects
from tests.stacks.synthesis import Template, experiments, of_type

pytestmark = [pytest.mark.synth]
NAMES = tuple(experiments())
MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
POD_OWNERS = {"Deployment", "Job", "DaemonSet", "StatefulSet"}
ADD_ONS_OF_PODS = ("aws-mountpoint-s3-csi-driver", "metrics-server", "coredns")
ADD_ONS_OF_NODES = ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")


def graph(name: str) -> Graph:
    return graph_of(templates_of(name))


def nodes(name: str, part: str, kind: str, fragment: str = "") -> set[Node]:
    """Resources of a type; the test that asks would say nothing if there were none."""
    template = templates_of(name)[part]
    found = {(part, k) for k in of_type(template, kind) if fragment in k}
    assert found, f"{part} has no {kind} {fragment}"
    return found


def add_ons(name: str, wanted: tuple[str, ...]) -> set[Node]:
    found = of_type(templates_of(name)["cluster"], "AWS::EKS::Addon").items()
    ids = {("cluster", k) for k, r in found if r["Properties"]["AddonName"] in wanted}
    assert len(ids) == len(wanted)
    return ids


def manifests(name: str, kinds: set[str]) -> set[Node]:
    """Manifests that hold objects of any of these kinds."""
    found = {
        ("benchmark", k)
        for k, r in of_type(templates_of(name)["benchmark"], MANIFEST).items()
        if kinds & {o["kind"] for o in kubernetes_objects(r)}
    }
    assert found, f"no manifest with {kinds}"
    return found


def too_early(graph_: Graph, first: set[Node], later: set[Node]) -> set[tuple[Node, Node]]:
    """Pairs in which the one that is needed may be gone before the one that needs it."""
    found = set()
    for one in first:
        outlived = reached(graph_, one)
        found |= {(one, other) for other in later - {one} if other not in outlived}
    return found


@pytest.mark.parametrize("name", NAMES)
def test_pods_go_before_their_volumes_and_claims_and_all_before_the_namespace(name: str) -> None:
    pods = manifests(name, POD_OWNERS)
    volumes = manifests(name, {"PersistentVolume", "PersistentVolumeClaim"})
    namespace = manifests(name, {"Namespace"})
    assert not pods & volumes
    assert too_early(graph(name), pods, volumes) == set()
    assert too_early(graph(name), pods | volumes, namespace) == set()


@pytest.mark.parametrize("name", NAMES)
def test_roles_of_pods_outlive_the_pods(name: str) -> None:
    """A pod that ends still writes: the measuring Job its last result and `run.json`."""
    associations = nodes(name, "benchmark", "AWS::EKS::PodIdentityAssociation")
    roles = nodes(name, "benchmark", "AWS::IAM::Role", "WorkloadRoles")
    pods = manifests(name, POD_OWNERS)
    assert too_early(graph(name), pods, associations | roles) == set()


@pytest.mark.parametrize("name", NAMES)
def test_what_runs_as_pods_goes_while_there_are_nodes_to_end_it(name: str) -> None:
    """Else a release's hooks and an add-on's pods would wait for a node that never comes."""
    software = add_ons(name, ADD_ONS_OF_PODS) | nodes(
        name, "cluster", "Custom::AWSCDK-EKS-HelmChart"
    )
    cpu = nodes(name, "cluster", "AWS::EKS::Nodegroup", "Cpu")
    assert too_early(graph(name), software, cpu) == set()


@pytest.mark.parametrize("name", NAMES)
def test_nodes_go_before_their_network_plugin_role_and_cluster(name: str) -> None:
    needed = (
        add_ons(name, ADD_ONS_OF_NODES)
        | nodes(name, "cluster", "AWS::IAM::Role", "NodeRole")
        | nodes(name, "cluster", "AWS::EKS::Cluster")
    )
    groups = nodes(name, "cluster", "AWS::EKS::Nodegroup")
    assert len(groups) >= 2
    assert too_early(graph(name), groups, needed) == set()


@pytest.mark.parametrize(
    "name", [n for n in NAMES if experiments()[n].spec.accelerator.efa_interfaces]
)
def test_accelerator_nodes_go_before_the_group_of_their_efa_interfaces(name: str) -> None:
    groups = nodes(name, "cluster", "AWS::EKS::Nodegroup", "Accelerator")
    efa = nodes(name, "cluster", "AWS::EC2::SecurityGroup", "Efa")
    assert too_early(graph(name), groups, efa) == set()


@pytest.mark.parametrize("name", NAMES)
def test_what_deletes_from_the_cluster_keeps_its_rights_until_the_last(name: str) -> None:
    """Without its access entry, role or log group CDK's kubectl could no longer delete: CDK's
    handler only logs that (`delete error`), and CloudFormation goes on as if it had."""
    provider = (
        nodes(name, "cluster", "AWS::Lambda::Function", "KubectlProvider")
        | nodes(name, "cluster", "AWS::IAM::Role", "KubectlProvider")
        | nodes(name, "cluster", "AWS::IAM::Policy", "KubectlProvider")
        | nodes(name, "cluster", "AWS::EKS::AccessEntry", "ClusterAdminRole")
        | nodes(name, "cluster", "AWS::Lambda::LayerVersion")
        | nodes(name, "cluster", "AWS::Logs::LogGroup", "Kubectl")
    )
    deletes = nodes(name, "benchmark", MANIFEST) | nodes(
        name, "cluster", "Custom::AWSCDK-EKS-HelmChart"
    )
    assert too_early(graph(name), deletes, provider) == set()


@pytest.mark.parametrize("name", NAMES)
def test_functions_that_hold_the_clusters_security_group_go_before_it(name: str) -> None:
    """CloudFormation waits for the interfaces of a function that it deletes (coverage roadmap,
    issue 392: 25 to 40 minutes). While it does, the cluster must still be there: EKS tries to
    delete the cluster's security group once, and one that is held stays, and holds the VPC."""
    functions = {
        ("cluster", k)
        for k, r in of_type(templates_of(name)["cluster"], "AWS::Lambda::Function").items()
        if "VpcConfig" in r["Properties"]
    }
    assert functions
    assert too_early(graph(name), functions, nodes(name, "cluster", "AWS::EKS::Cluster")) == set()


def subscribed(name: str) -> set[Node]:
    """What brings the controller's mails to people, where there are any."""
    kinds = ("AWS::SNS::Subscription", "AWS::SNS::TopicPolicy")
    template = templates_of(name)["benchmark"]
    return {("benchmark", k) for kind in kinds for k in of_type(template, kind)}


@pytest.mark.parametrize("name", NAMES)
def test_the_capacity_controller_is_told_first_and_can_act_on_it(name: str) -> None:
    """It sizes the nodes to zero and deletes its schedule: before the charts go, so that no pod is
    waited for on a node that is paid for, and while it still has its role, group and topic. Before
    it go the canaries alone, which were applied after it: their pods are on no node that costs."""
    told = nodes(name, "benchmark", "Custom::DraftworthDeployment")
    canary = nodes(name, "benchmark", MANIFEST, "Chartcanary")
    assert too_early(graph(name), canary, told) == set()
    needed = (
        (nodes(name, "benchmark", MANIFEST) - canary)
        | subscribed(name)
        | nodes(name, "benchmark", "AWS::Lambda::Function", "CapacityController")
        | nodes(name, "benchmark", "AWS::IAM::Policy", "CapacityController")
        | nodes(name, "benchmark", "AWS::Logs::LogGroup", "CapacityController")
        | nodes(name, "benchmark", "AWS::Scheduler::ScheduleGroup")
        | nodes(name, "benchmark", "AWS::SNS::Topic")
    )
    assert too_early(graph(name), told, needed) == set()


@pytest.mark.parametrize("name", NAMES)
def test_log_groups_go_after_what_writes_them(name: str) -> None:
    """Else the writer makes the group again, without retention and without an owner."""
    written = nodes(name, "cluster", "AWS::Logs::LogGroup", "ControlPlaneLogGroup")
    assert too_early(graph(name), nodes(name, "cluster", "AWS::EKS::Cluster"), written) == set()
    for part in ("storage", "cluster", "benchmark"):
        for function in nodes(name, part, "AWS::Lambda::Function"):
            properties = templates_of(name)[part]["Resources"][function[1]]["Properties"]
            group = {(part, properties["LoggingConfig"]["LogGroup"]["Ref"])}
            assert too_early(graph(name), {function}, group) == set()
    agents = nodes(name, "cluster", "AWS::EKS::Nodegroup")
    agents |= add_ons(name, ("amazon-cloudwatch-observability",))
    insights = nodes(name, "cluster", "AWS::Logs::LogGroup", "InsightsLogs")
    assert len(insights) == 4
    assert too_early(graph(name), agents, insights) == set()
    flow = nodes(name, "network", "AWS::EC2::FlowLog")
    assert too_early(graph(name), flow, nodes(name, "network", "AWS::Logs::LogGroup")) == set()


@pytest.mark.parametrize("name", NAMES)
def test_buckets_are_emptied_before_they_and_their_policies_go(name: str) -> None:
    storage = templates_of(name)["storage"]
    for logical_id, resource in of_type(storage, "Custom::S3AutoDeleteObjects").items():
        bucket = resource["Properties"]["BucketName"]["Ref"]
        policies = {
            ("storage", k)
            for k, r in of_type(storage, "AWS::S3::BucketPolicy").items()
            if r["Properties"]["Bucket"] == {"Ref": bucket}
        }
        needed = {("storage", bucket)} | policies | nodes(name, "storage", "AWS::Lambda::Function")
        assert policies
        assert too_early(graph(name), {("storage", logical_id)}, needed) == set()


def without(part: str, fragment: str, *, of: str = "qwen3-32b") -> Graph:
    """The graph of a template in which resources of a name depend on nothing by statement."""
    templates: dict[str, Template] = {k: copy.deepcopy(t) for k, t in templates_of(of).items()}
    changed = [r for k, r in templates[part]["Resources"].items() if fragment in k]
    assert changed
    for resource in changed:
        resource.pop("DependsOn", None)
    return graph_of(templates)


def test_pods_and_volumes_without_an_order_are_found() -> None:
    pods = manifests("qwen3-32b", POD_OWNERS)
    volumes = manifests("qwen3-32b", {"PersistentVolume"})
    assert too_early(without("benchmark", "Chart"), pods, volumes)


def test_a_driver_that_may_outlive_the_last_node_is_found() -> None:
    driver = nodes("qwen3-32b", "cluster", "Custom::AWSCDK-EKS-HelmChart")
    cpu = nodes("qwen3-32b", "cluster", "AWS::EKS::Nodegroup", "Cpu")
    assert too_early(without("cluster", "NeuronDriver"), driver, cpu)


@pytest.mark.parametrize("fragment", ["Cpu", "Accelerator"])
def test_nodes_that_may_outlive_the_logs_they_write_are_found(fragment: str) -> None:
    groups = nodes("qwen3-32b", "cluster", "AWS::EKS::Nodegroup", fragment)
    insights = nodes("qwen3-32b", "cluster", "AWS::Logs::LogGroup", "InsightsLogs")
    assert too_early(without("cluster", fragment), groups, insights)


def test_nodes_that_may_outlive_their_network_plugin_are_found() -> None:
    groups = nodes("qwen3-32b", "cluster", "AWS::EKS::Nodegroup", "Accelerator")
    broken = without("cluster", "AcceleratorNodes")
    assert too_early(broken, groups, add_ons("qwen3-32b", ADD_ONS_OF_NODES))


@pytest.mark.parametrize("name", NAMES)
def test_parts_are_removed_benchmark_first_and_network_last(name: str) -> None:
    """As four stacks would be: all of one before any of what it stands on."""
    everything = {
        part: {(part, k) for k in template["Resources"]}
        for part, template in templates_of(name).items()
    }
    for first, later in (
        ("benchmark", "cluster"),
        ("benchmark", "storage"),
        ("cluster", "network"),
    ):
        assert too_early(graph(name), everything[first], everything[later]) == set()


def test_a_subscription_that_may_go_before_the_last_mail_is_found() -> None:
    told = nodes("small-nodes", "benchmark", "Custom::DraftworthDeployment")
    broken = without("benchmark", "CapacityController", of="small-nodes")
    assert len(too_early(broken, told, subscribed("small-nodes"))) == 2


def test_parts_without_an_order_are_found() -> None:
    templates = {k: copy.deepcopy(t) for k, t in templates_of("qwen3-32b").items()}
    for resource in templates["benchmark"]["Resources"].values():
        needs = resource.get("DependsOn", [])
        resource["DependsOn"] = [k for k in needs if "maybegin" not in k]
    functions = nodes("qwen3-32b", "benchmark", "AWS::Lambda::Function")
    emptied = nodes("qwen3-32b", "storage", "Custom::S3AutoDeleteObjects")
    assert too_early(graph_of(templates), functions, emptied)


@pytest.mark.parametrize("name", NAMES)
def test_no_resource_waits_for_itself(name: str) -> None:
    """CloudFormation refuses a template with such a circle."""
    whole = graph(name)
    assert [node for node in whole if node in reached(whole, node)] == []
