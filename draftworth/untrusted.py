"""What comes from outside: read up to a limit, and printed so that a terminal shows only text.

From a server, a bucket or a file of unknown origin. The third of these parts, strict decoding, is
`draftworth/records/codec.py`. Standard library only.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from itertools import accumulate, takewhile
from pathlib import Path
from typing import BinaryIO, Protocol

from draftworth.errors import DraftworthError

MIB = 2**20
# Far above every document of ours: a state, a marker, a manifest, the end of a run.
DOCUMENT_LIMIT_BYTES = MIB
# Of a server's or a program's words in a record, a notification or an error.
REASON_CHARACTERS = 500
_CUT = " ..."


class TooLargeError(DraftworthError):
    """There is more to read than anything of ours can be."""


class Readable(Protocol):
    """A file, a decompressor, the body of an answer: `read(n)` gives at most n bytes, b"" at the
    end."""

    def read(self, amt: int, /) -> bytes: ...


def read_at_most(stream: Readable, limit_bytes: int = DOCUMENT_LIMIT_BYTES) -> bytes:
    """All that there is; TooLargeError once it is more than the limit, with nothing more read."""
    pieces: list[bytes] = []
    left = limit_bytes + 1
    while left > 0 and (piece := stream.read(left)):
        pieces.append(piece)
        left -= len(piece)
    if left <= 0:
        raise TooLargeError(f"more than {limit_bytes:,} bytes")
    return b"".join(pieces)


def open_file(path: Path) -> BinaryIO:
    """A regular file, to be read; OSError for all else: a pipe or a device may never end."""
    try:
        # Not blocking: opening a pipe does not wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except ValueError as error:  # NUL in the path
        raise OSError(errno.EINVAL, f"no path: {error}") from error
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a folder")
    raise OSError(errno.EINVAL, "a pipe or device, allowed: a regular file")


def read_file(path: Path, limit_bytes: int = DOCUMENT_LIMIT_BYTES) -> bytes:
    """All of a file; raises OSError, and TooLargeError where it is more than the limit."""
    with open_file(path) as file:
        return read_at_most(file, limit_bytes)


def printable(text: str) -> str:
    """Text for a terminal or a log: line breaks stay, control characters are shown as escapes.

    Escapes too are what changes the direction of text, and half of a surrogate pair.
    """
    if text.isprintable():
        return text
    return "".join(c if c == "\n" or c.isprintable() else _escaped(c) for c in text)


def one_line(text: str, *, characters: int = REASON_CHARACTERS) -> str:
    """Printable text on one line, cut where it is longer.

    Counted as JSON writes it: a character outside of ASCII is 6 or 12 of a file's bytes, and a file
    of many such lines must stay one that can be read.
    """
    line = printable(" ".join(text[: 4 * characters].split()))
    if len(line) <= characters and _json_characters(line) <= characters:
        return line
    sizes = accumulate(map(_json_characters, line))
    kept = sum(1 for _ in takewhile((characters - len(_CUT)).__ge__, sizes))
    return line[:kept] + _CUT


def encodable(text: str) -> str:
    """Text that UTF-8 can hold: `?` for half of a surrogate pair, which JSON lets through."""
    return text.encode("utf-8", "replace").decode()


def _json_characters(text: str) -> int:
    return len(json.dumps(text)) - 2


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
