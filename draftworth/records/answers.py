"""Answers that a log had to the prompts of a case: JSON Lines beside the prompts, paired by id.

They are what a model said in the past, `{"id": "chat-000017", "text": "..."}`; no run sends them.
They lie in a folder of their own, because every JSON Lines file of a class's folder is a case.
Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from draftworth.errors import PromptSetError
from draftworth.records.codec import RecordError, load_record
from draftworth.records.prompts import lines_of
from draftworth.untrusted import one_line, open_file

ANSWERS_FOLDER = "answers"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What was answered to the prompt with this id: content, then calls of tools."""

    id: str
    text: str


def answers_path(case: Path) -> Path:
    """Where the answers to the prompts of a case's file are."""
    return case.parent / ANSWERS_FOLDER / case.name


def load_answers(path: Path, prompt_ids: Iterable[str]) -> Mapping[str, str]:
    """The texts of a file by prompt id; a prompt may have none.

    Raises:
        PromptSetError: with file, line, what was given and what is allowed.
    """
    known = {*prompt_ids}
    found: dict[str, str] = {}
    try:
        with open_file(path) as file:
            for where, line in lines_of(file, path):
                answer = _answer(line, where)
                if answer.id not in known or answer.id in found:
                    raise PromptSetError(
                        f"{where}: id: given {one_line(answer.id, characters=80)!r}; allowed: each "
                        "id of the prompt file at most once"
                    )
                found[answer.id] = answer.text
    except OSError as error:
        raise PromptSetError(f"{path}: cannot be read as UTF-8 text: {error}") from error
    return found


def _answer(line: bytes, where: str) -> Answer:
    try:
        return load_record(Answer, line)
    except RecordError as error:
        raise PromptSetError(
            f'{where}: {error}; a line is {{"id": "chat-000017", "text": "Count to 200."}}'
        ) from error
