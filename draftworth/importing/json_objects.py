"""Reads the JSON objects of a log, one per line or in one array, from files of any size.

An entry that is not an object becomes a `Record` with a `problem`; a file that cannot be read to
its end is an error. No message contains text of the file.
"""

import codecs
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from draftworth.errors import PromptSetError
from draftworth.records.codec import RecordError, load_object
from draftworth.untrusted import MIB, one_line, open_file

SUFFIXES = (".jsonl", ".json")
# The longest entry: it has room for a request and its answer, both in Base64, and each as long as
# the longest prompt that a prompt file may have.
LIMIT_BYTES = 16 * MIB
_PIECE_BYTES, _HEAD_BYTES = MIB, 65_536
# First bytes of files in other formats than JSON in UTF-8, and how to convert such a file.
_OTHER_FORMATS = {
    b"\x1f\x8b": "compressed with gzip; next: `gunzip --keep FILE`",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; next: `zstd -d FILE`",
    b"PAR1": "Parquet; next: write it as JSON Lines, with DuckDB: "
    "`COPY (FROM 'FILE') TO 'FILE.jsonl'`",
    b"\xff\xfe": "UTF-16; next: `iconv -f utf-16 -t utf-8 FILE`",
    b"\xfe\xff": "UTF-16; next: `iconv -f utf-16 -t utf-8 FILE`",
}


@dataclass(frozen=True, kw_only=True)
class Record:
    """An entry of a log: one line of a file, or one element of its array.

    number: counted from 1 over all files of the log.
    place: where the entry is in its file, for messages, such as `line 4`.
    value: the JSON object; empty if the entry cannot be used.
    problem: why the entry cannot be used; empty: it can.
    """

    number: int
    place: str
    value: dict[str, Any]
    problem: str = ""


def files_of(source: Path) -> tuple[Path, ...]:
    """Return `source` if it is a file, else all JSON files below it.

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
    files, numbers = files_of(source), count(1)
    for path in files:
        name = f"{one_line(str(path.relative_to(source)))} " if len(files) > 1 else ""
        try:
            with open_file(path) as file:
                for place, data in _pieces(file, path):
                    yield _record(next(numbers), f"{name}{place}", data)
        except (OSError, UnicodeError) as error:
            reason = "not UTF-8" if isinstance(error, UnicodeError) else f"{error.strerror}"
            raise PromptSetError(f"{path}: cannot be read: {reason}") from error


def _record(number: int, place: str, data: bytes | str | None) -> Record:
    if data is None:
        problem = f"longer than {LIMIT_BYTES // MIB} MiB"
        return Record(number=number, place=place, value={}, problem=problem)
    try:
        return Record(number=number, place=place, value=load_object(data))
    except RecordError:
        return Record(number=number, place=place, value={}, problem="not a JSON object")


def _pieces(file: BinaryIO, path: Path) -> Iterator[tuple[str, bytes | str | None]]:
    head = file.read(_HEAD_BYTES)
    for start, problem in _OTHER_FORMATS.items():
        if head.startswith(start):
            raise PromptSetError(f"{path}: {problem}, then import the result")
    file.seek(0)
    is_array = head.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"[")
    return _elements(file, path) if is_array else _lines(file)


def _lines(file: BinaryIO) -> Iterator[tuple[str, bytes | None]]:
    for number in count(1):
        line = file.readline(LIMIT_BYTES + 1)
        if not line:
            return
        if len(line) > LIMIT_BYTES:
            while line and not line.endswith(b"\n"):
                line = file.readline(LIMIT_BYTES)
            yield f"line {number}", None
        elif number == 1 and line.startswith(codecs.BOM_UTF8):
            yield "line 1", line.removeprefix(codecs.BOM_UTF8)
        elif line.strip():
            yield f"line {number}", line


def _elements(file: BinaryIO, path: Path) -> Iterator[tuple[str, str]]:
    window = _Window(file)
    window.takes("[")
    more = not window.takes("]")
    for number in count(1):
        if not more:
            break
        element = window.element() if window.next_character() else None
        more = window.takes(",")
        if element is None or not (more or window.takes("]")):
            raise PromptSetError(
                f"{path}: element {number}: the array cannot be read further: not JSON, more than "
                f"{LIMIT_BYTES // MIB} MiB, or the file is cut off here"
            )
        yield f"element {number}", element
    if window.next_character():
        raise PromptSetError(f"{path}: more after the end of the array; allowed: one array")


class _Window:
    """The part of a long file's text that is in memory, and the position of the next character."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._decoder = json.JSONDecoder()
        self._text = ""
        self._at = 0

    def next_character(self) -> str:
        """Return the next character that is not a blank, without consuming it; empty at the end."""
        while True:
            rest = self._text[self._at : self._at + 64].lstrip()
            if rest:
                self._at = self._text.index(rest[0], self._at)
                return rest[0]
            self._at = min(self._at + 64, len(self._text))
            if self._at == len(self._text) and not self._more():
                return ""

    def takes(self, character: str) -> bool:
        is_next = self.next_character() == character
        self._at += is_next
        return is_next

    def element(self) -> str | None:
        """Consume and return the text of the next JSON value.

        None: the text is no JSON value, or the value is too long or nested too deep.
        """
        while True:
            try:
                end = self._decoder.raw_decode(self._text, self._at)[1]
            except ValueError:
                # Either the text is not JSON, or the end of the value is not in memory yet. To find
                # out which, more of the file is read.
                end = len(self._text)
            except RecursionError:
                return None
            if end < len(self._text):
                element = self._text[self._at : end]
                self._at = end
                return element
            if end - self._at > LIMIT_BYTES or not self._more():
                return None

    def _more(self) -> bool:
        """Read more of the file into memory; return False at the end of the file.

        Each call doubles the text that is not consumed, so a long value is parsed only a few times.
        """
        self._text, self._at = self._text[self._at :], 0
        data = self._file.read(max(_PIECE_BYTES, len(self._text)))
        self._text += self._decode(data, final=not data)
        return bool(data)
