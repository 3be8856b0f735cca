"""The text of an experiment file as data, with the line of every key."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from draftworth.errors import ExperimentError, Key, Problem, UserInputError
from draftworth.experiment.plain_yaml import NotPlainError, PlainYaml
from draftworth.untrusted import TooLargeError, one_line, read_file

# Fifty times the largest one shipped; any text of this size is parsed within a second.
MAX_FILE_BYTES = 256 * 1024
_EXAMPLE = "experiments/qwen3-32b.yaml"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """A file's data and the 1-based line of every key."""

    path: Path
    data: Mapping[str, Any]
    lines: Mapping[Key, int]

    def refused(self, problems: Iterable[Problem]) -> ExperimentError:
        """The error that tells these problems, each with the line of its key or of one around."""
        placed = [_printable(p, self._line(p.key)) for p in problems]
        return ExperimentError(self.path, sorted(placed, key=lambda p: p.line or 0))

    def _line(self, key: Key) -> int | None:
        while key and key not in self.lines:
            key = key[:-1]
        return self.lines.get(key)


def read_source(path: Path) -> Source:
    """Read an experiment file.

    Raises:
        ExperimentError: it is not YAML, has what no experiment uses, or is not a mapping.
        UserInputError: it cannot be read.
    """
    try:
        document = PlainYaml(_read(path))
    except NotPlainError as error:
        raise ExperimentError(path, [_printable(error.problem, error.problem.line)]) from error
    if not isinstance(document.data, dict):
        problem = Problem(
            key=(),
            given="no mapping" if document.data else "nothing",
            allowed="a mapping with name, release, target, ...",
            reason=f"an experiment is a mapping; copy {_EXAMPLE} and edit it",
        )
        raise ExperimentError(path, [problem])
    source = Source(path=path, data=document.data, lines=document.lines)
    if document.problems:
        raise source.refused(document.problems)
    return source


def _printable(problem: Problem, line: int | None) -> Problem:
    """A problem as it is shown: on its line, with no more of the file than a reader needs."""
    key = tuple(one_line(k, characters=60) if isinstance(k, str) else k for k in problem.key)
    return Problem(
        key=key,
        given=one_line(problem.given),
        allowed=one_line(problem.allowed),
        reason=one_line(problem.reason),
        line=line,
    )


def _read(path: Path) -> str:
    shown = one_line(str(path))
    try:
        return read_file(path, MAX_FILE_BYTES).decode("utf-8-sig")
    except FileNotFoundError as error:
        files = path.parent.glob("*.yaml") if path.parent.is_dir() else ()
        nearby = sorted(p.name for p in files if not p.name.startswith("."))
        hint = f"; {path.parent} has {', '.join(nearby)}" if nearby else ""
        raise UserInputError(
            f"{shown}: no such experiment file{one_line(hint)}. Give the path of a YAML file, for "
            f"example {_EXAMPLE}"
        ) from error
    except IsADirectoryError as error:
        raise UserInputError(
            f"{shown}: a folder; give the path of a YAML file, for example {_EXAMPLE}"
        ) from error
    except TooLargeError as error:
        raise UserInputError(
            f"{shown}: {error}, which no experiment file has; give the path of one, for example "
            f"{_EXAMPLE}"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserInputError(
            f"{shown}: cannot be read as UTF-8 text: {one_line(str(error))}"
        ) from error
