"""The truth server: sends output tokens at known times, and logs what it sent and when.

It serves chat completions as streams, `/tokenize` in vLLM's form, `/v1/models`, `/health` and an
empty `/metrics`, on loopback alone. It uses sockets, not asyncio transports: a write is one `send`,
and the time is taken right after it (docs/appendix/fidelity.md). Times are nanoseconds of
CLOCK_MONOTONIC, which is the same in all processes of a Linux machine, and which
`time.perf_counter_ns` reads too.
"""

import asyncio
import gc
import json
import socket
import struct
import sys
import time
from contextlib import suppress
from functools import cache
from typing import Any, BinaryIO

from draftworth.truth import token_timeline
from draftworth.truth.block_cache import BlockCache, PromptTokens
from draftworth.truth.request_log import RequestTruth, Write
from draftworth.untrusted import MIB

_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
_SO_TIMESTAMPNS = 35  # from Linux's asm-generic/socket.h, because `socket` lacks it
_TIMESPEC = struct.Struct("qq")
_MOST_REQUEST_BYTES = 16 * MIB
_PROMPT_CHARACTERS = 64


class Server:
    """Answers requests with the chunks of a specification, and logs what it sent.

    log: the file to log to. most_requests: after so many requests the server ends.
    """

    def __init__(
        self, spec: token_timeline.TimelineSpec, log: BinaryIO, most_requests: int
    ) -> None:
        self.spec = spec
        self.requests: list[RequestTruth] = []
        self.over = asyncio.Event()
        self._log = log
        self.most_requests = most_requests
        self._logged = self._in_flight = 0
        self._prompts = BlockCache(block_tokens=spec.cache_block_tokens)
        self.writes = cache(self._writes)
        for index in range(token_timeline.POOL):
            self.writes(index, spec.usage, "chat", token_timeline.PROMPT)

    def _writes(
        self,
        index: int,
        usage: token_timeline.Usage,
        form: token_timeline.Form,
        prompt: PromptTokens = token_timeline.PROMPT,
    ) -> tuple[tuple[token_timeline.Event, bytes], ...]:
        events = token_timeline.writes_of(self.spec, index, usage, form, prompt)
        return tuple((event, _framed(event.data)) for event in events)

    def counted(self, text: str, salt: str) -> PromptTokens:
        """Return the tokens of a prompt, and how many of them are in the prefix cache.

        salt: the request's `cache_salt`. Without a cache all prompts have the same length.
        """
        if not self.spec.cache_block_tokens:
            return token_timeline.PROMPT
        cached = self._prompts.cached_tokens(text, salt=salt)
        return PromptTokens(tokens=len(text), cached=cached)

    def began(
        self,
        truth: RequestTruth,
        options: dict[str, Any],
        form: token_timeline.Form,
        prompt: PromptTokens = token_timeline.PROMPT,
    ) -> Any:
        """Register a request; return the writes that answer it, as (event, bytes to send) pairs.

        truth: the server's record of the request; the log gets it when the request has ended.
        options: the request's `stream_options`, which say which chunks are to report token counts.
        form: whether the answer is for a chat or continues a text. prompt: its tokens.
        """
        usage = self.spec.usage
        if usage == "off" or not options.get("include_usage"):
            usage = "off"
        elif not options.get("continuous_usage_stats"):
            usage = "last_chunk"
        writes = self.writes(len(self.requests) % token_timeline.POOL, usage, form, prompt)
        self.requests.append(truth)
        self._in_flight += 1
        return writes

    def ended(self) -> None:
        """Register a request's end; if no other request is in flight, write the log.

        Writing it at another time would delay the chunks of the requests in flight.
        """
        self._in_flight -= 1
        if not self._in_flight:
            self.write_log()
            if len(self.requests) >= self.most_requests:
                self.over.set()

    def write_log(self) -> None:
        for truth in self.requests[self._logged :]:
            self._log.write(truth.line)
        self._log.flush()
        self._logged = len(self.requests)

    def accept(self, listener: socket.socket) -> None:
        with suppress(BlockingIOError):
            while True:
                connection, _ = listener.accept()
                connection.setblocking(False)  # noqa: FBT003 (its only form)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _Connection(self, connection)


class _Connection:
    """A client's connection: reads a request, then writes the answer's events when they are due."""

    def __init__(self, server: Server, connection: socket.socket) -> None:
        self._server = server
        self._socket = connection
        self._loop = asyncio.get_running_loop()
        self._received = b""
        self._arrived_ns = 0
        self._unsent = b""
        self._streams = False
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
        self._received += data
        if not data or len(self._received) > _MOST_REQUEST_BYTES:
            self._close()
            return
        self._arrived_ns = _kernel_time_ns(ancillary)
        head, blank, rest = self._received.partition(b"\r\n\r\n")
        if not blank:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines)}
        try:
            method, path, _ = first.split(" ")
            length = int(fields.get("content-length", 0))
        except ValueError:
            self._close()
            return
        if len(rest) >= length and not self._streams:
            self._received = rest[length:]
            self._answer(method, path, rest[:length])

    def _answer(self, method: str, path: str, body: bytes) -> None:
        if method == "POST" and path in token_timeline.PATHS:
            self._complete(body, token_timeline.PATHS[path])
        elif method == "POST" and path == "/tokenize":
            self._tokenize(body)
        elif path == "/v1/models":
            model = {"id": token_timeline.MODEL, "object": "model", "created": 0, "owned_by": ""}
            self._plain(json.dumps({"object": "list", "data": [model]}).encode())
        elif path in ("/health", "/metrics"):
            self._plain(b"", "text/plain")
        else:
            self._refuse(
                "404 Not Found",
                f"allowed: POST {', '.join(token_timeline.PATHS)} or /tokenize, GET /v1/models",
            )

    def _plain(self, body: bytes, kind: str = "application/json", status: str = "200 OK") -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._send(head.encode() + body)

    def _refuse(self, status: str, message: str) -> None:
        self._plain(json.dumps({"error": {"message": message}}).encode(), status=status)

    def _tokenize(self, body: bytes) -> None:
        try:
            request = json.loads(body)
            tokens = [ord(c) for c in _prompt(request, "chat" if "messages" in request else "text")]
        except _WRONG_REQUEST:
            self._refuse("400 Bad Request", _ALLOWED_REQUEST)
            return
        self._plain(json.dumps({"count": len(tokens), "tokens": tokens}).encode())

    def _complete(self, body: bytes, form: token_timeline.Form) -> None:
        handled_ns = time.monotonic_ns()
        try:
            request = json.loads(body)
            options = dict(request.get("stream_options") or {})
            prompt = _prompt(request, form)
        except _WRONG_REQUEST:
            self._refuse("400 Bad Request", _ALLOWED_REQUEST)
            return
        if not request.get("stream"):
            self._refuse("400 Bad Request", 'allowed: "stream": true')
        elif len(self._server.requests) >= self._server.most_requests:
            self._refuse("503 Service Unavailable", "the server has had its requests (--requests)")
        else:
            truth = RequestTruth(
                prompt=prompt[:_PROMPT_CHARACTERS],
                arrived_ns=self._arrived_ns or handled_ns,
                handled_ns=handled_ns,
            )
            tokens = self._server.counted(prompt, str(request.get("cache_salt") or ""))
            writes = self._server.began(truth, options, form, tokens)
            self._streams = True
            self._send(_STREAM_HEAD)
            self._play(writes, 0, truth)

    def _play(self, writes: Any, position: int, truth: RequestTruth) -> None:
        while position < len(writes) and self._socket.fileno() >= 0:
            event, framed = writes[position]
            due_ns = truth.handled_ns + event.offset_ns
            if due_ns > time.monotonic_ns():
                self._timer = self._loop.call_at(due_ns / 1e9, self._play, writes, position, truth)
                return
            # Set before the last write, because the client may disconnect right after it.
            truth.complete = position == len(writes) - 1
            self._send(framed)
            truth.writes.append(
                Write(due_ns, time.monotonic_ns(), event.tokens, event.data.decode())
            )
            position += 1
        self._send(b"0\r\n\r\n")
        self._stream_ended()

    def _stream_ended(self) -> None:
        if self._streams:
            self._streams = False
            self._server.ended()

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
        self._stream_ended()


_WRONG_REQUEST = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
_ALLOWED_REQUEST = "allowed: a JSON object with messages, or a prompt"


def _prompt(request: Any, form: token_timeline.Form) -> str:
    """Return the text of a request's prompt: of a chat, its last message; each character a token.

    One of `_WRONG_REQUEST` is raised if it has none.
    """
    prompt = request["messages"][-1]["content"] if form == "chat" else request["prompt"]
    return prompt if isinstance(prompt, str) else json.dumps(prompt)


def _framed(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def _kernel_time_ns(ancillary: list[tuple[int, int, bytes]]) -> int:
    """Return when the kernel received data of a socket, in nanoseconds of the monotonic clock.

    ancillary: the ancillary data of `recvmsg`, with the kernel's time stamp. If it has none, 0 is
    returned.
    """
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
            seconds, nanoseconds = _TIMESPEC.unpack(data[: _TIMESPEC.size])
            age_ns = time.time_ns() - (int(seconds) * 1_000_000_000 + int(nanoseconds))
            return time.monotonic_ns() - max(age_ns, 0)
    return 0


async def serve(
    spec: token_timeline.TimelineSpec,
    log: BinaryIO,
    port: int,
    most_seconds: float,
    most_requests: int,
) -> int:
    """Run the truth server until it is cancelled or reaches a limit; return the number of requests.

    Its URL is printed at the start. spec: which chunks it sends, and when. log: the file that gets
    what it sent. port: on 127.0.0.1; 0: any free one.
    most_seconds, most_requests: the limits, of which the first one reached ends the server.
    """
    with socket.create_server(("127.0.0.1", port), backlog=1024) as listener:
        listener.setblocking(False)  # noqa: FBT003 (its only form)
        if sys.platform == "linux":  # accepted sockets inherit the option
            listener.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        server = Server(spec, log, most_requests)
        asyncio.get_running_loop().add_reader(listener, server.accept, listener)
        gc.disable()  # garbage collection would delay events
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)  # noqa: T201
        with suppress(asyncio.CancelledError, TimeoutError):
            await asyncio.wait_for(server.over.wait(), most_seconds)
        server.write_log()
        return len(server.requests)
