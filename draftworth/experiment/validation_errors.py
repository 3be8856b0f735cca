"""Translates pydantic's errors into problems in the words of the experiment file."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from draftworth.errors import Key, Problem, suggestion
from draftworth.experiment import schema_words
from draftworth.experiment.catalog import NO_SPECULATION, catalog
from draftworth.experiment.strict import PATTERN_WORDS, WORDS
from draftworth.experiment.variants import methods_on, unserved_method
from draftworth.experiment.workload import ONE, SEVERAL

# The index of the variant's tag in `loc`, the location that pydantic gives for an error.
_VARIANT_TAG_AT = 2


def shape_problems(
    error: ValidationError, data: Mapping[str, Any], model: type[BaseModel]
) -> Iterator[Problem]:
    """Yield a problem for each of pydantic's errors about `data`, the content of the file."""
    for detail in error.errors():
        if not _is_repeated(detail, data):
            yield replace(_problem(detail, data, model), code=detail["type"].replace("_", "-"))


def shown(value: object) -> str:
    """Return a value of the file as JSON on one line, cut to 80 characters."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."


def misspelt_key(name: str, given: Iterable[str]) -> str:
    """Return `; did you mean 'kind' by 'knd'?`; empty if no key in `given` resembles `name`."""
    misspelt = [key for key in given if suggestion(key, [name])]
    return f"; did you mean {name!r} by {misspelt[0]!r}?" if misspelt else ""


def _is_repeated(detail: ErrorDetails, data: Any) -> bool:
    # pydantic reports a list of wrong entries a second time, as too short.
    given = _at(data, _without_tags(detail["loc"]))
    return (
        detail["type"] == "too_short"
        and isinstance(given, tuple)
        and len(given) >= detail["ctx"]["min_length"]
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
            given="nothing",
            allowed=schema_words.values_in_words(model, key),
            reason="; ".join(
                filter(None, ("this key is required", schema_words.description(model, key)))
            ),
        )
    return Problem(
        key=key,
        given=shown(_at(data, key)),
        allowed=_allowed(detail, model, key),
        reason=schema_words.description(model, key) or detail["msg"],
    )


def _without_tags(location: Key) -> Key:
    """Return an error's location as a key, without the tags that pydantic adds for unions."""
    return tuple(
        part
        for place, part in enumerate(location)
        if part not in (ONE, SEVERAL)
        and not (location[0] == "variants" and place == _VARIANT_TAG_AT)
    )


def _unknown_method(key: Key, data: Any, model: type[BaseModel]) -> Problem:
    node, key = _at(data, key), (*key, "method")
    keys = [str(k) for k in node] if isinstance(node, dict) else []
    given = node["method"] if "method" in keys else None
    if str(given) in catalog().unserved_methods:
        return unserved_method(key, str(given), data["release"])
    if "method" in keys:
        told, nearest = shown(given), suggestion(given, [NO_SPECULATION, *catalog().methods])
    else:
        told, nearest = "nothing", misspelt_key("method", keys)
    reason = schema_words.description(model, key) + nearest
    return Problem(key=key, given=told, allowed=methods_on(data["release"]), reason=reason)


def _allowed(detail: ErrorDetails, model: type[BaseModel], key: Key) -> str:
    kind, limits = detail["type"], detail.get("ctx", {})
    if kind in WORDS["other_type"]:
        return schema_words.values_in_words(model, key) + WORDS["other_type"][kind]
    if kind == "string_pattern_mismatch":
        return PATTERN_WORDS[limits["pattern"]]
    allowed = WORDS["allowed"].get(kind)
    return allowed.format(**limits) if allowed else detail["msg"]


def _unknown_key(key: Key, data: Any, model: type[BaseModel]) -> Problem:
    nodes, around = schema_words.nodes_at(model, key[:-1]), _at(data, key[:-1])
    known = sorted(name for n in nodes if _is_meant(n, around) for name in n.get("properties", {}))
    hint = _where_it_belongs(key[-1], model) or suggestion(key[-1], known)
    if renamed := WORDS["renamed"].get(str(key[-1])):
        known, hint = [f"in its place {renamed}"], ""
    return Problem(
        key=key,
        given=f"an unknown key, {key[-1]!r}",
        allowed=", ".join(known),
        reason="a key that is ignored would make the file mean something else than it says" + hint,
    )


def _is_meant(node: dict[str, Any], data: Any) -> bool:
    method, given = node.get("properties", {}).get("method", {}), data.get("method")
    return given in method.get("enum", [method.get("const", given)])


def _where_it_belongs(name: str | int, model: type[BaseModel]) -> str:
    top = schema_words.fields_at(model, ())
    if name in top:
        return f"; {name!r} belongs to the top level"
    sections = [section for section in top if name in schema_words.fields_at(model, (section,))]
    return f"; {name!r} belongs into {' or '.join(sections)}" if sections else ""


def _at(data: Any, key: Key) -> Any:
    for part in key:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data
