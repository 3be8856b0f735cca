"""HTTP/1.1 over asyncio, with the time at which bytes arrived.

A load generator's own error must be far below what it measures. On Linux and plain HTTP the kernel
stamps bytes as they come (`SO_TIMESTAMPNS`, socket(7)), so that no figure contains the client's way
to them: not a busy event loop, not the wait for a core. The kernel stamps only while some socket
wants it, and switches this on in the background: one socket wants it as long as the process lives.
TLS has no such stamps, nor have other systems: there bytes are stamped in the transport callback.
Either way they are parsed (by llhttp, `httptools`) only when every socket that had bytes has been
read. A request has a connection of its own, opened before the clock starts: no figure contains a
handshake, and no request meets a connection that the server is about to close.
"""

from __future__ import annotations

import asyncio
import atexit
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import cast
from urllib.parse import urlsplit

import httptools

Clock = Callable[[], int]
BodyCallback = Callable[[bytes, int], None]

CONNECT_TIMEOUT_SECONDS = 10.0
_READ_BYTES = 16 * 1024
_SO_TIMESTAMPNS = 35  # Linux, asm-generic/socket.h; not in the socket module
_TIMESPEC = struct.Struct("qq")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
_NANOSECONDS = 1_000_000_000
# A busy machine was seen to take 17 ms; one that takes longer than this gets no wait for it.
_STAMPING_DEADLINE_SECONDS = 1.0


class HttpError(Exception):
    """The exchange did not end as HTTP says; the text says how."""


class ConnectError(HttpError):
    """No connection."""


class BrokenStreamError(HttpError):
    """The connection ended before the response did, or the response is not HTTP."""


@dataclass(frozen=True, kw_only=True)
class Response:
    """What came back, and when the request was sent (nanoseconds of the clock).

    sending_ns: how long the first write took, which is how uncertain the time of sending is.
    kernel_stamped: every arrival time is the kernel's.
    """

    status: int
    sent_ns: int
    sending_ns: int
    kernel_stamped: bool


class _Exchange:
    """One response: what has arrived, with its times. The parser calls the `on_*` methods."""

    def __init__(self, on_body: BodyCallback) -> None:
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()
        self.status = 0
        self._arrived: list[tuple[int, bytes]] = []
        self._deliver = on_body
        self._now_ns = 0
        self._ends_with_connection = True
        self._parser = httptools.HttpResponseParser(self)

    def arrived(self, at_ns: int, data: bytes) -> None:
        """Keep bytes; the loop parses them after the sockets that are readable now."""
        self._arrived.append((at_ns, data))
        if len(self._arrived) == 1:
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

    def closed(self, exc: Exception | None) -> None:
        """The server closed the connection, or it broke."""
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


class _PlainConnection:
    """A TCP connection that is read with the kernel's receive times.

    The kernel's time is that of the last byte read: bytes that came before and wait in the same
    socket get the time of those that came after (Linux, tcp_recv_timestamp).
    """

    def __init__(self, connected: socket.socket, exchange: _Exchange, clock: Clock) -> None:
        self._socket = connected
        self._exchange = exchange
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self.kernel_stamped = True
        self._loop.add_reader(connected, self._read)

    async def send(self, data: bytes) -> tuple[int, int]:
        """Write; the time before the first system call, and how long it took."""
        before_ns = self._clock()
        sent = self._socket.send(data)
        taken_ns = self._clock() - before_ns
        if sent < len(data):
            await self._loop.sock_sendall(self._socket, data[sent:])
        return before_ns, taken_ns

    def _read(self) -> None:
        try:
            count, ancillary, _, _ = self._socket.recvmsg_into([self._buffer], _ANCILLARY_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(error)
            return
        if count == 0:
            self._lost(None)
            return
        self._exchange.arrived(self._stamp(ancillary), self._buffer[:count].tobytes())

    def _stamp(self, ancillary: list[tuple[int, int, bytes]]) -> int:
        """The kernel's time on our clock: as long ago as it is by the kernel's own."""
        now_ns = self._clock()
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
                seconds, nanoseconds = _TIMESPEC.unpack(data)
                age_ns = time.time_ns() - (seconds * _NANOSECONDS + nanoseconds)
                # A wall clock that was set in these microseconds gives no age.
                return now_ns - age_ns if 0 <= age_ns < _NANOSECONDS else now_ns
        self.kernel_stamped = False
        return now_ns

    def _lost(self, error: OSError | None) -> None:
        self._loop.remove_reader(self._socket)
        self._exchange.closed(error)

    def abort(self) -> None:
        """Close at once."""
        self._loop.remove_reader(self._socket)
        self._socket.close()


class _TlsConnection(asyncio.BufferedProtocol):
    """A TLS connection, stamped as its bytes are decrypted.

    Buffered, because asyncio makes room for 256 KiB before every read of an ordinary protocol: that
    takes four times as long as reading one event does.
    """

    kernel_stamped = False

    def __init__(self, exchange: _Exchange, clock: Clock) -> None:
        self._exchange = exchange
        self._clock = clock
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 (asyncio's signature)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._exchange.arrived(self._clock(), self._buffer[:nbytes].tobytes())

    def connection_lost(self, exc: Exception | None) -> None:
        self._exchange.closed(exc)

    async def send(self, data: bytes) -> tuple[int, int]:
        """Write; the time before the first system call, and how long it took."""
        before_ns = self._clock()
        self._transport.write(data)
        return before_ns, self._clock() - before_ns

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()


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
    port = parts.port or (443 if parts.scheme == "https" else 80)
    response = _Exchange(on_body)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            connection = await _connected(
                response, parts.hostname or "", port, secure=parts.scheme == "https", clock=clock
            )
    except (OSError, TimeoutError) as error:
        reason = str(error) or f"no answer within {CONNECT_TIMEOUT_SECONDS:g} s"
        raise ConnectError(f"{parts.hostname}:{port}: {reason}") from error
    try:
        sent_ns, sending_ns = await connection.send(
            _request_bytes(method, url, headers or {}, body)
        )
        await response.done
    except OSError as error:
        raise BrokenStreamError(f"the request could not be sent: {error}") from error
    finally:
        connection.abort()
    return Response(
        status=response.status,
        sent_ns=sent_ns,
        sending_ns=sending_ns,
        kernel_stamped=connection.kernel_stamped,
    )


async def _connected(
    response: _Exchange, host: str, port: int, *, secure: bool, clock: Clock
) -> _PlainConnection | _TlsConnection:
    loop = asyncio.get_running_loop()
    if secure:
        _, tls = await loop.create_connection(
            lambda: _TlsConnection(response, clock), host, port, ssl=ssl.create_default_context()
        )
        return tls
    return _PlainConnection(await _plain_socket(host, port), response, clock)


def _stamped(wanted: socket.socket) -> socket.socket:
    wanted.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    return wanted


@cache
def keep_stamping() -> socket.socket:
    """Switch the kernel's stamps on for the life of this process; returns when they come.

    The first socket that asks has them switched on by deferred work (Linux, net_enable_timestamp),
    the last one that closes has them switched off again: of lone connections, every fifth had a
    first packet without a stamp, on a busy machine every third (`docs/metrics.md`).
    """
    keeper = _stamped(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    atexit.register(keeper.close)
    give_up_at_seconds = time.monotonic() + _STAMPING_DEADLINE_SECONDS
    with suppress(OSError), socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with socket.create_connection(address) as sender, _stamped(server.accept()[0]) as receiver:
            receiver.settimeout(_STAMPING_DEADLINE_SECONDS)
            stamps: list[tuple[int, int, bytes]] = []
            while not stamps and time.monotonic() < give_up_at_seconds:
                sender.send(b".")
                _, stamps, _, _ = receiver.recvmsg(1, _ANCILLARY_BYTES)
    return keeper


async def _plain_socket(host: str, port: int) -> socket.socket:
    """A connected socket; the first address that answers, in the resolver's order."""
    loop = asyncio.get_running_loop()
    if sys.platform == "linux":
        keep_stamping()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure: OSError = OSError("the name has no address")
    for family, kind, protocol, _, address in found:
        connecting = socket.socket(family, kind, protocol)
        try:
            connecting.setblocking(False)  # noqa: FBT003 (its only form)
            connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if sys.platform == "linux":
                _stamped(connecting)
            await loop.sock_connect(connecting, address)
        except BaseException as error:
            connecting.close()
            if not isinstance(error, OSError):
                raise
            failure = error
        else:
            return connecting
    raise failure


def _request_bytes(method: str, url: str, headers: Mapping[str, str], body: bytes) -> bytes:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [
        f"{method} {target} HTTP/1.1",
        f"Host: {parts.netloc.rpartition('@')[2]}",
        "User-Agent: draftworth",
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
