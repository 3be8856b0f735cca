"""Prompt sets: JSON Lines files, one file a case, one folder a prompt class.

A line is `{"id": "count-01", "prompt": "Count from ..."}` or, for a conversation,
`{"id": "chat-01", "messages": [{"role": "user", "content": "..."}]}`. Standard library only: the
load generator's pod reads prompts with this module too.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from draftworth.errors import PromptSetError
from draftworth.records.codec import RecordError, load_object
from draftworth.untrusted import MIB, one_line, open_file

CASE_SUFFIX = ".jsonl"
# Of all prompts of an experiment, as JSON: the load generator's memory holds them several times
# while it reads them.
MAX_PROMPT_BYTES = 128 * MIB
_EXAMPLE = 'a line is {"id": "count-01", "prompt": "Count from 1 to 200."}'
# A line is a conversation as long as a context of a million tokens.
MAX_LINE_BYTES = 4 * MIB
MAX_FILE_BYTES = 64 * MIB
MAX_LINES = 100_000
# Parts of the names of result files, of object keys, and dimensions of metrics.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")
PLAIN_NAME_WORDS = (
    "1 to 64 letters, digits, spaces, dots, hyphens and underscores of ASCII, a letter or digit "
    "first"
)
_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One prompt of a case, as chat messages."""

    id: str
    messages: tuple[Mapping[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One prompt set of a prompt class."""

    prompt_class: str
    name: str
    prompts: tuple[Prompt, ...]


def load_case(path: Path, *, prompt_class: str) -> Case:
    """Read one prompt file.

    Raises:
        PromptSetError: with file, line, what was given and what is allowed.
    """
    _check_names(path, prompt_class)
    try:
        with open_file(path) as file:
            prompts = tuple(_parse_prompt(line, where) for where, line in _lines(file, path))
    except OSError as error:
        raise PromptSetError(f"{path}: cannot be read as UTF-8 text: {error}") from error
    if not prompts:
        raise PromptSetError(f"{path}: no prompts; allowed: one or more lines; {_EXAMPLE}")
    counts = Counter(prompt.id for prompt in prompts)
    if len(counts) < len(prompts):
        twice = sorted(prompt_id for prompt_id, count in counts.items() if count > 1)
        raise PromptSetError(
            f"{path}: ids given twice: {one_line(', '.join(twice))}; allowed: ids that are unique "
            "in the file, because results are paired by them"
        )
    return Case(prompt_class=prompt_class, name=path.stem, prompts=prompts)


def is_plain_name(text: str) -> bool:
    """Whether a name can be a part of file names, of object keys and of metrics."""
    return _PLAIN_NAME.fullmatch(text) is not None


def _check_names(path: Path, prompt_class: str) -> None:
    for what, name in (("a prompt class", prompt_class), ("a case", path.stem)):
        if not is_plain_name(name):
            raise PromptSetError(
                f"{one_line(str(path))}: the name of {what}: given {one_line(repr(name))}; "
                f"allowed: {PLAIN_NAME_WORDS}, because it is part of file names and of metrics; "
                "rename the file, or the folder that it lies in"
            )


def _lines(file: BinaryIO, path: Path) -> Iterator[tuple[str, bytes]]:
    """Every line that is not empty, with its place in the file; never much more than one line."""
    size_bytes = 0
    for number in count(1):
        line = file.readline(MAX_LINE_BYTES + 1)
        size_bytes += len(line)
        if not line:
            return
        for given, allowed, what in (
            (len(line), MAX_LINE_BYTES, "bytes in this line"),
            (size_bytes, MAX_FILE_BYTES, "bytes up to here"),
            (number, MAX_LINES, "lines"),
        ):
            if given > allowed:
                raise PromptSetError(
                    f"{path}:{number}: more than {allowed:,} {what}; take a sample of the prompts, "
                    "or several files"
                )
        line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if line.strip():
            yield f"{path}:{number}", line


def _parse_prompt(line: bytes, where: str) -> Prompt:
    try:
        value = load_object(line)
    except RecordError as error:
        raise PromptSetError(f"{where}: {error}; {_EXAMPLE}") from error
    if set(value) not in ({"id", "prompt"}, {"id", "messages"}):
        raise PromptSetError(
            f"{where}: given: {one_line(', '.join(sorted(value)))}; allowed: the keys id and "
            f"prompt, or id and messages; {_EXAMPLE}"
        )
    prompt_id = value["id"]
    if not (isinstance(prompt_id, str) and prompt_id.isprintable() and 0 < len(prompt_id) <= 200):
        raise PromptSetError(
            f"{where}: id: given {_shown(prompt_id)}; allowed: text of 1 to 200 characters; "
            f"{_EXAMPLE}"
        )
    prompt = Prompt(id=prompt_id, messages=_messages(value, where))
    if any("\x00" in message["content"] for message in prompt.messages):
        raise PromptSetError(
            f"{where}: the character NUL in a prompt; allowed: text, which has none"
        )
    return prompt


def _messages(value: Mapping[str, Any], where: str) -> tuple[Mapping[str, str], ...]:
    if "prompt" in value:
        prompt = value["prompt"]
        if not isinstance(prompt, str) or not prompt.strip():
            raise PromptSetError(
                f"{where}: prompt: given {_shown(prompt)}; allowed: text; {_EXAMPLE}"
            )
        return ({"role": "user", "content": prompt},)
    messages = value["messages"]
    if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):
        raise PromptSetError(
            f"{where}: messages: allowed: a list of objects with role ({', '.join(_ROLES)}) and "
            "content (text), at least one"
        )
    return tuple({"role": m["role"], "content": m["content"]} for m in messages)


def _is_message(value: object) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == {"role", "content"}
        and value["role"] in _ROLES
        and isinstance(value["content"], str)
    )


def _shown(value: object) -> str:
    return one_line(repr(value), characters=60)
