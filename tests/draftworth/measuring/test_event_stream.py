"""The event stream of a server, in pieces of any size."""

import pytest

from draftworth.measuring.event_stream import EventReader

BOM = b"\xef\xbb\xbf"


def events_of(*pieces: bytes) -> list[bytes]:
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)]


@pytest.mark.parametrize("cut", range(5))
def test_a_byte_order_mark_belongs_to_no_event(cut: int) -> None:
    stream = BOM + b"data: a\n\ndata: b\n\n"
    assert events_of(stream[:cut], stream[cut:]) == [b"a", b"b"]


def test_a_byte_order_mark_in_pieces_is_ignored() -> None:
    pieces = [bytes([byte]) for byte in BOM + b"data: a\r\n\r\n"]
    assert events_of(*pieces) == [b"a"]


@pytest.mark.parametrize(
    "stream", [BOM + BOM + b"data: a\n\n", b"\n" + BOM + b"data: a\n\n", BOM[:2] + b"data: a\n\n"]
)
def test_only_one_whole_leading_mark_is_ignored(stream: bytes) -> None:
    assert events_of(stream, b"data: b\n\n") == [b"b"]
