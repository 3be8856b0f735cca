"""The ground-truth server: emits a known token timeline and records when each chunk was written.

    python -m benchmarks.ground_truth.server --port 8000 --timeline '{"chunk_tokens": [1, 8]}'

It serves chat completions, `/v1/models`, `/health` and an empty `/metrics`; `GET /truth`
returns each `RequestTruth` as JSON. It uses sockets, not asyncio transports: a chunk is one `send`,
and the time is taken right after it (docs/fidelity.md). Times are nanoseconds of CLOCK_MONOTONIC,
which is the same in all processes of a Linux machine, and which `time.perf_counter_ns` reads too.
"""

import argparse
import asyncio
import gc
import json
import socket
import struct
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any

from benchmarks.ground_truth import timeline

_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
_SO_TIMESTAMPNS = 35  # from Linux's asm-generic/socket.h, because `socket` lacks it
_TIMESPEC = struct.Struct("qq")


@dataclass(kw_only=True)
class RequestTruth:
    """The server's record of a request.

    arrived_ns: when the kernel had received the request's last bytes. The wait until `handled_ns`
        is in the server's queue, so it is part of the server's time, not the client's.
    handled_ns: when the server had read the request; the timeline starts then.
    due_ns, written_ns: for each chunk with tokens, when it should have been written, and the time
        right after the system call that wrote it.
    prompt: the first characters of the last message, to identify the request.
    complete: the whole stream was written while the client was still connected.
    """

    prompt: str
    arrived_ns: int
    handled_ns: int
    tokens: list[int] = field(default_factory=list)
    due_ns: list[int] = field(default_factory=list)
    written_ns: list[int] = field(default_factory=list)
    complete: bool = False

    @property
    def ttft_s(self) -> float:
        return (self.written_ns[0] - self.arrived_ns) / 1e9

    @property
    def itl_s(self) -> float | None:
        """The time per token after the first chunk; None if there is only one chunk."""
        later = sum(self.tokens[1:])
        return (self.written_ns[-1] - self.written_ns[0]) / 1e9 / later if later else None

    @property
    def lateness_s(self) -> list[float]:
        pairs = zip(self.written_ns, self.due_ns, strict=True)
        return [(written - due) / 1e9 for written, due in pairs]


def output_tokens(requests: Sequence[RequestTruth]) -> int:
    """Return the number of tokens that the server has written for `requests`."""
    return sum(sum(request.tokens) for request in requests)


def throughput_token_per_s(requests: Sequence[RequestTruth]) -> float:
    """Return all tokens divided by the time from the first arrival to the last write."""
    start_ns = min(request.arrived_ns for request in requests)
    end_ns = max(request.written_ns[-1] for request in requests)
    return output_tokens(requests) / ((end_ns - start_ns) / 1e9)


class Server:
    """Serves the prepared timelines (`Plan`) as events, and records the served requests."""

    def __init__(self, spec: timeline.TimelineSpec) -> None:
        self.spec = spec
        self.requests: list[RequestTruth] = []
        self.events = cache(self._events)
        for index in range(timeline.POOL):
            self.events(spec.usage, index)

    def _events(self, usage: timeline.Usage, index: int) -> tuple[timeline.Event, ...]:
        events = timeline.events_of(timeline.plan_of(self.spec, index), usage=usage)
        return tuple(replace(event, data=_framed(event.data)) for event in events)

    def usage_for(self, options: dict[str, Any]) -> timeline.Usage:
        if self.spec.usage == "off" or not options.get("include_usage"):
            return "off"
        return self.spec.usage if options.get("continuous_usage_stats") else "last_chunk"

    def accept(self, listener: socket.socket) -> None:
        with suppress(BlockingIOError):
            while True:
                connection, _ = listener.accept()
                connection.setblocking(False)  # noqa: FBT003 (its only form)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _Connection(self, connection)


class _Connection:
    """A connection: reads a request, then sends the events of its plan at their times."""

    def __init__(self, server: Server, connection: socket.socket) -> None:
        self._server = server
        self._socket = connection
        self._loop = asyncio.get_running_loop()
        self._received = b""
        self._arrived_ns = 0
        self._unsent = b""
        self._timer: asyncio.TimerHandle | None = None
        self._loop.add_reader(connection, self._readable)
        self._readable()

    def _readable(self) -> None:
        try:
            data, ancillary, _, _ = self._socket.recvmsg(1 << 16, 256)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", []
        if not data:
            self._close()
            return
        self._arrived_ns = _kernel_time_ns(ancillary)
        self._received += data
        head, blank, rest = self._received.partition(b"\r\n\r\n")
        if not blank:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines)}
        length = int(fields.get("content-length", 0))
        if len(rest) >= length:
            self._received = rest[length:]
            method, path = first.split(" ")[:2]
            self._answer(method, path, rest[:length])

    def _answer(self, method: str, path: str, body: bytes) -> None:
        if method == "POST" and path == "/v1/chat/completions":
            self._stream(body)
        elif path == "/truth":
            self._plain(json.dumps([asdict(truth) for truth in self._server.requests]).encode())
        elif path == "/v1/models":
            model = {
                "id": timeline.MODEL,
                "object": "model",
                "created": 0,
                "owned_by": "draftworth",
            }
            self._plain(json.dumps({"object": "list", "data": [model]}).encode())
        elif path in ("/health", "/metrics"):
            self._plain(b"", "text/plain")
        else:
            self._plain(b'{"error": {"message": "not here"}}', status="404 Not Found")

    def _plain(self, body: bytes, kind: str = "application/json", status: str = "200 OK") -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._send(head.encode() + body)

    def _stream(self, body: bytes) -> None:
        server = self._server
        request = json.loads(body)
        usage = server.usage_for(request.get("stream_options") or {})
        events = server.events(usage, len(server.requests) % timeline.POOL)
        prompt = request["messages"][-1]["content"]
        prompt = (prompt if isinstance(prompt, str) else json.dumps(prompt))[:64]
        handled_ns = time.monotonic_ns()
        arrived_ns = self._arrived_ns or handled_ns
        truth = RequestTruth(prompt=prompt, arrived_ns=arrived_ns, handled_ns=handled_ns)
        server.requests.append(truth)
        self._send(_STREAM_HEAD)
        self._play(events, 0, truth)

    def _play(self, events: tuple[timeline.Event, ...], position: int, truth: RequestTruth) -> None:
        while position < len(events):
            event = events[position]
            due_ns = truth.handled_ns + event.offset_ns
            if due_ns > time.monotonic_ns():
                self._timer = self._loop.call_at(due_ns / 1e9, self._play, events, position, truth)
                return
            if position == len(events) - 1:  # the client may disconnect after the last event
                truth.complete = self._socket.fileno() >= 0
            self._send(event.data)
            if event.tokens:
                truth.written_ns.append(time.monotonic_ns())
                truth.due_ns.append(due_ns)
                truth.tokens.append(event.tokens)
            position += 1
        self._send(b"0\r\n\r\n")

    def _send(self, data: bytes) -> None:
        if self._socket.fileno() < 0:
            return
        if not self._unsent:
            try:
                data = data[self._socket.send(data) :]
            except BlockingIOError:
                pass
            except OSError:
                self._close()
                return
        if data:  # the socket's buffer is full: send the rest when the client has read
            self._unsent += data
            self._loop.add_writer(self._socket, self._writable)

    def _writable(self) -> None:
        data, self._unsent = self._unsent, b""
        self._loop.remove_writer(self._socket)
        self._send(data)

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()


def _framed(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def _kernel_time_ns(ancillary: list[tuple[int, int, bytes]]) -> int:
    """Return when the kernel received the data, on the monotonic clock; 0 if it is not known."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
            seconds, nanoseconds = _TIMESPEC.unpack(data[: _TIMESPEC.size])
            age_ns = time.time_ns() - (int(seconds) * 1_000_000_000 + int(nanoseconds))
            return time.monotonic_ns() - max(age_ns, 0)
    return 0


async def serve(spec: timeline.TimelineSpec, port: int) -> None:
    """Print the port and serve on loopback until cancelled."""
    with socket.create_server(("127.0.0.1", port), backlog=1024) as listener:
        listener.setblocking(False)  # noqa: FBT003 (its only form)
        if sys.platform == "linux":  # accepted sockets inherit the option
            listener.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        server = Server(spec)
        asyncio.get_running_loop().add_reader(listener, server.accept, listener)
        gc.disable()  # garbage collection would delay events
        print(listener.getsockname()[1], flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Run the server; the first line on standard output is the port."""
    parser = argparse.ArgumentParser(description="a server with a known token timeline")
    parser.add_argument("--port", type=int, default=0, help="0, the default, takes a free one")
    parser.add_argument("--timeline", default="{}", help="JSON: fields of timeline.TimelineSpec")
    options = parser.parse_args()
    asyncio.run(serve(timeline.TimelineSpec.from_json(options.timeline), options.port))


if __name__ == "__main__":
    main()
