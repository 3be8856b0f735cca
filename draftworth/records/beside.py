"""Reads the optional files of a run, written when it is over. Standard library only."""

import os
from pathlib import Path
from typing import Protocol, TypeVar

from draftworth.errors import UserInputError
from draftworth.records.codec import RecordError, load_record
from draftworth.untrusted import TooLargeError, read_file


class _HasRunId(Protocol):
    @property
    def run_id(self) -> str: ...


R = TypeVar("R", bound=_HasRunId)


def read_beside(kind: type[R], path: Path, run_id: str, *, what: str) -> R | None:
    """Read a record from a run's folder; None if the file does not exist.

    what: the contents in words, for error messages.

    Raises:
        UserInputError: the file cannot be read as this record, or belongs to another run.
    """
    if not os.path.lexists(path):
        return None
    try:
        found = load_record(kind, read_file(path))
    except (OSError, RecordError, TooLargeError) as error:
        raise UserInputError(f"{path}: no {what} of this version: {error}") from error
    if found.run_id != run_id:
        raise UserInputError(f"{path}: {what} of run {found.run_id!r}, not of {run_id}")
    return found
