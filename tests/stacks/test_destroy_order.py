"""A destroy deletes nothing that the deletion of another resource still needs.

`kubectl delete` and `helm uninstall`, which CDK's functions call, wait until controllers have
removed the finalizers, at most the function's quarter of an hour. Most controllers run in the
control plane, but these deletions need something that runs on a node or in an add-on:

- Volume claims and volumes (`kubernetes.io/pvc-protection`, `pv-protection`) are deleted when no
  pod uses them. So pods must be deleted first, which needs the kubelets of their nodes.
- ResourceClaims (`resource.kubernetes.io/delete-protection`) are deleted after their pod. The
  kubelet ends a pod after the Neuron DRA plugin on its node has released the devices.
- Pods that mount buckets end after the S3 CSI driver on their node has unmounted these.
- A namespace ends when every API has been asked for the objects in it. An aggregated API whose
  service is gone, such as metrics-server's, delays every namespace.
- When a node is drained, the network plugin deletes the pods' network interfaces. An interface that
  is left makes the deletion of its security group and its subnet fail.
"""

import copy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.stacks.graph import Graph, Node, graph_of, reached, templates_of
from tests.stacks.rendering import kubernetes_objects
from tests.stacks.synthesis import Resource, experiments, of_type

pytestmark = [pytest.mark.synth]
NAMES = tuple(experiments())
MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
RULES: dict[str, Any] = yaml.load(
    Path(__file__).with_name("destroy_order.yaml").read_text(encoding="utf-8"),
    Loader=yaml.CSafeLoader,
)


@cache
def graph(name: str) -> Graph:
    return graph_of(templates_of(name))


def nodes(name: str, *selectors: str) -> set[Node]:
    """Return the resources that selectors name; a selector that names none is an error.

    selectors: `PART KIND FRAGMENT`: a part of the stack, a CloudFormation type or Kubernetes kind,
        and text in the logical id. The fragment may be missing.
    """
    chosen: set[Node] = set()
    for selector in selectors:
        part, kind, fragment = [*selector.split(), ""][:3]
        resources = templates_of(name)[part]["Resources"].items()
        selected = {(part, k) for k, r in resources if fragment in k and is_of(r, kind)}
        assert selected, f"{name} has no {selector}"
        chosen |= selected
    return chosen


def is_of(resource: Resource, kind: str) -> bool:
    """Return whether a resource is of `kind`.

    kind: a CloudFormation type, or the Kubernetes kind of an object in a manifest resource.
    """
    if "::" in kind:
        return bool(resource["Type"] == kind)
    return resource["Type"] == MANIFEST and kind in {
        item["kind"] for item in kubernetes_objects(resource)
    }


def too_early(graph_: Graph, first: set[Node], later: set[Node]) -> set[tuple[Node, Node]]:
    """Return the pairs (of `first`, of `later`) whose second resource may be deleted first.

    All of `first` should be deleted before all of `later`.
    """
    pairs = set()
    for one in first:
        outlived = reached(graph_, one)
        pairs |= {(one, other) for other in later if other not in outlived}
    return pairs


def against(rule: dict[str, Any], name: str, graph_: Graph) -> set[tuple[Node, Node]]:
    """Return the pairs of resources that an experiment may delete in an order that a rule forbids.

    rule: an entry of `destroy_order.yaml`. name: the experiment's name.
    """
    later = nodes(name, *rule["later"]) - nodes(name, *rule.get("but", []))
    return too_early(graph_, nodes(name, *rule["first"]), later)


@pytest.mark.parametrize(
    ("rule", "name"),
    [(rule, name) for rule, settings in RULES.items() for name in settings.get("in", NAMES)],
)
def test_nothing_waits_for_what_is_gone(rule: str, name: str) -> None:
    assert against(RULES[rule], name, graph(name)) == set()


@pytest.mark.parametrize(
    ("rule", "broken"),
    [(rule, broken) for rule, settings in RULES.items() for broken in settings.get("broken", [])],
)
def test_what_may_go_too_early_is_found(rule: str, broken: str) -> None:
    """A rule fails if the resources that `broken` names lose their `DependsOn`.

    broken: a part of the stack, and a text in the resources' logical ids.
    """
    name = RULES[rule].get("in", NAMES)[0]
    part, fragment = broken.split()
    templates = {k: copy.deepcopy(t) for k, t in templates_of(name).items()}
    changed = [r for k, r in templates[part]["Resources"].items() if fragment in k]
    assert changed
    for resource in changed:
        resource.pop("DependsOn", None)
    assert against(RULES[rule], name, graph_of(templates))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("part", ["storage", "cluster", "benchmark"])
def test_log_groups_of_functions_go_after_them(name: str, part: str) -> None:
    """A function that outlived its log group would create it again, without retention or owner."""
    for function in nodes(name, f"{part} AWS::Lambda::Function"):
        properties = templates_of(name)[part]["Resources"][function[1]]["Properties"]
        group = {(part, properties["LoggingConfig"]["LogGroup"]["Ref"])}
        assert too_early(graph(name), {function}, group) == set()


@pytest.mark.parametrize("name", NAMES)
def test_buckets_are_emptied_before_their_policies_go(name: str) -> None:
    storage = templates_of(name)["storage"]
    for logical_id, resource in of_type(storage, "Custom::S3AutoDeleteObjects").items():
        bucket = resource["Properties"]["BucketName"]["Ref"]
        policies = {
            ("storage", k)
            for k, r in of_type(storage, "AWS::S3::BucketPolicy").items()
            if r["Properties"]["Bucket"] == {"Ref": bucket}
        }
        needed = {("storage", bucket)} | policies | nodes(name, "storage AWS::Lambda::Function")
        assert policies
        assert too_early(graph(name), {("storage", logical_id)}, needed) == set()


@pytest.mark.parametrize("name", NAMES)
def test_parts_are_removed_benchmark_first_and_network_last(name: str) -> None:
    """A part of the stack is deleted as a whole before any resource of a part that it needs."""
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


def test_parts_without_an_order_are_found() -> None:
    templates = {k: copy.deepcopy(t) for k, t in templates_of("qwen3-32b").items()}
    for resource in templates["benchmark"]["Resources"].values():
        needs = resource.get("DependsOn", [])
        resource["DependsOn"] = [k for k in needs if "maybegin" not in k]
    functions = nodes("qwen3-32b", "benchmark AWS::Lambda::Function")
    emptied = nodes("qwen3-32b", "storage Custom::S3AutoDeleteObjects")
    assert too_early(graph_of(templates), functions, emptied)


@pytest.mark.parametrize("name", NAMES)
def test_no_resource_waits_for_itself(name: str) -> None:
    """CloudFormation refuses a template with circular dependencies."""
    whole = graph(name)
    assert [node for node in whole if node in reached(whole, node)] == []
