"""What comes from outside: bounded, printable."""

import io
import os
from pathlib import Path

import pytest

from draftworth import untrusted


class Dribble(io.BytesIO):
    """Gives at most three bytes at a time, as a socket may."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 0, 3))


class Endless:
    """Never ends; counts what was taken from it."""

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


def test_half_of_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert untrusted.encodable("a\ud800é") == "a?é"
