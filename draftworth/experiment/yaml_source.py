"""Reads the YAML text of an experiment file as data, with the line of every key.

The parser's events are checked one by one, so that a harmful file (too deep, with aliases or tags)
is refused before a value is built.
"""

import dataclasses
import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from yaml import events
from yaml.reader import ReaderError

from draftworth.errors import ExperimentError, Key, Problem, UserInputError, path_suggestion
from draftworth.experiment.strict_model import WORDS
from draftworth.records.codec import INT64
from draftworth.untrusted import TooLargeError, one_line, printable, read_file

# The most values in one file: ten times as many as in a large experiment with 100 variants and 100
# cases.
MAX_VALUES = 5_000
MAX_DEPTH = 20
# The longest text of an experiment is a sentence.
MAX_TEXT_CHARACTERS = 1_000
_INT64_CHARACTERS = 70  # more than a 64-bit number has in base 2
# The words that YAML 1.2 reads as null, booleans or numbers, and not as text. They are not left to
# PyYAML, because it follows YAML 1.1, where `no` is false too.
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_DECIMAL = re.compile(r"[-+]?[0-9][0-9_]*")
_IN_ANOTHER_BASE = re.compile(r"[-+]?0[box][0-9a-fA-F_]+")
_FRACTION = re.compile(r"[-+]?(\.[0-9]|[0-9][0-9_]*\.?)[0-9_]*([eE][-+]?[0-9]+)?")
_NOT_TEXT = "a key is not text: put it in quotes if it is meant as one"
_IN_PLACE = "an experiment says everything in the place where it counts"

# CloudFormation, CDK and Kubernetes would replace text that begins with these characters.
_SUBSTITUTED = re.compile(r"\$\{|\{\{resolve:|#\{Token\[|\$\(")


# Fifty times the largest shipped file; any text of this size is parsed within a second.
MAX_FILE_BYTES = 256 * 1024
_EXAMPLE = "experiments/qwen3-32b.yaml"


class ExperimentSource:
    """The YAML document of a file, converted to types that pydantic's strict mode accepts.

    data: dicts, tuples, text, numbers, booleans and None; dates stay text.
    lines: {path of a key: number of the line where it stands, from 1}.
    problems: one for each text or number that no experiment may have, such as control characters.

    The constructor raises ExperimentError at the first place that is not plain YAML.
    """

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.lines: dict[Key, int] = {(): 1}
        self.problems: list[Problem] = []
        self._text = text
        self._events = self._parsed()
        self.data = self._document()

    def _parsed(self) -> Iterator[yaml.Event]:
        try:
            yield from yaml.parse(self._text, Loader=yaml.CSafeLoader)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else None
            raise self._not_yaml(error.problem or error.context, line) from error
        except ReaderError as error:
            line = self._text.count("\n", 0, error.position) + 1
            raise self._not_yaml(f"the character U+{error.character:04X}", line) from error

    def _document(self) -> Any:
        next(self._events)
        first = next(self._events)
        if isinstance(first, events.StreamEndEvent):
            return None
        data = self._value(next(self._events), ())
        _, after = next(self._events), next(self._events)
        if not isinstance(after, events.StreamEndEvent):
            raise self._refused(after, (), "a second document", "one document", "a file is one")
        return data

    def _value(self, event: Any, key: Key) -> Any:
        self._check_form(event, key)
        if isinstance(event, events.MappingStartEvent):
            return self._mapping(key)
        if isinstance(event, events.SequenceStartEvent):
            return self._list(key)
        return self._scalar(event, key)

    def _check_form(self, event: Any, key: Key) -> None:
        if isinstance(event, events.AliasEvent):
            actual, allowed = f"the alias *{event.anchor}", "the value itself"
            raise self._refused(event, key, actual, allowed, _IN_PLACE)
        if event.tag is not None:
            reason = "a tag names a type of a program; an experiment has text, numbers, lists and "
            raise self._refused(event, key, f"the tag {event.tag}", "no tags", reason + "mappings")
        if len(key) > MAX_DEPTH:
            actual, allowed = "a value at a greater depth", f"at most {MAX_DEPTH} levels"
            reason = "no key of an experiment is so deep"
            raise self._refused(event, key[:2], actual, allowed, reason)
        if len(self.lines) > MAX_VALUES:
            actual, allowed = f"more than {MAX_VALUES:,} values", f"at most {MAX_VALUES:,}"
            raise self._refused(event, (), actual, allowed, "no experiment has so many")

    def _mapping(self, key: Key) -> dict[str, Any]:
        data: dict[str, Any] = {}
        while not isinstance(event := next(self._events), events.MappingEndEvent):
            name = self._name(event, key)
            place = (*key, name)
            if name in data:
                actual = f'found duplicate key "{name}"'
                raise self._refused(event, place, actual, "each key once", "only one can count")
            self.lines[place] = _line(event)
            self._check_text(name, place)
            data[name] = self._value(next(self._events), place)
        return data

    def _name(self, event: yaml.Event, key: Key) -> str:
        self._check_form(event, key)
        if not isinstance(event, yaml.ScalarEvent):
            raise self._refused(event, key, "a list or mapping as a key", "text", _NOT_TEXT)
        name = _plain(event)
        if not isinstance(name, str):
            raise self._refused(event, key, f"the key {name!r}", "text", _NOT_TEXT)
        if name == "<<":
            raise self._refused(event, key, "the merge key <<", "the keys themselves", _IN_PLACE)
        return name

    def _list(self, key: Key) -> tuple[Any, ...]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), events.SequenceEndEvent):
            place = (*key, len(items))
            self.lines[place] = _line(event)
            items.append(self._value(event, place))
        return tuple(items)

    def _scalar(self, event: yaml.ScalarEvent, key: Key) -> Any:
        value = _plain(event)
        if isinstance(value, str):
            self._check_text(value, key)
        elif isinstance(value, int | float):
            fits = value in INT64 if isinstance(value, int) else math.isfinite(value)
            if not fits:
                allowed = "a finite number, a whole one of at most 64 bits"
                self._add(key, event.value, allowed, "no quantity of an experiment is larger")
        return value

    def _check_text(self, text: str, key: Key) -> None:
        if len(text) > MAX_TEXT_CHARACTERS:
            allowed = f"at most {MAX_TEXT_CHARACTERS:,} characters"
            self._add(key, f"{len(text):,} characters", allowed, "a sentence is enough")
        quoted = json.dumps(text, ensure_ascii=False)
        if printable(text) != text:
            reason = "all text is shown in terminals and written to templates"
            self._add(key, quoted, "visible characters, spaces and line ends", reason)
        if _SUBSTITUTED.search(text):
            allowed = "text without ${, {{resolve:, #{Token[ and $("
            reason = "CloudFormation and CDK, or Kubernetes, put something else in its place"
            self._add(key, quoted, allowed, reason)

    def _add(self, key: Key, actual: str, allowed: str, reason: str) -> None:
        self.problems.append(Problem(key=key, actual=actual, allowed=allowed, reason=reason))

    def _not_yaml(self, reason: object, line: int | None) -> ExperimentError:
        words = " ".join(str(reason).split())
        hints = (hint for mistake, hint in WORDS["yaml_hints"].items() if mistake in words)
        reasons = "; ".join((words, *hints))
        return self._refused(line, (), "text that is not YAML", "YAML, each key once", reasons)

    def _refused(
        self, where: yaml.Event | int | None, key: Key, actual: str, allowed: str, reason: str
    ) -> ExperimentError:
        problem = Problem(key=key, actual=actual, allowed=allowed, reason=reason)
        line = _line(where) if isinstance(where, yaml.Event) else where
        return ExperimentError(self.path, [_printable(problem, line)])

    def refused(self, problems: Iterable[Problem]) -> ExperimentError:
        """Return an error with all `problems`, sorted by the line of their key (or parent key)."""
        placed = [_printable(p, self._line(p.key)) for p in problems]
        return ExperimentError(self.path, sorted(placed, key=lambda p: p.line or 0))

    def _line(self, key: Key) -> int | None:
        while key and key not in self.lines:
            key = key[:-1]
        return self.lines.get(key)


def read_source(path: Path, *, example: str = _EXAMPLE) -> ExperimentSource:
    """Parse a YAML file, whose content must be a mapping.

    example: the path of a correct file, which messages name.

    Raises:
        UserInputError: the file cannot be read.
        ExperimentError: it is not plain YAML, or has a value that no file may have.
    """
    source = ExperimentSource(path, _read(path, example))
    if not isinstance(source.data, dict):
        problem = Problem(
            key=(),
            actual="a value that is not a mapping" if source.data else "nothing",
            allowed=f"a mapping with the keys of {example}",
            reason="each setting has a name; copy that file and edit it",
        )
        raise ExperimentError(path, [problem])
    if source.problems:
        raise source.refused(source.problems)
    return source


def _plain(event: yaml.ScalarEvent) -> Any:
    """Return the value of a YAML scalar: None, a boolean, a number or text.

    A date stays text; so does `0x_`, which looks like a number and is none.
    """
    text: str = event.value
    if not event.implicit[0]:  # it is in quotes
        return text
    if text in _WORDS:
        return _WORDS[text]
    decimal, based = _DECIMAL.fullmatch(text), _IN_ANOTHER_BASE.fullmatch(text)
    try:
        if decimal or based:
            is_long = len(text) > _INT64_CHARACTERS
            return math.inf if is_long else int(text, 10 if decimal else 0)
        return float(text) if _FRACTION.fullmatch(text) else text
    except ValueError:
        return text


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _printable(problem: Problem, line: int | None) -> Problem:
    key = tuple(one_line(k, characters=60) if isinstance(k, str) else k for k in problem.key)
    words = {name: one_line(getattr(problem, name)) for name in ("actual", "allowed", "reason")}
    return dataclasses.replace(problem, key=key, line=line, **words)


_ERROR_NUMBER = re.compile(r"^\[Errno \d+\] ")


def _read(path: Path, example: str) -> str:
    printed_path = one_line(str(path))
    next_step = f"give the path of a YAML file, for example {example}"
    if os.path.isfile(path) and path.suffix not in (".yaml", ".yml"):
        raise UserInputError(
            f"{printed_path}: given a file whose name ends with {path.suffix or 'no suffix'!r}, "
            f"allowed: a name that ends with .yaml, such as {example}; next: for an experiment, "
            "`draftworth init FILE.yaml` writes one"
        )
    try:
        return read_file(path, MAX_FILE_BYTES).decode("utf-8-sig")
    except FileNotFoundError as error:
        files = path.parent.glob("*.yaml") if path.parent.is_dir() else ()
        nearby = sorted(p.name for p in files if not p.name.startswith("."))
        listing = f"; {path.parent} has {', '.join(nearby)}" if nearby else ""
        hint = path_suggestion(path) or listing
        raise UserInputError(
            f"{printed_path}: no such file{one_line(hint)}; next: {next_step}"
        ) from error
    except (OSError, TooLargeError, UnicodeDecodeError) as error:
        why = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else one_line(str(error))
        why = _ERROR_NUMBER.sub("", why)
        raise UserInputError(f"{printed_path}: cannot be read: {why}; next: {next_step}") from error
