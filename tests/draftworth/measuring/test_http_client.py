"""Arrival times, completeness and errors of responses, over real sockets, plain and with TLS."""

import asyncio
import itertools
import re
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from draftworth.errors import UserInputError
from draftworth.measuring import http_client
from draftworth.measuring.connections import tls_context
from draftworth.measuring.http_client import ConnectError, Response, _Exchange, bearer, exchange
from draftworth.untrusted import MIB
from tests.support.certificates import new_authority
from tests.support.stream_server import HEADERS, Sleep, Step, Write, plain, stream_server
from tests.support.waiting import HANGS_AFTER_SECONDS

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
ASLEEP_SECONDS = 0.1
# How much later than written bytes may arrive on a busy machine, where the server's thread may lose
# its core.
TOLERANCE_SECONDS = 0.05

Arrival = tuple[int, bytes]


def fetch(url: str, *, body: bytes = b"") -> tuple[Response, list[Arrival]]:
    arrivals: list[Arrival] = []
    response = asyncio.run(
        exchange(
            "POST",
            url,
            on_body=lambda data, at: arrivals.append((at, data)),
            limit_bytes=MIB,
            body=body,
        )
    )
    return response, arrivals


def fetch_while_asleep() -> tuple[Response, Arrival, int]:
    """Let the body arrive while the event loop sleeps, as in a client that gets no core.

    Return the response, the body with its arrival time, and when the body was written (ns).
    """
    arrivals: list[Arrival] = []
    loops: list[asyncio.AbstractEventLoop] = []
    asleep, written = threading.Event(), threading.Event()

    def late_body() -> Iterator[Step]:
        yield Write(HEAD)
        loops[0].call_soon_threadsafe(sleep_over_the_body)
        asleep.wait(timeout=HANGS_AFTER_SECONDS)
        yield Write(b"ab")
        written.set()

    def sleep_over_the_body() -> None:
        asleep.set()
        written.wait(timeout=HANGS_AFTER_SECONDS)
        time.sleep(ASLEEP_SECONDS)

    async def run() -> Response:
        loops.append(asyncio.get_running_loop())
        return await exchange(
            "GET",
            server.base_url,
            on_body=lambda data, at: arrivals.append((at, data)),
            limit_bytes=MIB,
        )

    with stream_server(lambda _: late_body()) as server:
        response = asyncio.run(run())
    (arrival,) = arrivals
    return response, arrival, server.write_times_ns[1]


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's receive times are Linux's")
def test_bytes_read_late_keep_their_time_of_arrival() -> None:
    response, (at_ns, data), written_ns = fetch_while_asleep()

    assert data == b"ab"
    assert response.kernel_stamped
    assert abs(at_ns - written_ns) / 1e9 < TOLERANCE_SECONDS


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's receive times are Linux's")
def test_kernel_stamps_the_first_bytes_of_every_connection() -> None:
    """The kernel stamps only while some socket asks for it, and begins some time after that."""
    with stream_server(lambda _: plain("200 OK", b"ab")) as server:
        responses = []
        for _ in range(15):
            time.sleep(0.02)  # without a socket that asks for stamps, the kernel would stop now
            responses.append(fetch(server.base_url)[0])

    assert all(response.kernel_stamped for response in responses)


def test_without_kernel_stamps_the_response_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("draftworth.measuring.connections.sys.platform", "elsewhere")
    response, (at_ns, _), written_ns = fetch_while_asleep()

    assert not response.kernel_stamped
    assert (at_ns - written_ns) / 1e9 >= ASLEEP_SECONDS


def test_everything_readable_is_read_before_parsing_begins() -> None:
    ticks = itertools.count()
    log: list[tuple[str, int, int]] = []

    async def run() -> None:
        def response(name: str) -> _Exchange:
            return _Exchange(
                lambda _: None,
                lambda data, at: log.append((f"{name}{data.decode()}", at, next(ticks))),
                MIB,
            )

        first, second = response("first "), response("second ")
        first.arrived(next(ticks), HEAD + b"a")
        second.arrived(next(ticks), HEAD + b"b")
        first.arrived(next(ticks), b"c")
        assert log == []
        await first.done

    asyncio.run(run())
    assert log == [("first a", 0, 3), ("first c", 2, 4), ("second b", 1, 5)]


def test_bytes_that_came_with_the_end_are_kept() -> None:
    received: list[bytes] = []

    async def run() -> None:
        response = _Exchange(lambda _: None, lambda data, _: received.append(data), MIB)
        response.arrived(0, HEAD + b"ab")
        response.closed(None)
        await response.done

    asyncio.run(run())
    assert received == [b"ab"]


def test_a_request_above_the_sockets_buffer_is_whole() -> None:
    body = bytes(range(256)) * 40_000
    with stream_server(lambda _: plain("200 OK", b"ok")) as server:
        response, arrivals = fetch(server.base_url, body=body)

    assert response.head.status == 200
    assert b"".join(data for _, data in arrivals) == b"ok"
    assert server.requests[0].body == body


@contextmanager
def no_room() -> Iterator[tuple[str, int]]:
    """Yield an address that neither accepts nor refuses connections: its queue is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listener, ExitStack() as waiting:
        for _ in range(4):
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield listener.getsockname()


@contextmanager
def nobody() -> Iterator[tuple[str, int]]:
    """Yield an address that refuses connections."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()


@pytest.mark.parametrize("dead", [no_room, nobody])
@pytest.mark.parametrize("secure", [False, True])
def test_the_next_address_replaces_a_dead_one(
    own_tls: tuple[Path, ssl.SSLContext],
    monkeypatch: pytest.MonkeyPatch,
    dead: Callable[[], AbstractContextManager[tuple[str, int]]],
    secure: bool,
) -> None:
    """Well before the timeout, which would pass if only the first address were tried."""
    authority, context = own_tls
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    monkeypatch.setattr(http_client, "CONNECT_TIMEOUT_SECONDS", 60.0)
    tls = context if secure else None
    with dead() as first, stream_server(lambda _: plain("200 OK", b"ok"), tls=tls) as server:
        port = int(server.base_url.rpartition(":")[2])
        addresses = [
            (socket.AF_INET, socket.SOCK_STREAM, 0, "", at) for at in (first, ("127.0.0.1", port))
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_: list(addresses))
        response, _ = fetch(f"{'https' if secure else 'http'}://127.0.0.1:{port}")

    assert response.head.status == 200


def test_a_refused_connection_is_told_with_its_address() -> None:
    with nobody() as (host, port), pytest.raises(ConnectError) as refused:
        fetch(f"http://{host}:{port}")
    assert str(refused.value) == (f"http://{host}:{port}: Connection refused ('{host}', {port})")


@pytest.fixture
def own_tls(tmp_path: Path) -> Iterator[tuple[Path, ssl.SSLContext]]:
    """Yield the file of an unknown certificate authority, and a server context signed by it."""
    tls_context.cache_clear()
    yield new_authority(tmp_path)
    tls_context.cache_clear()


def test_tls_is_stamped_on_arrival_not_by_kernel(
    own_tls: tuple[Path, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, context = own_tls
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    with stream_server(lambda _: (Write(HEAD), Sleep(0.15), Write(b"ab")), tls=context) as server:
        response, [(at_ns, data)] = fetch(server.base_url, body=b"{}")

    assert (response.head.status, data) == (200, b"ab")
    assert not response.kernel_stamped
    assert at_ns > response.sent_ns
    assert server.requests[0].body == b"{}"


def test_an_untrusted_authority_is_reported_with_its_variable(
    own_tls: tuple[Path, ssl.SSLContext],
) -> None:
    with (
        stream_server(lambda _: plain("200 OK", b"ok"), tls=own_tls[1]) as server,
        pytest.raises(ConnectError, match=r"is not trusted: unable to get .*SSL_CERT_FILE$"),
    ):
        fetch(server.base_url)


def test_a_server_without_tls_is_a_connect_error() -> None:
    def answer(listener: socket.socket) -> None:
        with listener.accept()[0] as connection:
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.recv(4096)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        with pytest.raises(ConnectError, match=r"^https://127\.0\.0\.1:[0-9]+: .*SSL"):
            fetch(f"https://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_server_that_takes_no_connection_is_reported(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """Its queue is full, so that a plain connection waits, and so does a TLS handshake."""
    monkeypatch.setattr(http_client, "CONNECT_TIMEOUT_SECONDS", 0.2)
    with (
        no_room() as (_, port),
        pytest.raises(ConnectError, match=r":[0-9]+: no answer within 0.2"),
    ):
        fetch(f"{scheme}://127.0.0.1:{port}")


def test_proxies_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        stream_server(lambda _: plain("200 OK", b"direct")) as server,
        stream_server(lambda _: plain("200 OK", b"by the proxy")) as proxy,
    ):
        for variable in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(variable, proxy.base_url)
        _, [(_, data)] = fetch(server.base_url)

    assert data == b"direct"
    assert proxy.requests == []


NO_ADDRESS = "that is no address of a server"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://a..b", "http://a..b: no host can have this name: label empty or too long"),
        (f"http://{'x' * 64}", "no host can have this name: label too long"),
        ("http://\ud800.example", r"http://\ud800.example: "),
        ("http://127.0.0.1:0", NO_ADDRESS),
        ("http://127.0.0.1:65536", "Port out of range 0-65535"),
        ("http://127.0.0.1:x", "Port could not be cast to integer value as 'x'"),
        ("http://[::1", "Invalid IPv6 URL"),
        ("http://", NO_ADDRESS),
        ("", NO_ADDRESS),
        ("ftp://127.0.0.1", NO_ADDRESS),
        ("http://127.0.0.1\x00:1", ""),
        ("http://user:secret@a..b", "http://a..b: no host"),
    ],
)
def test_an_impossible_address_is_reported_in_words(url: str, words: str) -> None:
    with pytest.raises(ConnectError) as caught:
        fetch(url)

    assert words in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_key_that_no_header_carries_is_refused() -> None:
    assert bearer("k") == {"Authorization": "Bearer k"}
    for key in ("a\r\nX: y", "a\n", "schl\u00fcssel", "\udc80"):
        with pytest.raises(UserInputError, match=r"OPENAI_API_KEY: .* allowed: printable ASCII"):
            bearer(key)


def test_parts_that_came_together_are_in_order() -> None:
    """The client reads one write in several parts, and computes the time of each one anew."""
    for _ in range(20):
        with stream_server(lambda _: [Write(HEADERS + b"a" * 900_000)]) as server:
            _, arrivals = fetch(server.base_url)
        times_ns = [at_ns for at_ns, _ in arrivals]
        assert len(times_ns) > 1
        assert times_ns == sorted(times_ns)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's receive times are Linux's")
def test_setting_the_wall_clock_moves_no_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The clock is set by 0.3 s; with this error, the bytes would be older than the request."""
    real_ns = time.time_ns
    jumped = threading.Event()

    def steps() -> Iterator[Step]:
        jumped.set()
        yield Write(HEAD + b"ab")

    monkeypatch.setattr(
        "draftworth.measuring.connections.time.time_ns",
        lambda: real_ns() + 300_000_000 * jumped.is_set(),
    )
    with stream_server(lambda _: steps()) as server:
        response, [(at_ns, _)] = fetch(server.base_url)

    assert at_ns > response.sent_ns
    assert not response.kernel_stamped
    assert not response.no_time


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's receive times are Linux's")
def test_bytes_read_too_late_have_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_ns = int(ASLEEP_SECONDS / 4 * 1e9)
    monkeypatch.setattr("draftworth.measuring.connections._MAX_AGE_NS", limit_ns)
    response, _, _ = fetch_while_asleep()

    assert re.fullmatch(r"client read bytes [0-9.]+ s after they came", response.no_time)
    assert not response.kernel_stamped
