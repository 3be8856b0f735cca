"""HTTP/1.1 over asyncio, with the time at which bytes arrived.

A load generator's own error must be far below what it measures, so bytes are stamped in the
transport callback, and parsed (by llhttp, `httptools`) only when every socket that had bytes has
been stamped: no stream's time contains the parsing of another. A request has a connection of its
own, opened before the clock starts: no figure contains a handshake, and no request meets a
connection that the server is about to close.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import httptools

Clock = Callable[[], int]
BodyCallback = Callable[[bytes, int], None]

CONNECT_TIMEOUT_SECONDS = 10.0
_READ_BYTES = 16 * 1024


class HttpError(Exception):
    """The exchange did not end as HTTP says; the text says how."""


class ConnectError(HttpError):
    """No connection."""


class BrokenStreamError(HttpError):
    """The connection ended before the response did, or the response is not HTTP."""


@dataclass(frozen=True, kw_only=True)
class Response:
    """What came back, and when the request was sent (nanoseconds of the clock)."""

    status: int
    sent_ns: int


class _Exchange(asyncio.BufferedProtocol):
    """One request and its response. The parser calls the `on_*` methods.

    Buffered, because asyncio makes room for 256 KiB before every read of an ordinary protocol: that
    takes four times as long as reading one event does.
    """

    def __init__(self, on_body: BodyCallback, clock: Clock) -> None:
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()
        self.status = 0
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._arrived: list[tuple[int, bytes]] = []
        self._deliver = on_body
        self._clock = clock
        self._now_ns = 0
        self._ends_with_connection = True
        self._parser = httptools.HttpResponseParser(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 (asyncio's signature)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._arrived.append((self._clock(), self._buffer[:nbytes].tobytes()))
        if len(self._arrived) == 1:
            # The loop runs this after the sockets that are readable now, before it waits again.
            self._loop.call_soon(self._parse)

    def _parse(self) -> None:
        arrived, self._arrived = self._arrived, []
        try:
            for self._now_ns, data in arrived:
                self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._finish(cause if isinstance(cause, HttpError) else BrokenStreamError(str(error)))

    def on_header(self, name: bytes, value: bytes) -> None:  # noqa: ARG002 (the parser's signature)
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._ends_with_connection = False

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self._deliver(body, self._now_ns)

    def on_message_complete(self) -> None:
        if self.status >= 200:  # a 1xx response announces another one
            self._finish(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._parse()
        if self.status and self._ends_with_connection and exc is None:
            self._finish(None)  # RFC 9112, 6.3: a body without length or chunks ends here
        elif not self.done.done():
            what = "after the headers" if self.status else "before any response"
            detail = f": {exc}" if exc else ""
            self._finish(BrokenStreamError(f"the server closed the connection {what}{detail}"))

    def _finish(self, error: Exception | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


async def exchange(
    method: str,
    url: str,
    *,
    on_body: BodyCallback,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    clock: Clock = time.perf_counter_ns,
) -> Response:
    """Send one request; every piece of the response body goes to `on_body` with its arrival time.

    Raises:
        ConnectError: no connection within `CONNECT_TIMEOUT_SECONDS`.
        BrokenStreamError: the response ended early or is not HTTP.
        Whatever `on_body` raises as an HttpError.
    """
    parts = urlsplit(url)
    secure = ssl.create_default_context() if parts.scheme == "https" else None
    loop = asyncio.get_running_loop()
    protocol = _Exchange(on_body, clock)
    port = parts.port or (443 if secure else 80)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            transport, _ = await loop.create_connection(
                lambda: protocol, parts.hostname or "", port, ssl=secure
            )
    except (OSError, TimeoutError) as error:
        reason = str(error) or f"no answer within {CONNECT_TIMEOUT_SECONDS:g} s"
        raise ConnectError(f"{parts.hostname}:{port}: {reason}") from error
    try:
        request = _request_bytes(method, url, headers or {}, body)
        sent_ns = clock()
        transport.write(request)
        await protocol.done
    finally:
        transport.abort()
    return Response(status=protocol.status, sent_ns=sent_ns)


def _request_bytes(method: str, url: str, headers: Mapping[str, str], body: bytes) -> bytes:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [
        f"{method} {target} HTTP/1.1",
        f"Host: {parts.netloc.rpartition('@')[2]}",
        "User-Agent: draftbench",
        "Accept-Encoding: identity",
        "Connection: close",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def bearer(api_key: str | None) -> dict[str, str]:
    """The header that carries an API key; none without one."""
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}


async def get_text(
    url: str, *, timeout_seconds: float, api_key: str | None = None
) -> tuple[int, str]:
    """Status and body of a GET; raises HttpError or TimeoutError."""
    pieces: list[bytes] = []
    async with asyncio.timeout(timeout_seconds):
        response = await exchange(
            "GET", url, on_body=lambda data, _: pieces.append(data), headers=bearer(api_key)
        )
    return response.status, b"".join(pieces).decode("utf-8", "replace")
