"""Reads the records of a log from its files, which are JSON in any layout or tables (CSV).

An entry that is not an object becomes a `Record` with a `problem`; a file that cannot be read to
its end is an error. No message contains text of the file.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftworth.errors import PromptSetError
from draftworth.importing import csv_rows
from draftworth.importing.json_objects import LIMIT_BYTES, pieces_of
from draftworth.records.codec import RecordError, load_object
from draftworth.untrusted import MIB, one_line, open_file

SUFFIXES = (".jsonl", ".json", *csv_rows.SUFFIXES)
_NOT_UTF_8 = "not UTF-8; next: `iconv -f windows-1252 -t utf-8 FILE`, then import the result"


@dataclass(frozen=True, kw_only=True)
class Record:
    """An entry of a log: one line or row of a file, or one element of its array.

    place: where the entry is in its file, for messages, such as `line 4`.
    value: the JSON object; empty if the entry cannot be used.
    problem: why the entry cannot be used; empty: it can.
    """

    place: str
    value: dict[str, Any]
    problem: str = ""


def files_of(source: Path) -> tuple[Path, ...]:
    """Return `source` if it is a file, else all files of logs below it.

    PromptSetError: there is no such file, or the folders are nested too deep.
    """
    if not os.path.isdir(source):  # not Path.is_dir(), which raises for a name that is too long
        return (source,)
    try:
        files = tuple(sorted(p for p in source.rglob("*") if p.suffix in SUFFIXES and p.is_file()))
    except RecursionError as error:
        raise PromptSetError(
            f"{source}: more folders in one another than can be read; next: name a folder further "
            "down, or a file"
        ) from error
    if not files:
        raise PromptSetError(
            f"{source}: no file below it that ends with {' or '.join(SUFFIXES)}; next: name a "
            "file, or the folder that has them"
        )
    return files


def records_of(source: Path) -> Iterator[Record]:
    """Yield every entry of a file or folder; raise PromptSetError if a file cannot be read."""
    files = files_of(source)
    for path in files:
        name = f"{one_line(str(path.relative_to(source)))} " if len(files) > 1 else ""
        try:
            with open_file(path) as file:
                if path.suffix.lower() in csv_rows.SUFFIXES:
                    for place, row, problem in csv_rows.rows_of(file, path):
                        yield Record(place=f"{name}{place}", value=row, problem=problem)
                    continue
                for place, data in pieces_of(file, path):
                    yield _record(f"{name}{place}", data)
        except (OSError, UnicodeError) as error:
            reason = _NOT_UTF_8 if isinstance(error, UnicodeError) else f"{error.strerror}"
            raise PromptSetError(f"{path}: cannot be read: {reason}") from error


def _record(place: str, data: bytes | str | None) -> Record:
    if data is None:
        problem = f"longer than {LIMIT_BYTES // MIB} MiB"
        return Record(place=place, value={}, problem=problem)
    try:
        return Record(place=place, value=load_object(data))
    except RecordError:
        return Record(place=place, value={}, problem="not a JSON object")
