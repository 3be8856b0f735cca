"""Untrusted data is read up to a limit, and its text becomes printable and free of secrets."""

import base64
import html
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from draftworth import untrusted
from tests.hostile.fuzzing import bounded


class Dribble(io.BytesIO):
    """A stream whose `read` returns at most three bytes at a time, as a socket's may."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 0, 3))


class Endless:
    """A stream that never ends; `taken` counts the bytes that were read from it."""

    taken = 0

    def read(self, amt: int, /) -> bytes:
        self.taken += amt
        return b"x" * amt


@pytest.mark.parametrize("kind", [io.BytesIO, Dribble])
def test_all_is_read_up_to_the_limit(kind: type[io.BytesIO]) -> None:
    assert untrusted.read_at_most(kind(b"0123456789"), 10) == b"0123456789"
    assert untrusted.read_at_most(kind(b""), 10) == b""
    with pytest.raises(untrusted.TooLargeError, match="more than 9 bytes"):
        untrusted.read_at_most(kind(b"0123456789"), 9)


def test_an_endless_stream_is_left_at_the_limit() -> None:
    stream = Endless()
    with pytest.raises(untrusted.TooLargeError, match="more than 1,048,576 bytes"):
        untrusted.read_at_most(stream)
    assert stream.taken == 2**20 + 1


def test_a_regular_file_is_read_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with untrusted.open_file(tmp_path / "file") as file:
        assert file.read() == b"x"
    os.mkfifo(tmp_path / "pipe")
    for path, what in {
        tmp_path: "a folder",
        tmp_path / "pipe": "a pipe or device",
        Path("/dev/zero"): "a pipe or device",
        Path("a\0b"): "null byte",
        tmp_path / "none": "No such file",
        tmp_path / ("x" * 300): "too long",
    }.items():
        with pytest.raises(OSError, match=what):
            untrusted.open_file(path)


def test_only_text_reaches_a_terminal() -> None:
    assert (
        untrusted.printable("a\x1b[2Jb\nc\r\u202ed\ud800é日")
        == "a\\x1b[2Jb\nc\\r\\u202ed\\ud800é日"
    )


def test_a_line_is_one_line_and_is_cut() -> None:
    assert untrusted.one_line("a\n\tb\x00") == "a b\\x00"
    assert untrusted.one_line("x" * 600) == "x" * 496 + " ..."
    assert untrusted.one_line("\x00" * 10**6) == "\\x00" * 99 + " ..."
    assert untrusted.one_line("é" * 100, characters=40) == "é" * 6 + " ..."


SECRET = 'sk-live/a+b<c>d"e\\f-0123456789'


@pytest.fixture
def _hidden() -> None:
    untrusted.hide_secret("KEY", SECRET)


@pytest.mark.usefixtures("_hidden")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"no {SECRET}!", "no [KEY]!"),
        (SECRET * 3, "[KEY][KEY][KEY]"),
        (json.dumps({"k": SECRET}), '{"k": "[KEY]"}'),
        (json.dumps(SECRET).replace("/", "\\/"), '"[KEY]"'),
        (f"?k={quote(SECRET, safe='')}&x", "?k=[KEY]&x"),
        (f"/{quote(SECRET)}/x", "/[KEY]/x"),
        (f"<b>{html.escape(SECRET)}</b>", "<b>[KEY]</b>"),
        # Texts with only parts of the secret, as after a cut.
        (f"cut: {SECRET[:12]}", "cut: [KEY]"),
        (f"cut: {SECRET[-12:]} end", "cut: [KEY] end"),
        (f"{SECRET[3:20]}...{SECRET[-14:]}", "[KEY]...[KEY]"),
        (f"{SECRET[:20]}{SECRET[5:]}", "[KEY][KEY]"),
        (f"cut: {SECRET[:11]}", f"cut: {SECRET[:11]}"),
        ("a text that has none", "a text that has none"),
        ("", ""),
    ],
)
def test_a_secret_is_replaced_by_its_name(text: str, expected: str) -> None:
    assert untrusted.without_secrets(text) == expected


@pytest.mark.usefixtures("_hidden")
@pytest.mark.parametrize("user", ["", "u", "us", "use"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_secret_in_base64_is_replaced(user: str, encode: Callable[[bytes], bytes]) -> None:
    text = encode(f"{user}:{SECRET}:".encode()).decode()
    kept_before, _, kept_after = untrusted.without_secrets(text).partition("[KEY]")
    assert len(kept_before) <= 6
    assert len(kept_after) <= 4


@pytest.mark.usefixtures("_hidden")
def test_secrets_are_replaced_before_a_line_is_cut() -> None:
    assert untrusted.one_line("x" * 30 + SECRET, characters=40) == "x" * 30 + "[KEY]"
    assert untrusted.one_line("x" * 2_000 + SECRET[:8] + "\n" * 9_000)[-9:] == "xxxxx ..."


def test_a_short_secret_is_none() -> None:
    """If short secrets were replaced, the secret `e` would change nearly every text."""
    for secret in ("", "e", "EMPTY", "ollama", "1234567"):
        untrusted.hide_secret("KEY", secret)
        assert untrusted.without_secrets(f"the {secret} text") == f"the {secret} text"
    untrusted.hide_secret("KEY", "12345678")
    assert untrusted.without_secrets("x12345678x 1234567") == "x[KEY]x 1234567"
    untrusted.hide_secret("OTHER", "abcdefgh")
    untrusted.hide_secret("KEY", "another-key")
    assert untrusted.without_secrets("12345678 abcdefgh another-key") == "12345678 [OTHER] [KEY]"


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        (SECRET, SECRET[:12] * 50_000),
        (SECRET, SECRET[:6] * 100_000),
        (SECRET, (SECRET + " ") * 20_000),
        (SECRET, "x" * 10**6),
        # A part of a secret that repeats itself begins at nearly every offset of such a text.
        ("sk-" + "0" * 40, "0" * 10**6),
        ("ab" * 200, ("ab" * 199 + " ") * 500),
    ],
)
def test_many_quotes_take_no_more_than_linear_time(secret: str, text: str) -> None:
    untrusted.hide_secret("KEY", secret)
    with bounded():
        assert secret[-12:] not in untrusted.without_secrets(text)


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert untrusted.encodable("a\ud800é") == "a?é"
