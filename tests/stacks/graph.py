"""The order in which CloudFormation deletes an experiment's resources, found by their references.

A resource is deleted after all resources that refer to it or depend on it.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar

from draftworth.experiment.naming import PARTS
from tests.stacks.synthesis import Template, synthesis

Node = tuple[str, str]
Key = TypeVar("Key")
Graph = Mapping[Node, frozenset[Node]]
_SUBSTITUTION = re.compile(r"\$\{([A-Za-z0-9]+)(?:\.[^}]*)?\}")


def references(value: Any) -> Iterator[str]:
    """Yield the logical ids to which a value of a template refers."""
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    if not isinstance(value, dict):
        return
    for key, argument in value.items():
        if key == "Ref":
            yield argument
        elif key == "Fn::GetAtt":
            yield argument[0] if isinstance(argument, list) else argument.split(".")[0]
        elif key == "Fn::Sub":
            yield from _SUBSTITUTION.findall(json.dumps(argument))
        yield from references(argument)


def needs_in(template: Template) -> dict[str, set[str]]:
    """Return {logical id: ids of the resources that it refers to or depends on}."""
    resources = template["Resources"]
    needs = {}
    for logical_id, resource in resources.items():
        listed = resource.get("DependsOn", [])
        named = {listed} if isinstance(listed, str) else set(listed)
        referred = set(references(resource.get("Properties", {})))
        needs[logical_id] = (named | referred) & set(resources) - {logical_id}
    return needs


def graph_of(templates: Mapping[str, Template]) -> Graph:
    """Return {resource: the resources that it needs}; each is a pair (part of stack, logical id).

    A resource is deleted before those that it needs. templates: {part of the stack: template}.
    """
    home = {k: part for part, template in templates.items() for k in template["Resources"]}
    resources = {k: templates[part]["Resources"][k] for k, part in home.items()}
    return {
        (home[logical_id], logical_id): frozenset((home[k], k) for k in needed)
        for logical_id, needed in needs_in({"Resources": resources}).items()
    }


@cache
def templates_of(experiment: str) -> Mapping[str, Template]:
    """Return {part of the stack: its resources as a template} for an experiment's stack."""
    return {part: synthesis().template(experiment, part) for part in PARTS}


def reached(graph: Mapping[Key, Collection[Key]], start: Key) -> set[Key]:
    """Return all that can be reached from `start` in the graph, directly or through others.

    With `graph_of` these are the resources that are deleted after `start`.
    """
    reached_keys: set[Key] = set()
    ahead = [start]
    while ahead:
        new = set(graph[ahead.pop()]) - reached_keys
        reached_keys |= new
        ahead.extend(new)
    return reached_keys


# The type of every resource that CDK's kubectl functions create and delete begins with this.
KUBECTL = "Custom::AWSCDK-EKS-"


def most_at_once(templates: Mapping[str, Template]) -> int:
    """Return how many resources of CDK's kubectl functions may be created at a time, at most.

    A destroy goes the same ways back, so it deletes at most as many at a time. It is the greatest
    number of resources of which none waits for another. By Dilworth's theorem this is their number
    less the number of pairs in a maximum matching of each one with one that waits for it.
    """
    graph = graph_of(templates)
    chosen = [
        (part, logical_id)
        for part, template in templates.items()
        for logical_id, resource in template["Resources"].items()
        if resource["Type"].startswith(KUBECTL)
    ]
    waits_for = {node: reached(graph, node) & set(chosen) for node in chosen}
    matched: dict[Node, Node] = {}
    return len(chosen) - sum(_augmented(node, waits_for, matched, set()) for node in chosen)


def _augmented(
    node: Node, waits_for: Mapping[Node, set[Node]], matched: dict[Node, Node], tried: set[Node]
) -> bool:
    for earlier in waits_for[node] - tried:
        tried.add(earlier)
        partner = matched.get(earlier)
        if partner is None or _augmented(partner, waits_for, matched, tried):
            matched[earlier] = node
            return True
    return False
