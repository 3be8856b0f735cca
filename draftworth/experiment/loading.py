"""From a YAML file to a checked experiment, or to every problem it has.

`load_experiment` is the only way in. Problems of shape (pydantic) and of meaning (`rules`) come out
in one form, each with its line in the file.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from draftworth.errors import ExperimentError, Problem, UserInputError, suggestion
from draftworth.experiment.catalog import catalog
from draftworth.experiment.model import (
    PATTERN_WORDS,
    Experiment,
    LocalExperiment,
    NeuronExperiment,
)
from draftworth.experiment.rules import broken_rules

Key = tuple[str | int, ...]

# What pydantic puts into an error's place to say which type of variant it tried.
VARIANT_TAGS = {"baseline", "speculative"}


def load_experiment(path: Path) -> Experiment:
    """Read and check an experiment file.

    Raises:
        ExperimentError: with every problem found, each with line, key, given, allowed and reason.
        UserInputError: the file cannot be read.
    """
    text = _read(path)
    data, lines = _parse(path, text)
    model = _model_for(path, data, lines)
    try:
        experiment = model.model_validate_json(json.dumps(data))
    except ValidationError as error:
        details = [d for d in error.errors() if not _is_echo(d, data)]
        problems = [_shape_problem(detail, data, model) for detail in details]
        raise ExperimentError(path, _with_lines(problems, lines)) from error
    problems = list(broken_rules(experiment, path))
    if problems:
        raise ExperimentError(path, _with_lines(problems, lines))
    return experiment


def load_neuron_experiment(path: Path) -> NeuronExperiment:
    """Read and check an experiment that runs on AWS.

    Raises:
        UserInputError: the file is wrong, or its experiment is a local one.
    """
    experiment = load_experiment(path)
    if not isinstance(experiment, NeuronExperiment):
        raise UserInputError(
            f"{path}: release\n"
            f"    given:   {experiment.release}, which runs on this machine\n"
            "    allowed: a release for Neuron devices, as in experiments/qwen3-32b.yaml\n"
            "    because: a local experiment has nothing to deploy, no Kubernetes objects and "
            "nothing in an AWS account; `make rehearse` runs it"
        )
    return experiment


def experiment_json_schema() -> dict[str, Any]:
    """The JSON Schema of experiment files, for editors."""
    schema = TypeAdapter(Experiment).json_schema()
    schema["title"] = "draftworth experiment"
    return schema


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        nearby = sorted(p.name for p in path.parent.glob("*.yaml")) if path.parent.is_dir() else []
        hint = f"; {path.parent} has {', '.join(nearby)}" if nearby else ""
        raise UserInputError(
            f"{path}: no such experiment file{hint}. Give the path of a YAML file, for example "
            "experiments/qwen3-32b.yaml"
        ) from error
    except IsADirectoryError as error:
        raise UserInputError(
            f"{path}: a folder; give the path of a YAML file, for example "
            "experiments/qwen3-32b.yaml"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserInputError(f"{path}: cannot be read as UTF-8 text: {error}") from error


class _BadKey(yaml.MarkedYAMLError):
    """A key stands twice (YAML parsers keep the last one without a word) or is not text."""


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses duplicate keys and leaves dates to the model, as text."""


def _mapping_without_duplicates(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise _BadKey(problem=f"key {key!r} is not text", problem_mark=key_node.start_mark)
        if key in seen:
            raise _BadKey(
                problem=f"key {key!r} stands twice in one mapping", problem_mark=key_node.start_mark
            )
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping_without_duplicates)
_Loader.add_constructor(
    "tag:yaml.org,2002:timestamp",
    lambda loader, node: loader.construct_scalar(node),  # type: ignore[arg-type]
)


def _parse(path: Path, text: str) -> tuple[dict[str, Any], dict[Key, int]]:
    """The file's data and the 1-based line of every key."""
    try:
        data = yaml.load(text, Loader=_Loader)  # noqa: S506 (a SafeLoader)
        lines = _line_numbers(yaml.compose(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        problem = Problem(
            key=(),
            given="text that is not YAML",
            allowed="YAML",
            line=line,
            reason=str(error.problem or error.context),
        )
        raise ExperimentError(path, [problem]) from error
    except yaml.YAMLError as error:
        raise UserInputError(f"{path}: not YAML: {error}") from error
    if not isinstance(data, dict):
        problem = Problem(
            key=(),
            given=_show(data),
            allowed="a mapping with name, release, target, ...",
            reason="an experiment is a mapping; copy experiments/qwen3-32b.yaml and edit it",
        )
        raise ExperimentError(path, [problem])
    return data, lines


def _line_numbers(root: yaml.Node | None) -> dict[Key, int]:
    lines: dict[Key, int] = {(): 1}

    def walk(node: yaml.Node, key: Key) -> None:
        if isinstance(node, yaml.MappingNode):
            for key_node, value_node in node.value:
                child = (*key, key_node.value)
                lines[child] = key_node.start_mark.line + 1
                walk(value_node, child)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                lines[(*key, index)] = item.start_mark.line + 1
                walk(item, (*key, index))

    if root is not None:
        walk(root, ())
    return lines


def _model_for(
    path: Path, data: dict[str, Any], lines: dict[Key, int]
) -> type[NeuronExperiment] | type[LocalExperiment]:
    """The release's platform decides which sections the file must have."""
    given = data.get("release")
    releases = catalog().releases
    if not isinstance(given, str) or given not in releases:
        problem = Problem(
            key=("release",),
            given=_show(given) if "release" in data else "nothing",
            allowed=", ".join(releases),
            reason="the release names the serving image and with it what can be served"
            + suggestion(given, releases),
        )
        raise ExperimentError(path, _with_lines([problem], lines))
    return NeuronExperiment if releases[given].platform == "neuron" else LocalExperiment


def _without_tags(location: Key, data: Any) -> Key:
    """An error's place without the union members that pydantic names in it.

    A member with a `kind` is named by it, right after the key that holds the union; `kind: x` may
    have a key `x` too, so only the first such part is a tag.
    """
    key: list[str | int] = []
    node, at_union = data, True
    for part in location:
        is_kind = at_union and isinstance(node, dict) and node.get("kind") == part
        if is_kind or part in VARIANT_TAGS:
            at_union = False
            continue
        key.append(part)
        node, at_union = _at(node, (part,)), True
    return tuple(key)


def _is_echo(detail: ErrorDetails, data: Any) -> bool:
    """A list of wrong entries is also reported as too short: one problem told twice."""
    given = _at(data, tuple(detail["loc"]))
    return (
        detail["type"] == "too_short"
        and isinstance(given, list)
        and len(given) >= detail["ctx"]["min_length"]
    )


def _shape_problem(detail: ErrorDetails, data: Any, model: type[BaseModel]) -> Problem:
    key = _without_tags(detail["loc"], data)
    field_description = _description(model, key)
    kind = detail["type"]
    context = detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(key, model)
    if kind == "missing":
        return Problem(
            key=key,
            given="nothing",
            allowed=field_description or "a value",
            reason="this key is required",
        )
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return Problem(
            key=(*key, "kind"),
            given=_show(_at(data, (*key, "kind"))),
            allowed=str(context.get("expected_tags", "on_demand, spot, capacity_block")).replace(
                "'", ""
            ),
            reason=field_description or "the kind decides which other keys there are",
        )
    return Problem(
        key=key,
        given=_show(_at(data, key)),
        allowed=_allowed(kind, context, detail["msg"], key),
        reason=field_description or detail["msg"],
    )


def _allowed(kind: str, context: dict[str, Any], message: str, key: Key) -> str:
    """pydantic's error type in the words of the file's author."""
    if kind == "literal_error" and key[-1] == "method":
        return f"none, {context['expected']}".replace("'", "").replace(" or ", ", ")
    texts = {
        "literal_error": f"{context.get('expected')}",
        "greater_than_equal": f"{context.get('ge')} or more",
        "greater_than": f"more than {context.get('gt')}",
        "string_too_long": f"at most {context.get('max_length')} characters",
        "string_too_short": f"at least {context.get('min_length')} character(s)",
        "too_short": f"at least {context.get('min_length')} entries",
        "string_pattern_mismatch": PATTERN_WORDS.get(
            context.get("pattern", ""), f"text that matches {context.get('pattern')}"
        ),
        "int_type": "a whole number, not in quotes",
        "int_from_float": "a whole number",
        "float_type": "a number, not in quotes",
        "finite_number": "a finite number",
        "string_type": "text (in quotes if it looks like a number)",
        "bool_type": "true or false",
        "tuple_type": "a list",
        "dict_type": "a mapping",
        "model_type": "a mapping",
        "date_from_datetime_parsing": "a date, YYYY-MM-DD",
        "date_parsing": "a date, YYYY-MM-DD",
        "date_type": "a date, YYYY-MM-DD",
    }
    return texts.get(kind, message)


def _unknown_key(key: Key, model: type[BaseModel]) -> Problem:
    known = sorted(_fields_at(model, key[:-1]))
    return Problem(
        key=key,
        given=f"an unknown key, {key[-1]!r}",
        allowed=", ".join(known),
        reason="a key that is ignored would run another experiment than the file describes"
        + (_where_it_belongs(key[-1], model) or suggestion(key[-1], known)),
    )


def _where_it_belongs(name: str | int, model: type[BaseModel]) -> str:
    """A key that is known, and stands in the wrong section."""
    top = _fields_at(model, ())
    if name in top:
        return f"; {name!r} belongs to the top level"
    sections = [section for section in top if name in _fields_at(model, (section,))]
    return f"; {name!r} belongs into {' or '.join(sections)}" if sections else ""


def _fields_at(model: type[BaseModel], key: Key) -> dict[str, Any]:
    """JSON Schema properties of the mapping(s) a key points to; a union's are put together."""
    schema = model.model_json_schema()
    nodes = [schema]
    for part in key:
        nodes = [child for node in nodes for child in _children(node, part, schema)]
    properties: dict[str, Any] = {}
    for node in nodes:
        properties.update(node.get("properties", {}))
    return properties


def _children(node: dict[str, Any], part: str | int, root: dict[str, Any]) -> list[dict[str, Any]]:
    child = node.get("items") if isinstance(part, int) else node.get("properties", {}).get(part)
    return _resolved(child, root) if child else []


def _resolved(node: dict[str, Any], root: dict[str, Any]) -> list[dict[str, Any]]:
    """A schema node with its reference followed and its alternatives laid out."""
    if "$ref" in node:
        return _resolved(root["$defs"][node["$ref"].rsplit("/", 1)[1]], root)
    alternatives = node.get("anyOf") or node.get("oneOf")
    if alternatives:
        return [leaf for alternative in alternatives for leaf in _resolved(alternative, root)]
    return [node]


def _description(model: type[BaseModel], key: Key) -> str:
    if not key or isinstance(key[-1], int):
        key = key[:-1]
    if not key:
        return ""
    field = _fields_at(model, key[:-1]).get(str(key[-1]), {})
    return str(field.get("description", ""))


def _at(data: Any, key: Key) -> Any:
    for part in key:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _show(value: object) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."


def _with_lines(problems: list[Problem], lines: dict[Key, int]) -> list[Problem]:
    """Give every problem the line of its key, or of the nearest key around it."""

    def line(key: Key) -> int | None:
        while key and key not in lines:
            key = key[:-1]
        return lines.get(key)

    placed = [dataclasses.replace(p, line=line(p.key)) for p in problems]
    return sorted(placed, key=lambda p: p.line or 0)
