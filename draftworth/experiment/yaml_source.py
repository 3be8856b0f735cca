"""The text of an experiment file as data, with the line of every key."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from draftworth.errors import ExperimentError, Key, Problem, UserInputError

_EXAMPLE = "experiments/qwen3-32b.yaml"
_NOT_TEXT = "a key is not text: put it in quotes if it is meant as one"
_TAG = "a tag names a type of a program; an experiment has text, numbers, lists and mappings"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """A file's data and the 1-based line of every key."""

    path: Path
    data: Mapping[str, Any]
    lines: Mapping[Key, int]

    def refused(self, problems: Iterable[Problem]) -> ExperimentError:
        """The error that tells these problems, each with the line of its key or of one around."""
        placed = [dataclasses.replace(p, line=self._line(p.key)) for p in problems]
        return ExperimentError(self.path, sorted(placed, key=lambda p: p.line or 0))

    def _line(self, key: Key) -> int | None:
        while key and key not in self.lines:
            key = key[:-1]
        return self.lines.get(key)


def read_source(path: Path) -> Source:
    """Read an experiment file.

    Raises:
        ExperimentError: it is not YAML, a key stands twice, or it is not a mapping.
        UserInputError: it cannot be read.
    """
    text = _read(path)
    try:
        data = YAML(typ="rt", pure=True).load(text)
    except MarkedYAMLError as error:
        problem = Problem(
            key=(),
            given="text that is not YAML",
            allowed="YAML, each key once",
            line=error.problem_mark.line + 1 if error.problem_mark else None,
            reason=" ".join(str(error.problem or error.context).split()),
        )
        raise ExperimentError(path, [problem]) from error
    except YAMLError as error:
        raise UserInputError(f"{path}: not YAML: {error}") from error
    if not isinstance(data, CommentedMap):
        problem = Problem(
            key=(),
            given="no mapping" if data else "nothing",
            allowed="a mapping with name, release, target, ...",
            reason=f"an experiment is a mapping; copy {_EXAMPLE} and edit it",
        )
        raise ExperimentError(path, [problem])
    nodes = list(_nodes(data, ()))
    source = Source(path=path, data=data, lines={(): 1} | {key: line for key, line, _ in nodes})
    if problems := [p for key, _, node in nodes if (p := _unusual(key, node))]:
        raise source.refused(problems)
    return source


def _nodes(node: Any, key: Key) -> Iterator[tuple[Key, int, Any]]:
    """Key, line and value of everything below a node, as the parser noted them."""
    if isinstance(node, CommentedMap | CommentedSeq):
        for name, item in node.items() if isinstance(node, CommentedMap) else enumerate(node):
            place = node.lc.data[name] if node.lc.data else (node.lc.line,)
            yield (*key, name), place[0] + 1, item
            yield from _nodes(item, (*key, name))


def _unusual(key: Key, node: Any) -> Problem | None:
    """What YAML allows and an experiment does not use: keys that are not text, tags."""
    if not isinstance(key[-1], str | int) or (isinstance(key[-1], int) and len(key) == 1):
        return Problem(key=key, given=f"the key {key[-1]!r}", allowed="text", reason=_NOT_TEXT)
    if getattr(getattr(node, "tag", None), "value", None):
        return Problem(key=key, given=f"the tag {node.tag.value}", allowed="no tags", reason=_TAG)
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        nearby = sorted(p.name for p in path.parent.glob("*.yaml")) if path.parent.is_dir() else []
        hint = f"; {path.parent} has {', '.join(nearby)}" if nearby else ""
        raise UserInputError(
            f"{path}: no such experiment file{hint}. Give the path of a YAML file, for example "
            f"{_EXAMPLE}"
        ) from error
    except IsADirectoryError as error:
        raise UserInputError(
            f"{path}: a folder; give the path of a YAML file, for example {_EXAMPLE}"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserInputError(f"{path}: cannot be read as UTF-8 text: {error}") from error
