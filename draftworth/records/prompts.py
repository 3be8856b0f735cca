"""Prompt sets: JSON Lines files, one file a case, one folder a prompt class.

A line is `{"id": "count-01", "prompt": "Count from ..."}` or, for a conversation,
`{"id": "chat-01", "messages": [{"role": "user", "content": "..."}]}`. Standard library only: the
load generator's pod reads prompts with this module too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftworth.errors import PromptSetError
from draftworth.untrusted import MIB

CASE_SUFFIX = ".jsonl"
# Of all prompts of an experiment, as JSON: the load generator's memory holds them several times
# while it reads them.
MAX_PROMPT_BYTES = 128 * MIB
_EXAMPLE = 'a line is {"id": "count-01", "prompt": "Count from 1 to 200."}'
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
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise PromptSetError(f"{path}: cannot be read as UTF-8 text: {error}") from error
    lines = enumerate(text.split("\n"), start=1)
    prompts = tuple(_parse_prompt(line, f"{path}:{n}") for n, line in lines if line.strip())
    if not prompts:
        raise PromptSetError(f"{path}: no prompts; allowed: one or more lines; {_EXAMPLE}")
    ids = [prompt.id for prompt in prompts]
    twice = sorted({i for i in ids if ids.count(i) > 1})
    if twice:
        raise PromptSetError(
            f"{path}: ids given twice: {', '.join(twice)}; allowed: ids that are unique in the "
            "file, because results are paired by them"
        )
    return Case(prompt_class=prompt_class, name=path.stem, prompts=prompts)


def _parse_prompt(line: str, where: str) -> Prompt:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise PromptSetError(f"{where}: not JSON ({error}); {_EXAMPLE}") from error
    if not isinstance(value, dict) or set(value) not in ({"id", "prompt"}, {"id", "messages"}):
        given = ", ".join(sorted(value)) if isinstance(value, dict) else type(value).__name__
        raise PromptSetError(
            f"{where}: given: {given}; allowed: the keys id and prompt, or id and messages; "
            f"{_EXAMPLE}"
        )
    if not isinstance(value["id"], str) or not value["id"]:
        raise PromptSetError(f"{where}: id: given {value['id']!r}; allowed: text; {_EXAMPLE}")
    return Prompt(id=value["id"], messages=_messages(value, where))


def _messages(value: Mapping[str, Any], where: str) -> tuple[Mapping[str, str], ...]:
    if "prompt" in value:
        prompt = value["prompt"]
        if not isinstance(prompt, str) or not prompt.strip():
            raise PromptSetError(f"{where}: prompt: given {prompt!r}; allowed: text; {_EXAMPLE}")
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
