"""Splits the bytes of an event stream into its events (HTML standard, server-sent events)."""

from collections.abc import Iterator

from draftworth.measuring.http_client import HttpError

MAX_EVENT_BYTES = 1_000_000
# By the standard, a byte order mark before the first event is not part of the stream.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class BadStreamError(HttpError):
    """The stream is not that of an OpenAI-compatible server, or the server reports an error."""


class EventReader:
    """Parses a stream: `feed` gets its bytes as they arrive, and yields each complete event."""

    def __init__(self) -> None:
        self._held: list[bytes] = []  # the bytes of an event that is not complete yet
        self._held_bytes = 0
        self._after_cr = False
        # The stream's first bytes, as long as they may begin a byte order mark; then None.
        self._start: bytes | None = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the content of each event that these bytes complete, unless the content is empty.

        BadStreamError: an event has more than `MAX_EVENT_BYTES`.
        """
        if self._start is not None:
            data = self._without_mark(self._start + data)
        if self._after_cr or b"\r" in data:
            data = self._newlines(data)
        if not data:
            return
        if self._held:
            # Pieces are joined only when an event is complete: joining them earlier would copy the
            # same bytes again for every piece.
            if b"\n\n" not in self._held[-1][-1:] + data:
                self._hold(data)
                return
            data = b"".join((*self._held, data))
            self._held, self._held_bytes = [], 0
        *events, rest = data.split(b"\n\n")
        for event in events:
            if content := _data_of(event):
                yield content
        if rest:
            self._hold(rest)

    def _without_mark(self, start: bytes) -> bytes:
        """Return the stream's first bytes without a byte order mark.

        As long as `start` may be only a part of the mark, it is kept, and nothing is returned.
        """
        if len(start) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(start):
            self._start = start
            return b""
        self._start = None
        return start.removeprefix(_BYTE_ORDER_MARK)

    def _hold(self, data: bytes) -> None:
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > MAX_EVENT_BYTES:
            raise BadStreamError(f"an event of more than {MAX_EVENT_BYTES:,} bytes")

    def _newlines(self, data: bytes) -> bytes:
        """Replace each \\r\\n or \\r by \\n, also if \\r and \\n arrive in two pieces of data."""
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
        self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _data_of(event: bytes) -> bytes:
    if b"\n" in event:
        lines = event.split(b"\n")
        return b"\n".join(line[5:].strip() for line in lines if line.startswith(b"data:"))
    return event[5:].strip() if event.startswith(b"data:") else b""
