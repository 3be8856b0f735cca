"""Describes a key's meaning and its allowed values in words, from the JSON Schema."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import BaseModel

from draftworth.errors import Key
from draftworth.experiment.strict import PATTERN_WORDS, WORDS

# Bounds of this size or larger only catch typing errors, and are not shown.
_GUARD = 1_000_000
Node = dict[str, Any]


def description(model: type[BaseModel], key: Key) -> str:
    """Return a key's description (for a list's entry, the list's); empty if there is none."""
    while key:
        if fields := fields_at(model, key[:-1]):
            return str(fields.get(str(key[-1]), {}).get("description", ""))
        key = key[:-1]
    return ""


def values_in_words(model: type[BaseModel], key: Key) -> str:
    """Return the values that a key may have: `a whole number, 1 or more`."""
    nodes = [node for node in nodes_at(model, key) if node.get("type") != "null"]
    return " or ".join(dict.fromkeys(map(_node_in_words, nodes))) or "a value"


def fields_at(model: type[BaseModel], key: Key) -> dict[str, Node]:
    """Return the JSON Schema properties of the mapping at a key; for a union, of all members."""
    nodes = nodes_at(model, key)
    return {name: field for n in nodes for name, field in n.get("properties", {}).items()}


def nodes_at(model: type[BaseModel], key: Key) -> list[Node]:
    """Return the JSON Schema nodes of a key, one for each member of a union."""
    schema = _schema(model)
    nodes = [schema]
    for part in key:
        nodes = [child for node in nodes for child in _children(node, part, schema)]
    return nodes


def _node_in_words(node: Node) -> str:
    choices = node.get("enum") or [node[word] for word in ("const",) if word in node]
    if choices:
        return " or ".join(map(str, choices))
    if "pattern" in node:
        return PATTERN_WORDS[node["pattern"]]
    return "".join((*_type_in_words(node), *_bounds_in_words(node)))


def _type_in_words(node: Node) -> Iterator[str]:
    if node.get("format") == "date":
        yield "a date, YYYY-MM-DD"
    else:
        yield WORDS["types"].get(str(node.get("type")), "a value")
    if required := node.get("required"):
        yield f" with {', '.join(required)}"
    if examples := node.get("examples"):
        yield f" such as {examples[0]}"


def _bounds_in_words(node: Node) -> Iterator[str]:
    if "exclusiveMinimum" in node:
        yield f", more than {node['exclusiveMinimum']:g}"
    if abs(least := node.get("minimum", -_GUARD)) < _GUARD:
        yield f", {least:g} or more"
    if (most := node.get("maximum", _GUARD)) < _GUARD:
        yield f", {most:g} or less"
    if entries := node.get("minItems"):
        yield f" of {entries} or more entries"


@cache
def _schema(model: type[BaseModel]) -> Node:
    return model.model_json_schema()


def _children(node: Node, part: str | int, root: Node) -> list[Node]:
    child = node.get("items") if isinstance(part, int) else node.get("properties", {}).get(part)
    if child is None and isinstance(part, str):
        free = node.get("additionalProperties")
        child = free if isinstance(free, dict) else None
    return _resolved(child, root) if child else []


def _resolved(node: Node, root: Node) -> list[Node]:
    if "$ref" in node:
        return _resolved(root["$defs"][node["$ref"].rsplit("/", 1)[1]], root)
    alternatives = node.get("anyOf") or node.get("oneOf")
    if alternatives:
        return [leaf for alternative in alternatives for leaf in _resolved(alternative, root)]
    return [node]
