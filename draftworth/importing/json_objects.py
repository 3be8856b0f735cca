"""Cuts a file of any size into the JSON values in it: lines, an array's elements, or objects.

No message contains text of the file.
"""

import codecs
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import BinaryIO

from draftworth.errors import PromptSetError
from draftworth.untrusted import MIB

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


def pieces_of(file: BinaryIO, path: Path) -> Iterator[tuple[str, bytes | str | None]]:
    """Yield each value with its place, such as `line 4`; None: it is longer than LIMIT_BYTES.

    PromptSetError: the file is of another format, or cannot be read to its end.
    """
    head = file.read(_HEAD_BYTES)
    refuse_other_formats(head, path)
    file.seek(0)
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    if text.startswith(b"["):
        return _elements(file, path)
    return _objects(file, path) if _goes_on(text) else _lines(file)


def refuse_other_formats(head: bytes, path: Path) -> None:
    """Raise PromptSetError, with what to do, if a file begins as no text in UTF-8 does."""
    for start, problem in _OTHER_FORMATS.items():
        if head.startswith(start):
            raise PromptSetError(f"{path}: {problem}, then import the result")


def _goes_on(text: bytes) -> bool:
    """Return whether the first line ends in the middle of an object, which has several lines."""
    line, end, _ = text.partition(b"\n")
    return bool(end) and line.startswith(b"{") and line.rstrip()[-1:] in (b"{", b"[", b",")


def _objects(file: BinaryIO, path: Path) -> Iterator[tuple[str, str]]:
    window = _Window(file)
    for number in count(1):
        if not window.next_character():
            return
        element = window.element()
        if element is None:
            raise PromptSetError(
                f"{path}: object {number}: cannot be read further: not JSON, more than "
                f"{LIMIT_BYTES // MIB} MiB, or the file is cut off here; next: `jq -c . FILE > "
                "FILE.jsonl` writes each object as one line"
            )
        yield f"object {number}", element


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
            is_whole = True
            try:
                end = self._decoder.raw_decode(self._text, self._at)[1]
            except ValueError:
                # Either the text is not JSON, or the end of the value is not in memory yet. To find
                # out which, more of the file is read.
                end, is_whole = len(self._text), False
            except RecursionError:
                return None
            # At the end of what is in memory, a number may go on.
            if end == len(self._text) and end - self._at <= LIMIT_BYTES:
                if self._more():
                    continue
                end = len(self._text)  # without what was consumed
            if not is_whole:
                return None
            element = self._text[self._at : end]
            self._at = end
            return element

    def _more(self) -> bool:
        """Read more of the file into memory; return False at the end of the file.

        Each call doubles the text that is not consumed, so a long value is parsed only a few times.
        """
        self._text, self._at = self._text[self._at :], 0
        data = self._file.read(max(_PIECE_BYTES, len(self._text)))
        self._text += self._decode(data, final=not data)
        return bool(data)
