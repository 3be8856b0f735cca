"""What CloudFormation deletes before what: the references between all resources of an experiment.

A resource is deleted after everything that refers to it or depends on it; a stack after the stacks
that import from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from tests.stacks.synthesis import PARTS, Template, synthesis

Node = tuple[str, str]
Graph = Mapping[Node, frozenset[Node]]
_SUBSTITUTION = re.compile(r"\$\{([A-Za-z0-9]+)(?:\.[^}]*)?\}")


def references(value: Any) -> Iterator[str]:
    """Logical ids that a part of a template refers to."""
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
    """What each resource of a template refers to or depends on."""
    resources = template["Resources"]
    needs = {}
    for logical_id, resource in resources.items():
        listed = resource.get("DependsOn", [])
        named = {listed} if isinstance(listed, str) else set(listed)
        referred = set(references(resource.get("Properties", {})))
        needs[logical_id] = (named | referred) & set(resources) - {logical_id}
    return needs


def stack_needs(experiment: str) -> dict[str, set[str]]:
    """The stacks that each stack needs, by part."""
    artifacts = json.loads((synthesis().folder / "manifest.json").read_text())["artifacts"]
    names = {synthesis().path(experiment, p).name.removesuffix(".template.json"): p for p in PARTS}
    return {
        part: {names[d] for d in artifacts[name].get("dependencies", []) if d in names}
        for name, part in names.items()
    }


def graph_of(templates: Mapping[str, Template], stacks: Mapping[str, set[str]]) -> Graph:
    """Each resource with everything that is deleted after it."""
    needs: dict[Node, frozenset[Node]] = {}
    for part, template in templates.items():
        others = {(other, k) for other in stacks[part] for k in templates[other]["Resources"]}
        for logical_id, own in needs_in(template).items():
            needs[part, logical_id] = frozenset({(part, k) for k in own} | others)
    return needs


@cache
def templates_of(experiment: str) -> Mapping[str, Template]:
    """The templates of an experiment, by part."""
    return {part: synthesis().template(experiment, part) for part in PARTS}


def outlived_by(graph: Graph, node: Node) -> set[Node]:
    """Everything that is still there when a resource has been deleted."""
    reached: set[Node] = set()
    ahead = [node]
    while ahead:
        new = graph[ahead.pop()] - reached
        reached |= new
        ahead.extend(new)
    return reached
