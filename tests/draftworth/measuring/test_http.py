"""When bytes are stamped, and that they all arrive: against real sockets, plain and TLS."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import itertools
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from draftworth.measuring.http import Response, _Exchange, exchange
from draftworth.untrusted import MIB
from tests.support.stream_server import Sleep, Step, Write, plain, stream_server

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
ASLEEP_SECONDS = 0.1
# What the way through the kernel and a preempted server thread may take on a busy machine.
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
    """The event loop sleeps over the arrival of the body, as a client without a core does.

    Gives the body with its time, and the time at which it was written.
    """
    arrivals: list[Arrival] = []
    loops: list[asyncio.AbstractEventLoop] = []
    asleep, written = threading.Event(), threading.Event()

    def late_body() -> Iterator[Step]:
        yield Write(HEAD)
        loops[0].call_soon_threadsafe(sleep_over_the_body)
        asleep.wait(timeout=10)
        yield Write(b"ab")
        written.set()

    def sleep_over_the_body() -> None:
        asleep.set()
        written.wait(timeout=10)
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
def test_bytes_that_a_busy_client_reads_late_have_the_time_at_which_they_came() -> None:
    response, (at_ns, data), written_ns = fetch_while_asleep()

    assert data == b"ab"
    assert response.kernel_stamped
    assert abs(at_ns - written_ns) / 1e9 < TOLERANCE_SECONDS


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's receive times are Linux's")
def test_the_kernel_stamps_the_first_bytes_of_every_connection() -> None:
    """It stamps only while a socket asks for it, and begins with a delay."""
    with stream_server(lambda _: plain("200 OK", b"ab")) as server:
        responses = []
        for _ in range(15):
            time.sleep(0.02)  # long enough for the kernel to stop, were nothing asking any more
            responses.append(fetch(server.base_url)[0])

    assert all(response.kernel_stamped for response in responses)


def test_without_the_kernels_times_they_are_late_and_the_response_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("draftworth.measuring.connections.sys.platform", "elsewhere")
    response, (at_ns, _), written_ns = fetch_while_asleep()

    assert not response.kernel_stamped
    assert (at_ns - written_ns) / 1e9 >= ASLEEP_SECONDS


def test_what_is_readable_together_is_read_before_any_byte_is_parsed() -> None:
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


def test_bytes_that_came_with_the_end_of_the_connection_are_not_lost() -> None:
    received: list[bytes] = []

    async def run() -> None:
        response = _Exchange(lambda _: None, lambda data, _: received.append(data), MIB)
        response.arrived(0, HEAD + b"ab")
        response.closed(None)
        await response.done

    asyncio.run(run())
    assert received == [b"ab"]


def test_a_request_larger_than_the_sockets_buffer_is_sent_whole() -> None:
    body = bytes(range(256)) * 40_000
    with stream_server(lambda _: plain("200 OK", b"ok")) as server:
        response, arrivals = fetch(server.base_url, body=body)

    assert response.head.status == 200
    assert b"".join(data for _, data in arrivals) == b"ok"
    assert server.requests[0].body == body


def test_the_next_address_is_tried_when_the_first_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with stream_server(lambda _: plain("200 OK", b"ok")) as server:
        port = int(server.base_url.rpartition(":")[2])
        with socket.create_server(("127.0.0.1", 0)) as closed:
            nobody = closed.getsockname()
        addresses = [nobody, ("127.0.0.1", port)]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", address) for address in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_: found)

        response, _ = fetch(f"http://name.example:{port}")

    assert response.head.status == 200


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A server's context with a certificate of its own that this process trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    today = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "server.pem"
    pem = serialization.Encoding.PEM
    file.write_bytes(
        certificate.public_bytes(pem)
        + key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    return context


def test_tls_is_stamped_on_arrival_and_says_that_the_kernel_did_not(
    trusted: ssl.SSLContext,
) -> None:
    with stream_server(lambda _: (Write(HEAD), Sleep(0.15), Write(b"ab")), tls=trusted) as server:
        response, [(at_ns, data)] = fetch(server.base_url, body=b"{}")

    assert (response.head.status, data) == (200, b"ab")
    assert not response.kernel_stamped
    assert at_ns > response.sent_ns
    assert server.requests[0].body == b"{}"
