"""A real HTTP server that sends what a test's script says, including protocol errors.

It runs in a thread of its own on loopback, writes raw bytes, and records the time of each write by
the client's clock, so that a test can compare the client's figures with what happened.
"""

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

HEADERS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True)
class Write:
    data: bytes


@dataclass(frozen=True)
class Sleep:
    seconds: float


@dataclass(frozen=True)
class Reset:
    """A step of a script: the server resets the connection (TCP RST)."""


Step = Write | Sleep | Reset
Script = Callable[["Request"], Iterable[Step]]


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class StreamServer:
    """A running server: its URL, the requests that it received, and the times of its writes.

    write_times_ns: values of `time.perf_counter_ns`, one for each `Write`, in order.
    """

    base_url: str
    requests: list[Request] = field(default_factory=list)
    write_times_ns: list[int] = field(default_factory=list)


def event(
    text: str | None = None,
    *,
    tokens: int | None = None,
    role: str | None = None,
    finish: str | None = None,
    prompt_tokens: int = 11,
    token_ids: object = None,
    **delta: object,
) -> bytes:
    """Return a server-sent event of a chat completion as vLLM writes it.

    tokens: the number of output tokens so far, this event's included; None: the event has no usage.
    delta: further fields of the event's delta.
    """
    fields: dict[str, Any] = {**delta}
    if role:
        fields["role"] = role
    if text is not None:
        fields["content"] = text
    choice = {"index": 0, "delta": fields, "finish_reason": finish}
    if token_ids is not None:
        choice["token_ids"] = token_ids
    value: dict[str, Any] = {"object": "chat.completion.chunk", "choices": [choice]}
    if tokens is not None:
        value["usage"] = {"prompt_tokens": prompt_tokens, "completion_tokens": tokens}
    return event_of(value)


def event_of(value: object) -> bytes:
    """Return a server-sent event whose data is this value as JSON."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def usage_event(tokens: int, *, prompt_tokens: int = 11) -> bytes:
    """Return the event at the end of a stream that has the token counts and no choices."""
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": tokens}
    return event_of({"choices": [], "usage": usage})


DONE = b"data: [DONE]\n\n"


def completion(
    *chunk_tokens: int, gap_seconds: float = 0.0, ttft_seconds: float = 0.0
) -> list[Step]:
    """Return the steps of a good stream: an event with only a role, then one chunk per argument.

    chunk_tokens: the number of tokens in each chunk. gap_seconds: the pause between two chunks.
    ttft_seconds: the pause before the first chunk.
    """
    steps: list[Step] = [Write(HEADERS), Write(event("", tokens=0, role="assistant"))]
    total = 0
    for index, tokens in enumerate(chunk_tokens):
        steps.append(Sleep(gap_seconds if index else ttft_seconds))
        total += tokens
        finish = "length" if index == len(chunk_tokens) - 1 else None
        steps.append(Write(event("x" * tokens, tokens=total, finish=finish)))
    return [*steps, Write(usage_event(total)), Write(DONE)]


def plain(status: str, body: bytes, content_type: str = "application/json") -> list[Step]:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return [Write(head.encode() + body)]


@contextmanager
def stream_server(script: Script, *, tls: ssl.SSLContext | None = None) -> Iterator[StreamServer]:
    """Run a server that plays `script(request)` for each connection, until the `with` block ends.

    Each connection has its own thread and one request. tls: serve HTTPS with this context.
    """
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    scheme, port = "https" if tls else "http", listener.getsockname()[1]
    server = StreamServer(base_url=f"{scheme}://127.0.0.1:{port}")
    listener = tls.wrap_socket(listener, server_side=True) if tls else listener
    listener.settimeout(0.05)
    closing = threading.Event()
    thread = threading.Thread(target=_accept, args=(listener, server, script, closing))
    thread.start()
    try:
        yield server
    finally:
        closing.set()
        thread.join()
        listener.close()


def _accept(
    listener: socket.socket, server: StreamServer, script: Script, closing: threading.Event
) -> None:
    threads: list[threading.Thread] = []
    while not closing.is_set():
        try:
            connection, _ = listener.accept()
        except (TimeoutError, OSError):
            continue
        thread = threading.Thread(target=_serve, args=(connection, server, script, closing))
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()


def _serve(
    connection: socket.socket, server: StreamServer, script: Script, closing: threading.Event
) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        try:
            request = _read_request(connection)
            server.requests.append(request)
            for step in script(request):
                _play(step, connection, server, closing)
        except OSError:
            pass  # the client closed the connection


def _play(
    step: Step, connection: socket.socket, server: StreamServer, closing: threading.Event
) -> None:
    match step:
        case Write(data):
            connection.sendall(data)
            server.write_times_ns.append(time.perf_counter_ns())
        case Sleep(seconds):
            closing.wait(seconds)
        case Reset():
            linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.close()


def _read_request(connection: socket.socket) -> Request:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            raise OSError("no request")
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {n.lower(): v for n, _, v in (line.partition(": ") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65536)
    method, path, _ = first.split(" ")
    return Request(method, path, headers, body)
