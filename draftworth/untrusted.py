"""Reading of untrusted data up to a limit, and printing it so that a terminal shows only text.

`draftworth/records/codec.py` decodes it strictly. This module uses the standard library only.
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
# Far above the size of our documents: a state, a marker, a manifest, the end of a run.
DOCUMENT_LIMIT_BYTES = MIB
# The longest text of a server or a program in a record, a notification or an error.
REASON_CHARACTERS = 500
_CUT = " ..."


class TooLargeError(DraftworthError):
    """The data is larger than any of ours can be."""


class Readable(Protocol):
    """A file, a decompressor, the body of a response: `read(n)` returns at most n bytes, b"" at
    the end."""

    def read(self, amt: int, /) -> bytes: ...


def read_at_most(stream: Readable, limit_bytes: int = DOCUMENT_LIMIT_BYTES) -> bytes:
    """Read everything; raise TooLargeError, and read no further, if it is more than the limit."""
    pieces: list[bytes] = []
    left = limit_bytes + 1
    while left > 0 and (piece := stream.read(left)):
        pieces.append(piece)
        left -= len(piece)
    if left <= 0:
        raise TooLargeError(f"more than {limit_bytes:,} bytes")
    return b"".join(pieces)


def open_file(path: Path) -> BinaryIO:
    """Open a regular file; raise OSError for others: a pipe or a device may never end."""
    try:
        # Without blocking, opening a pipe does not wait for a writer.
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
    """Read a whole file; raise OSError, or TooLargeError if it is more than the limit."""
    with open_file(path) as file:
        return read_at_most(file, limit_bytes)


def printable(text: str) -> str:
    """Return text for a terminal or a log: line breaks stay, control characters become escapes.

    So do characters that change the direction of text, and half of a surrogate pair.
    """
    if text.isprintable():
        return text
    return "".join(c if c == "\n" or c.isprintable() else _escaped(c) for c in text)


def one_line(text: str, *, characters: int = REASON_CHARACTERS) -> str:
    """Return printable text on one line, cut if it is longer.

    Characters are counted as in JSON, where one outside ASCII takes 6 or 12, so that a file of
    many such lines stays within its limit.
    """
    line = printable(" ".join(text[: 4 * characters].split()))
    if len(line) <= characters and _json_characters(line) <= characters:
        return line
    sizes = accumulate(map(_json_characters, line))
    kept = sum(1 for _ in takewhile((characters - len(_CUT)).__ge__, sizes))
    return line[:kept] + _CUT


def encodable(text: str) -> str:
    """Replace half of a surrogate pair, which JSON may contain and UTF-8 cannot, by `?`."""
    return text.encode("utf-8", "replace").decode()


def _json_characters(text: str) -> int:
    return len(json.dumps(text)) - 2


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
