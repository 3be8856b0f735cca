"""Translates pydantic's errors into problems in the words of the experiment file.

The meaning of a key and its allowed values are read from the JSON Schema.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from draftworth.errors import Key, Problem, suggestion
from draftworth.experiment.catalog import NO_SPECULATION, catalog
from draftworth.experiment.strict_model import PATTERN_WORDS, WORDS
from draftworth.experiment.variants import methods_on, unserved_method
from draftworth.experiment.workload import ONE, SEVERAL

# The location that pydantic gives for an error in a variant, ("variants", number, tag, key, ...),
# has the tag of the variant's class at this index.
_VARIANT_TAG_AT = 2


def shape_problems(
    error: ValidationError, data: Mapping[str, Any], model: type[BaseModel]
) -> Iterator[Problem]:
    """Yield a `Problem` for each of pydantic's errors about an experiment file.

    data: the content of the file. model: the class that pydantic should have made of it.
    """
    for detail in error.errors():
        if not _is_repeated(detail, data):
            yield replace(_problem(detail, data, model), code=detail["type"].replace("_", "-"))


def json_excerpt(value: object) -> str:
    """Return a value of the file as JSON on one line, cut to 80 characters."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."


def misspelt_key(name: str, keys: Iterable[str]) -> str:
    """Return `; did you mean 'kind' by 'knd'?`; empty if none of `keys` resembles `name`.

    name: a key that is missing in the file (here `kind`). keys: those that are there (here `knd`).
    """
    misspelt = [key for key in keys if suggestion(key, [name])]
    return f"; did you mean {name!r} by {misspelt[0]!r}?" if misspelt else ""


def _is_repeated(detail: ErrorDetails, data: Any) -> bool:
    # If a list has wrong entries, pydantic reports these and, in addition, that the list is too
    # short. The second error is false if the file's list has enough entries.
    entries = _at(data, _without_tags(detail["loc"]))
    return (
        detail["type"] == "too_short"
        and isinstance(entries, tuple)
        and len(entries) >= detail["ctx"]["min_length"]
    )


def _problem(detail: ErrorDetails, data: Any, model: type[BaseModel]) -> Problem:
    key, kind = _without_tags(detail["loc"]), detail["type"]
    if kind == "extra_forbidden":
        return _unknown_key(key, data, model)
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _unknown_method(key, data, model)
    if kind == "missing":
        return Problem(
            key=key,
            actual="nothing",
            allowed=values_in_words(model, key),
            reason="; ".join(filter(None, ("this key is required", description(model, key)))),
        )
    return Problem(
        key=key,
        actual=json_excerpt(_at(data, key)),
        allowed=_allowed(detail, model, key),
        reason=description(model, key) or detail["msg"],
    )


def _without_tags(location: Key) -> Key:
    """Return the key path in the file of a pydantic error's location.

    pydantic adds the tags of unions to a location; they are no keys, so they are left out.
    """
    return tuple(
        part
        for place, part in enumerate(location)
        if part not in (ONE, SEVERAL)
        and not (location[0] == "variants" and place == _VARIANT_TAG_AT)
    )


def _unknown_method(key: Key, data: Any, model: type[BaseModel]) -> Problem:
    node, key = _at(data, key), (*key, "method")
    keys = [str(k) for k in node] if isinstance(node, dict) else []
    method = node["method"] if "method" in keys else None
    if str(method) in catalog().unserved_methods:
        return unserved_method(key, str(method), data["release"])
    if "method" in keys:
        method_words = json_excerpt(method)
        nearest = suggestion(method, [NO_SPECULATION, *catalog().methods])
    else:
        method_words, nearest = "nothing", misspelt_key("method", keys)
    reason = description(model, key) + nearest
    return Problem(key=key, actual=method_words, allowed=methods_on(data["release"]), reason=reason)


def _allowed(detail: ErrorDetails, model: type[BaseModel], key: Key) -> str:
    kind, limits = detail["type"], detail.get("ctx", {})
    if kind in WORDS["other_type"]:
        return values_in_words(model, key) + WORDS["other_type"][kind]
    if kind == "string_pattern_mismatch":
        return PATTERN_WORDS[limits["pattern"]]
    allowed = WORDS["allowed"].get(kind)
    return allowed.format(**limits) if allowed else detail["msg"]


def _unknown_key(key: Key, data: Any, model: type[BaseModel]) -> Problem:
    nodes, around = nodes_at(model, key[:-1]), _at(data, key[:-1])
    allowed_keys = sorted(
        name for n in nodes if _is_meant(n, around) for name in n.get("properties", {})
    )
    hint = _where_it_belongs(key[-1], model) or suggestion(key[-1], allowed_keys)
    if renamed := WORDS["renamed"].get(str(key[-1])):
        allowed_keys, hint = [f"in its place {renamed}"], ""
    return Problem(
        key=key,
        actual=f"an unknown key, {key[-1]!r}",
        allowed=", ".join(allowed_keys),
        reason="a key that is ignored would make the file mean something else than it says" + hint,
    )


def _is_meant(node: dict[str, Any], data: Any) -> bool:
    method, chosen = node.get("properties", {}).get("method", {}), data.get("method")
    return chosen in method.get("enum", [method.get("const", chosen)])


def _where_it_belongs(name: str | int, model: type[BaseModel]) -> str:
    top = fields_at(model, ())
    if name in top:
        return f"; {name!r} belongs to the top level"
    sections = [section for section in top if name in fields_at(model, (section,))]
    return f"; {name!r} belongs into {' or '.join(sections)}" if sections else ""


def _at(data: Any, key: Key) -> Any:
    for part in key:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


# A limit of a million or more only catches typing errors, so no message shows it.
_GUARD = 1_000_000
Node = dict[str, Any]


def description(model: type[BaseModel], key: Key) -> str:
    """Return a key's description in the JSON Schema; empty if there is none.

    For an entry of a list, it is the description of the list.
    """
    while key:
        if fields := fields_at(model, key[:-1]):
            return str(fields.get(str(key[-1]), {}).get("description", ""))
        key = key[:-1]
    return ""


def values_in_words(model: type[BaseModel], key: Key) -> str:
    """Return in words the values that a key may have, such as `a whole number, 1 or more`."""
    nodes = [node for node in nodes_at(model, key) if node.get("type") != "null"]
    return " or ".join(dict.fromkeys(map(_node_in_words, nodes))) or "a value"


def fields_at(model: type[BaseModel], key: Key) -> dict[str, Node]:
    """Return the keys that a mapping at a key path may have, as {key: its JSON Schema node}.

    If several types are allowed there (a union), the keys of all of them are returned. The result
    is empty if no mapping is allowed there.
    """
    nodes = nodes_at(model, key)
    return {name: field for n in nodes for name, field in n.get("properties", {}).items()}


def nodes_at(model: type[BaseModel], key: Key) -> list[Node]:
    """Return the JSON Schema nodes at a key path, one per member of a union; empty: no such key."""
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
