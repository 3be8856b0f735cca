"""Plain and TLS connections that record when bytes arrived.

The client's own error must be far smaller than the times that it measures. On Linux and plain HTTP
the kernel stamps bytes when they arrive (`SO_TIMESTAMPNS`, socket(7)), so no figure contains a
delay of the client's event loop or a wait for a core. The kernel makes timestamps only while some
socket has this option, and begins some time after the first socket gets it, so one socket keeps the
option until the process ends. With TLS or on another system, the time is read from the clock when
the bytes are read.
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
from typing import Any, Protocol, cast

Clock = Callable[[], int]

_READ_BYTES = 16 * 1024
_SO_TIMESTAMPNS = 35  # Linux, asm-generic/socket.h; not in the socket module
_TIMESPEC = struct.Struct("qq")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
_NANOSECONDS = 1_000_000_000
# If the difference of wall clock and monotonic clock changes by this much, the wall clock was set.
# Reading both clocks takes less time than this, unless the thread loses its core.
_CLOCKS_APART_NS = 100_000
# How often both clocks are read at most, because this thread may lose its core between the two.
_MOST_READINGS = 5
# If bytes are read later than this after their arrival, the client was stopped meanwhile: a client
# that runs reads bytes at once, and one that waits for a core reads them after milliseconds.
_MAX_AGE_NS = _NANOSECONDS
# The longest wait for the kernel's first timestamp; a busy machine needed 17 ms.
_STAMPING_DEADLINE_SECONDS = 1.0
# How long one address of a host may take to answer before the next one is tried too (RFC 8305,
# section 8).
_HEAD_START_SECONDS = 0.25


class Receiver(Protocol):
    """Gets the bytes that arrive on a connection."""

    def arrived(self, at_ns: int, data: bytes) -> None:
        """Handle `data`, which arrived at `at_ns` (nanoseconds of the connection's clock)."""

    def closed(self, exc: Exception | None) -> None:
        """Handle the connection's end: `exc` is its error, None if the server closed it."""


class _PlainConnection:
    """A TCP connection that reads bytes with the kernel's timestamps.

    Each read has one timestamp, that of its last byte: bytes that arrived earlier and are read
    together with later ones get the later time (Linux, tcp_recv_timestamp).

    no_time: why an arrival time is not known although the kernel stamped the bytes; empty if all
        are known.
    """

    def __init__(self, connected: socket.socket, receiver: Receiver, clock: Clock) -> None:
        self._socket = connected
        self._receiver = receiver
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._buffer = memoryview(bytearray(_READ_BYTES))
        now_ns, wall_ns = self._clocks()
        self._apart_ns = wall_ns - now_ns
        self._last_ns = 0  # when the newest bytes arrived
        self.kernel_stamped = True
        self.no_time = ""
        # The socket's number is used, because asyncio would format an unknown socket object as
        # text, which takes system calls.
        self._number = connected.fileno()
        self._loop.add_reader(self._number, self._read)

    async def send(self, data: bytes) -> tuple[int, int]:
        """Send `data`; return when the first system call began, and how long it lasted (ns)."""
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
        # Converting the kernel's time to the connection's clock has an error of some 100 ns, which
        # differs from read to read. With `max`, no bytes get an earlier time than those before.
        self._last_ns = max(self._last_ns, self._stamp(ancillary))
        self._receiver.arrived(self._last_ns, self._buffer[:count].tobytes())

    def _stamp(self, ancillary: list[tuple[int, int, bytes]]) -> int:
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
                seconds, nanoseconds = _TIMESPEC.unpack(data)
                at_ns = self._time_of(seconds * _NANOSECONDS + nanoseconds)
                if at_ns is not None:
                    return at_ns
        self.kernel_stamped = False
        return self._clock()

    def _time_of(self, stamp_ns: int) -> int | None:
        """Convert the kernel's time of arrival to the connection's clock; None: it is not known.

        It is not known if the wall clock was set, or if the bytes are older than `_MAX_AGE_NS`. In
        the second case the client did not run, and `no_time` says so. The caller then uses the time
        of reading.
        """
        now_ns, wall_ns = self._clocks()
        age_ns, apart_ns = wall_ns - stamp_ns, wall_ns - now_ns
        if abs(apart_ns - self._apart_ns) >= _CLOCKS_APART_NS:
            self._apart_ns = apart_ns
            return None
        if age_ns >= _MAX_AGE_NS:
            self.no_time = f"client read bytes {age_ns / _NANOSECONDS:.1f} s after they came"
        return now_ns - age_ns if 0 <= age_ns < _MAX_AGE_NS else None

    def _clocks(self) -> tuple[int, int]:
        """Read the connection's clock and the wall clock at the same time; return both (ns)."""
        for _ in range(_MOST_READINGS):
            now_ns, wall_ns = self._clock(), time.time_ns()
            if self._clock() - now_ns < _CLOCKS_APART_NS:
                break
        return now_ns, wall_ns

    def _lost(self, error: OSError | None) -> None:
        self._loop.remove_reader(self._number)
        self._receiver.closed(error)

    def abort(self) -> None:
        self._loop.remove_reader(self._number)
        self._socket.close()


class _TlsConnection(asyncio.BufferedProtocol):
    """A TLS connection that stamps bytes when they are decrypted.

    It is a `BufferedProtocol`, because for other protocols asyncio allocates 256 KiB before every
    read, which takes four times as long as reading one event of a stream.
    """

    kernel_stamped = False
    no_time = ""

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
    """Connect without a proxy, even if one is set; OSError, ValueError: no connection."""
    connected = await _first_to_answer(host, port)
    if secure:
        _, tls = await asyncio.get_running_loop().create_connection(
            lambda: _TlsConnection(receiver, clock),
            sock=connected,
            ssl=tls_context(),
            server_hostname=host,
        )
        return tls
    return _PlainConnection(connected, receiver, clock)


@cache
def tls_context() -> ssl.SSLContext:
    """Return a context with the certificate authorities of the machine or of SSL_CERT_FILE.

    They are loaded only once, because this takes 15 ms.
    """
    return ssl.create_default_context()


def _stamped(wanted: socket.socket) -> socket.socket:
    wanted.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    return wanted


@cache
def keep_stamping() -> socket.socket:
    """Switch the kernel's timestamps on until this process ends, and wait until they have begun.

    Linux begins some time after the first socket sets the option (net_enable_timestamp), and
    stops when the last such socket is closed. Without this, a fifth of single connections got their
    first packet without a timestamp, and a third on a busy machine
    (`docs/appendix/measurement.md`).
    """
    keeper = _stamped(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    atexit.register(keeper.close)
    give_up_at_seconds = time.monotonic() + _STAMPING_DEADLINE_SECONDS
    with (
        suppress(OSError),
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket() as sender,
    ):
        # Both sockets get a timeout: whatever happens here, a run must not wait for it.
        server.settimeout(_STAMPING_DEADLINE_SECONDS)
        sender.settimeout(_STAMPING_DEADLINE_SECONDS)
        sender.connect(server.getsockname())
        with _stamped(server.accept()[0]) as receiver:
            receiver.settimeout(_STAMPING_DEADLINE_SECONDS)
            stamps: list[tuple[int, int, bytes]] = []
            while not stamps and time.monotonic() < give_up_at_seconds:
                sender.send(b".")
                _, stamps, _, _ = receiver.recvmsg(1, _ANCILLARY_BYTES)
    return keeper


async def _first_to_answer(host: str, port: int) -> socket.socket:
    """Return a socket that is connected to the first address of `host` that answers.

    If an address has not answered after `_HEAD_START_SECONDS`, the next one is tried beside it. The
    `happy_eyeballs_delay` of asyncio does the same, but leaks a socket if it is cancelled.
    """
    loop = asyncio.get_running_loop()
    if sys.platform == "linux":
        keep_stamping()
    addresses = await _addresses(host, port)
    if len(addresses) == 1:
        return await _opened(*addresses[0])
    tries: set[asyncio.Task[socket.socket]] = set()
    failure: BaseException = OSError("the name has no address")
    try:
        while addresses or tries:
            if addresses:
                tries.add(loop.create_task(_opened(*addresses.pop(0))))
            seconds = _HEAD_START_SECONDS if addresses else None
            done, _ = await asyncio.wait(tries, timeout=seconds, return_when="FIRST_COMPLETED")
            for one in done:
                tries.remove(one)
                if not (error := one.exception()):
                    return one.result()
                failure = error
        raise failure
    finally:
        for one in tries:
            one.add_done_callback(_close)
            one.cancel()


async def _addresses(host: str, port: int) -> list[Any]:
    # A numeric address is resolved without a name server, so without a thread, whose start takes
    # CPU time.
    with suppress(socket.gaierror):
        return socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _close(opening: asyncio.Task[socket.socket]) -> None:
    if not opening.cancelled() and not opening.exception():
        opening.result().close()


async def _opened(family: int, kind: int, protocol: int, _: str, address: Any) -> socket.socket:
    connecting = socket.socket(family, kind, protocol)
    try:
        connecting.setblocking(False)  # noqa: FBT003 (its only form)
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sys.platform == "linux":
            _stamped(connecting)
        await asyncio.get_running_loop().sock_connect(connecting, address)
    except BaseException:
        connecting.close()
        raise
    return connecting
