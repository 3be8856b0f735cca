"""Connections, plain and TLS, that note when bytes arrived.

The client's own error must be far smaller than what it measures. On Linux and plain HTTP the kernel
stamps bytes as they come (`SO_TIMESTAMPNS`, socket(7)), so that no figure contains a delay of the
client's event loop or a wait for a core. The kernel stamps only while a socket asks for it, and
switches this on in the background, so one socket asks for it as long as the process lives. TLS and
other systems have no such stamps: there bytes are stamped in the transport callback.
"""

import asyncio
import atexit
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Protocol, cast

Clock = Callable[[], int]

_READ_BYTES = 16 * 1024
_SO_TIMESTAMPNS = 35  # Linux, asm-generic/socket.h; not in the socket module
_TIMESPEC = struct.Struct("qq")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
_NANOSECONDS = 1_000_000_000
# Reading two clocks takes less time than this; setting the wall clock moves them apart by more.
_CLOCKS_APART_NS = 100_000
# A busy machine took 17 ms; a machine that takes longer than this is not waited for.
_STAMPING_DEADLINE_SECONDS = 1.0


class Receiver(Protocol):
    """Takes the bytes of a connection."""

    def arrived(self, at_ns: int, data: bytes) -> None:
        """Take bytes that came at a time."""

    def closed(self, exc: Exception | None) -> None:
        """Note that the server closed the connection, or that it broke."""


class _PlainConnection:
    """A TCP connection that is read with the kernel's receive times.

    The kernel's time is that of the last byte read: bytes that came before and wait in the same
    socket get the time of those that came after (Linux, tcp_recv_timestamp).
    """

    def __init__(self, connected: socket.socket, receiver: Receiver, clock: Clock) -> None:
        self._socket = connected
        self._receiver = receiver
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._apart_ns = time.time_ns() - clock()
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
        self._receiver.arrived(self._stamp(ancillary), self._buffer[:count].tobytes())

    def _stamp(self, ancillary: list[tuple[int, int, bytes]]) -> int:
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
                now_ns, wall_ns, same = self._clocks()
                seconds, nanoseconds = _TIMESPEC.unpack(data)
                age_ns: int = wall_ns - (seconds * _NANOSECONDS + nanoseconds)
                if same and 0 <= age_ns < _NANOSECONDS:
                    return now_ns - age_ns
        self.kernel_stamped = False
        return self._clock()

    def _clocks(self) -> tuple[int, int, bool]:
        """Both clocks at one moment, and whether they are as far apart as before.

        If they are not, the wall clock was set, maybe after the kernel used it; or this thread lost
        its core between the two readings, which the second try corrects.
        """
        for _ in range(2):
            now_ns, wall_ns = self._clock(), time.time_ns()
            if abs(wall_ns - now_ns - self._apart_ns) < _CLOCKS_APART_NS:
                return now_ns, wall_ns, True
        self._apart_ns = wall_ns - now_ns
        return now_ns, wall_ns, False

    def _lost(self, error: OSError | None) -> None:
        self._loop.remove_reader(self._socket)
        self._receiver.closed(error)

    def abort(self) -> None:
        self._loop.remove_reader(self._socket)
        self._socket.close()


class _TlsConnection(asyncio.BufferedProtocol):
    """A TLS connection that stamps bytes when they are decrypted.

    It is a buffered protocol, because for any other one asyncio allocates 256 KiB before every
    read, which takes four times as long as reading one event.
    """

    kernel_stamped = False

    def __init__(self, receiver: Receiver, clock: Clock) -> None:
        self._receiver = receiver
        self._clock = clock
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 (asyncio's signature)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._receiver.arrived(self._clock(), self._buffer[:nbytes].tobytes())

    def connection_lost(self, exc: Exception | None) -> None:
        self._receiver.closed(exc)

    async def send(self, data: bytes) -> tuple[int, int]:
        before_ns = self._clock()
        self._transport.write(data)
        return before_ns, self._clock() - before_ns

    def abort(self) -> None:
        self._transport.abort()


Connection = _PlainConnection | _TlsConnection


async def connect(
    receiver: Receiver, host: str, port: int, *, secure: bool, clock: Clock
) -> Connection:
    """Connect directly, without regard to proxy variables; raises OSError or ValueError."""
    if secure:
        loop = asyncio.get_running_loop()
        _, tls = await loop.create_connection(
            lambda: _TlsConnection(receiver, clock), host, port, ssl=tls_context()
        )
        return tls
    return _PlainConnection(await _plain_socket(host, port), receiver, clock)


@cache
def tls_context() -> ssl.SSLContext:
    """The certificate authorities of this machine, or of SSL_CERT_FILE; it takes 15 ms to read."""
    return ssl.create_default_context()


def _stamped(wanted: socket.socket) -> socket.socket:
    wanted.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    return wanted


@cache
def keep_stamping() -> socket.socket:
    """Switch the kernel's stamps on for the life of this process, and return when they come.

    Linux switches them on in the background when the first socket asks (net_enable_timestamp), and
    off when the last one closes. Without this, every fifth lone connection had a first packet
    without a stamp, and every third on a busy machine (`docs/metrics.md`).
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
