"""What CloudFormation deletes before what: the references between all resources of an experiment.

A resource is deleted after everything that refers to it or depends on it.
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


def before(template: Template, logical_id: str) -> set[str]:
    """Everything that a resource waits for, at one remove or more."""
    return reached(needs_in(template), logical_id)


def graph_of(templates: Mapping[str, Template]) -> Graph:
    """Each resource, as (part, logical id), with everything that is deleted after it."""
    home = {k: part for part, template in templates.items() for k in template["Resources"]}
    resources = {k: templates[part]["Resources"][k] for k, part in home.items()}
    return {
        (home[logical_id], logical_id): frozenset((home[k], k) for k in needed)
        for logical_id, needed in needs_in({"Resources": resources}).items()
    }


@cache
def templates_of(experiment: str) -> Mapping[str, Template]:
    """The template of an experiment, by part."""
    return {part: synthesis().template(experiment, part) for part in PARTS}


def reached(graph: Mapping[Key, Collection[Key]], start: Key) -> set[Key]:
    """All that something needs, and what that needs: it is still there when that is deleted."""
    found: set[Key] = set()
    ahead = [start]
    while ahead:
        new = set(graph[ahead.pop()]) - found
        found |= new
        ahead.extend(new)
    return found
