"""Reads untrusted data up to a limit, and makes it printable, so that a terminal shows only text.

`draftworth/records/codec.py` decodes the data. This module uses the standard library only.
"""

import errno
import json
import os
import stat
from itertools import accumulate, takewhile
from pathlib import Path
from typing import BinaryIO, Protocol

from draftworth.errors import DraftworthError

MIB = 2**20
# Far above the size of our JSON documents, such as a controller's state, a manifest or `run.json`.
DOCUMENT_LIMIT_BYTES = MIB
# The longest text from a server or a program that is kept in a record, notification or error.
REASON_CHARACTERS = 500
_CUT = " ..."


class TooLargeError(DraftworthError):
    """The data is larger than its limit."""


class Readable(Protocol):
    """A file, a decompressor, the body of a response: `read(n)` returns at most n bytes, b"" at
    the end."""

    def read(self, amt: int, /) -> bytes: ...


def read_at_most(stream: Readable, limit_bytes: int = DOCUMENT_LIMIT_BYTES) -> bytes:
    """Read the whole stream; stop and raise TooLargeError if it has more than `limit_bytes`."""
    pieces: list[bytes] = []
    left = limit_bytes + 1
    while left > 0 and (piece := stream.read(left)):
        pieces.append(piece)
        left -= len(piece)
    if left <= 0:
        raise TooLargeError(f"more than {limit_bytes:,} bytes")
    return b"".join(pieces)


def open_file(path: Path) -> BinaryIO:
    """Open a regular file; raise OSError for anything else, as a pipe or device may never end."""
    try:
        # With O_NONBLOCK, opening a pipe does not wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except ValueError as error:  # NUL in the path
        raise OSError(errno.EINVAL, f"not a path: {error}") from error
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a folder")
    raise OSError(errno.EINVAL, "a pipe or device, allowed: a regular file")


def read_file(path: Path, limit_bytes: int = DOCUMENT_LIMIT_BYTES) -> bytes:
    """Read a regular file; OSError: unreadable; TooLargeError: it has more than `limit_bytes`."""
    with open_file(path) as file:
        return read_at_most(file, limit_bytes)


def printable(text: str) -> str:
    """Return text for a terminal or a log: line breaks stay, control characters become escapes.

    Characters that change the direction of text, and single surrogates, become escapes too.
    """
    if text.isprintable():
        return text
    return "".join(c if c == "\n" or c.isprintable() else _escaped(c) for c in text)


def one_line(text: str, *, characters: int = REASON_CHARACTERS) -> str:
    """Return the text printable and on one line, cut to at most `characters`.

    Characters are counted as in JSON, where a non-ASCII character takes 6 or 12, so that a JSON
    file with many such lines stays below its size limit.
    """
    line = printable(" ".join(text[: 4 * characters].split()))
    # A printable ASCII character takes at most two in JSON, so a short line need not be counted.
    if 2 * len(line) <= characters and line.isascii():
        return line
    if len(line) <= characters and _json_characters(line) <= characters:
        return line
    sizes = accumulate(map(_json_characters, line))
    kept = sum(1 for _ in takewhile((characters - len(_CUT)).__ge__, sizes))
    return line[:kept] + _CUT


def encodable(text: str) -> str:
    """Replace single surrogates, which JSON can contain and UTF-8 cannot, by `?`."""
    return text.encode("utf-8", "replace").decode()


def _json_characters(text: str) -> int:
    return len(json.dumps(text)) - 2


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
