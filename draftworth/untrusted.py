"""Reads untrusted data up to a limit, and makes its text fit to be shown and kept.

Text becomes printable, so that a terminal shows only text, and loses the secrets of this process,
which a server may echo. `draftworth/records/codec.py` decodes the data. This module uses the
standard library only.
"""

import base64
import errno
import html
import json
import os
import stat
from collections.abc import Iterable, Iterator
from functools import lru_cache
from io import BufferedReader
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from draftworth.errors import DraftworthError

MIB = 2**20
# Far above the size of our JSON documents, such as a controller's state, a manifest or `run.json`.
DOCUMENT_LIMIT_BYTES = MIB
# The longest text from a server or a program that is kept in a record, notification or error.
REASON_CHARACTERS = 500
_CUT = " ..."
# A shorter secret is not replaced, because so few characters are in texts that do not quote it.
LEAST_SECRET_CHARACTERS = 8
# The shortest part of a longer secret that is replaced, for example where a text was cut.
LEAST_PART_CHARACTERS = 12
# A text is searched in pieces of this length, so short that every part of a secret contains a whole
# piece, wherever the part begins.
_PIECE_CHARACTERS = LEAST_SECRET_CHARACTERS // 2


class TooLargeError(DraftworthError):
    """The data is larger than its limit."""


class _Forms:
    """A secret as texts may quote it: as it is, and as JSON, URLs, HTML and base64 write it.

    whole: the forms, the longest first, because a form may contain a shorter one.
    parts: all substrings of the forms with LEAST_PART_CHARACTERS characters.
    pieces: all substrings of the forms with _PIECE_CHARACTERS characters.
    """

    def __init__(self, secret: str) -> None:
        in_json = json.dumps(secret)[1:-1]
        forms = {secret, in_json, in_json.replace("/", "\\/"), html.escape(secret)}
        forms |= {quote(secret), quote(secret, safe=""), *_in_base64(secret)}
        self.whole = sorted(forms, key=len, reverse=True)
        self.parts = frozenset(_cuts(self.whole, LEAST_PART_CHARACTERS))
        self.pieces = frozenset(_cuts(self.whole, _PIECE_CHARACTERS))


# The secrets of this process, by the names that replace them.
_secrets: dict[str, _Forms] = {}


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


def open_file(path: Path) -> BufferedReader:
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


def hide_secret(name: str, secret: str) -> None:
    """From now on, let `without_secrets` replace this secret by `[name]`.

    Call it where the secret is read, or before the secret is sent. An earlier secret of this name
    is no longer replaced. A secret with fewer than LEAST_SECRET_CHARACTERS characters never is.
    """
    if len(secret) < LEAST_SECRET_CHARACTERS:
        _secrets.pop(name, None)
    else:
        _secrets[name] = _forms_of(secret)


def without_secrets(text: str) -> str:
    """Return the text with a name such as `[OPENAI_API_KEY]` in place of each hidden secret.

    A secret is replaced as it is, and as JSON, URLs, HTML and base64 write it; so is each part of
    these with at least LEAST_PART_CHARACTERS characters.
    """
    if len(text) < LEAST_SECRET_CHARACTERS:  # no secret fits; most finish reasons are this short
        return text
    for name, forms in tuple(_secrets.items()):
        for form in forms.whole:
            text = text.replace(form, f"[{name}]")
        text = _with_word(text, _parts(text, forms), f"[{name}]")
    return text


def printable(text: str) -> str:
    """Return text for a terminal or a log: line breaks stay, control characters become escapes.

    Characters that change the direction of text, and single surrogates, become escapes too.
    """
    if text.isprintable():
        return text
    return "".join(c if c == "\n" or c.isprintable() else _escaped(c) for c in text)


def one_line(text: str, *, characters: int = REASON_CHARACTERS) -> str:
    """Return the text printable, on one line and without secrets, cut to at most `characters`.

    Characters are counted as in JSON, where a non-ASCII character takes 6 or 12, so that a JSON
    file with many such lines stays below its size limit.
    """
    # Secrets are replaced before the cut, which could leave half of one.
    line = printable(" ".join(without_secrets(text)[: 4 * characters].split()))
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


@lru_cache(maxsize=8)
def _forms_of(secret: str) -> _Forms:
    return _Forms(secret)


def _in_base64(secret: str) -> Iterator[str]:
    """Yield the base64 characters that encode only bytes of the secret, in both alphabets."""
    # These characters depend on how many bytes, modulo 3, stand before the secret.
    for before in range(3):
        data = bytes(before) + secret.encode()
        form = base64.b64encode(data).decode()[(0, 2, 3)[before] : len(data) * 8 // 6]
        yield from (form, form.replace("+", "-").replace("/", "_"))


def _cuts(forms: Iterable[str], characters: int) -> Iterator[str]:
    """Yield all substrings of the forms that have this number of characters."""
    for form in forms:
        for at in range(len(form) - characters + 1):
            yield form[at : at + characters]


def _parts(text: str, forms: _Forms) -> Iterator[tuple[int, int]]:
    """Yield start and end of each part of a form (LEAST_PART_CHARACTERS long) in the text.

    A longer part appears as several overlapping ones. So the time depends on the text's length
    alone, not on the number of parts.
    """
    for at in range(0, len(text), _PIECE_CHARACTERS):
        if text[at : at + _PIECE_CHARACTERS] not in forms.pieces:
            continue
        # Only parts whose first piece this is: other parts are yielded for their own first piece.
        for first in range(max(0, at - _PIECE_CHARACTERS + 1), at + 1):
            last = first + LEAST_PART_CHARACTERS
            if text[first:last] in forms.parts:
                yield first, last


def _with_word(text: str, places: Iterable[tuple[int, int]], word: str) -> str:
    """Replace the text between each (start, end) of `places`, which are sorted, by `word`."""
    kept: list[str] = []
    end = 0
    for first, last in places:
        if first >= end:  # else this place overlaps the one before it
            kept += (text[end:first], word)
        end = max(end, last)
    return "".join((*kept, text[end:]))
