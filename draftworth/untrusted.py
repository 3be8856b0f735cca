"""Reads untrusted data up to a size limit, and makes its text safe to print and to store.

Text becomes printable, so that it cannot control a terminal, and loses the secrets of this process,
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
# A shorter secret is not replaced: so few characters also occur in texts that do not contain it.
LEAST_SECRET_CHARACTERS = 8
# A text may contain only a part of a secret, for example if it was cut. A part is replaced too if
# it has at least this many characters.
LEAST_PART_CHARACTERS = 12
# To find parts of secrets, a text is divided into pieces of this length and each piece is looked
# up. The length is so short that a part contains a whole piece, wherever the part begins.
_PIECE_CHARACTERS = LEAST_SECRET_CHARACTERS // 2


class TooLargeError(DraftworthError):
    """The data is larger than its limit."""


class _Forms:
    """The forms in which a text may contain a secret: plain, and encoded for JSON, URLs and others.

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


# The secrets of this process; each key is the name that replaces the secret, as `[NAME]`.
_secrets: dict[str, _Forms] = {}


class Readable(Protocol):
    """A stream of bytes, such as a file, a decompressor or the body of a response.

    `read(n)` returns at most n bytes, and b"" at the end.
    """

    def read(self, amt: int, /) -> bytes: ...


def read_at_most(stream: Readable, limit_bytes: int = DOCUMENT_LIMIT_BYTES) -> bytes:
    """Return all bytes of a stream; stop and raise TooLargeError after more than `limit_bytes`."""
    pieces: list[bytes] = []
    left = limit_bytes + 1
    while left > 0 and (piece := stream.read(left)):
        pieces.append(piece)
        left -= len(piece)
    if left <= 0:
        raise TooLargeError(f"more than {limit_bytes:,} bytes")
    return b"".join(pieces)


def open_file(path: Path) -> BufferedReader:
    """Open a regular file; raise OSError for all else, because a pipe or device may never end."""
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
    """Return the bytes of a regular file.

    Raises:
        OSError: the file cannot be read, or is no regular file.
        TooLargeError: it has more than `limit_bytes`.
    """
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
    """Return the text with `[NAME]` in place of each secret that `hide_secret` got.

    A secret is also found as JSON, URLs, HTML and base64 encode it, and so is every part of a
    secret (plain or encoded) with at least LEAST_PART_CHARACTERS characters.
    """
    # This saves time: no secret fits into so short a text, such as most finish reasons.
    if len(text) < LEAST_SECRET_CHARACTERS:
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
    # Secrets are replaced before the text is cut, because half a secret might not be found.
    line = printable(" ".join(without_secrets(text)[: 4 * characters].split()))
    # This saves time: a printable ASCII character takes at most two characters in JSON, so a short
    # line fits in any case.
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
    """Yield the base64 forms that a secret can have within longer data, in both alphabets.

    A form leaves out the characters that also encode bits of the data before or after the secret.
    """
    # Base64 encodes three bytes at a time, so a secret's form depends on the number of bytes before
    # it, modulo 3.
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
    """Yield (start, end) of each place in the text that holds a part of a secret, in order.

    Each place has LEAST_PART_CHARACTERS characters; a longer part of a secret appears as several
    overlapping places. The time depends on the text's length, not on how long the secret is.
    """
    for at in range(0, len(text), _PIECE_CHARACTERS):
        if text[at : at + _PIECE_CHARACTERS] not in forms.pieces:
            continue
        # A part may contain several pieces of the text. It is yielded only at the first whole piece
        # in it, so that no part is yielded twice.
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
