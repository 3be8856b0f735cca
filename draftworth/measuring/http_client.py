"""An HTTP/1.1 client over asyncio that records when bytes arrived.

Bytes are parsed (by llhttp, in `httptools`) only after all sockets with waiting bytes were read.
Each request has its own connection, opened before the request's time begins, so no figure contains
a handshake. A server may send anything, so an answer's bytes and headers are limited.
"""

import asyncio
import os
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import urlsplit

import httptools

from draftworth.errors import UserInputError
from draftworth.measuring.connections import Clock, Connection, connect
from draftworth.untrusted import hide_secret, one_line

API_KEY_VARIABLE = "OPENAI_API_KEY"
CONNECT_TIMEOUT_SECONDS = 10.0
MAX_HEADER_BYTES = 64 * 1024
_HEADERS = (b"content-type", b"content-encoding", b"location", b"retry-after")
_LENGTH_HEADERS = (b"content-length", b"transfer-encoding")
# asyncio's message of a failed connection, which has the error's number in place of the system's
# text (such as `Connection refused`).
_ERROR_NUMBER = re.compile(r"\[Errno (\d+)\] Connect call failed")
_USER_INFO = re.compile("//[^/]*@")


class HttpError(Exception):
    """A request failed, or its response breaks the rules of HTTP; the message says how."""


class ConnectError(HttpError):
    """No connection to the server could be opened."""


class TooLongAnswerError(HttpError):
    """The server sends more bytes than any correct answer has."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """The status of a response, and those of its headers that the client uses."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)


HeadCallback = Callable[[Head], None]
BodyCallback = Callable[[bytes, int], None]


@dataclass(frozen=True, kw_only=True)
class Response:
    """The head of a response, and when its request was sent (`sent_ns`, by the client's clock).

    sending_ns: the duration of the first write, which is the uncertainty of `sent_ns`.
    kernel_stamped: whether every arrival time is from the kernel.
    no_time: why an arrival time is not known (the client was stopped, ...); empty if all are.
    """

    head: Head
    sent_ns: int
    sending_ns: int
    kernel_stamped: bool
    no_time: str = ""


class _Exchange:
    """Reads one response with its arrival times. `httptools` calls the `on_*` methods."""

    def __init__(self, on_head: HeadCallback, on_body: BodyCallback, limit_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()
        # If sending fails, nothing awaits `done`. Its error is read here, so that asyncio does not
        # log it.
        self.done.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.head: Head | None = None
        self._arrived: list[tuple[int, bytes]] = []
        self._on_head, self._on_body = on_head, on_body
        self._limit_bytes = limit_bytes
        self._left_bytes = min(MAX_HEADER_BYTES, limit_bytes)
        self._headers: dict[str, str] = {}
        self._now_ns = 0
        self._ends_with_connection = True
        self._parser = httptools.HttpResponseParser(self)

    def arrived(self, at_ns: int, data: bytes) -> None:
        """Keep `data`, and parse it only after all sockets that are readable now were read.

        So parsing one response does not delay the arrival times of other responses.
        """
        self._arrived.append((at_ns, data))
        if len(self._arrived) == 1:
            self._loop.call_soon(self._parse)

    def _parse(self) -> None:
        arrived, self._arrived = self._arrived, []
        if self.done.done():
            return
        try:
            for self._now_ns, data in arrived:
                self._left_bytes -= len(data)
                if self._left_bytes < 0:
                    raise self._too_long()
                self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            self._finish(error.__context__ or error)
        except httptools.HttpParserUpgrade:
            self._finish(HttpError("the server switches to another protocol"))
        except (httptools.HttpParserError, HttpError) as error:
            self._finish(error if isinstance(error, HttpError) else HttpError(str(error)))

    def _too_long(self) -> HttpError:
        if self.head is None:
            return HttpError(f"headers of more than {MAX_HEADER_BYTES:,} bytes")
        return TooLongAnswerError(f"an answer of more than {self._limit_bytes:,} bytes")

    def on_message_begin(self) -> None:
        self._headers.clear()
        self._ends_with_connection = True

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in _HEADERS:
            self._headers[name.decode()] = value.decode("utf-8", "replace")
        elif name in _LENGTH_HEADERS:
            self._ends_with_connection = False

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if 100 <= status < 200 or self.done.done():
            return  # an interim response (1xx) before the answer, or a response after it
        self._left_bytes += max(0, self._limit_bytes - MAX_HEADER_BYTES)
        self.head = Head(status=status, headers=dict(self._headers))
        self._on_head(self.head)

    def on_body(self, body: bytes) -> None:
        self._on_body(body, self._now_ns)

    def on_message_complete(self) -> None:
        if self.head:
            self._finish(None)

    def closed(self, exc: Exception | None) -> None:
        self._parse()
        if self.head and self._ends_with_connection and exc is None:
            self._finish(None)  # RFC 9112, 6.3: no length, so the body ends here
        elif not self.done.done():
            what = "after the headers" if self.head else "before any response"
            detail = f": {exc}" if exc else ""
            self._finish(HttpError(f"the server closed the connection {what}{detail}"))

    def _finish(self, error: BaseException | None) -> None:
        if self.done.done():
            return
        self._on_body = lambda *_: None  # bytes after the end of an answer are ignored
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


async def exchange(
    method: str,
    url: str,
    *,
    on_body: BodyCallback,
    limit_bytes: int,
    on_head: HeadCallback = lambda _: None,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    clock: Clock = time.perf_counter_ns,
) -> Response:
    """Send one request, and pass the response to two functions.

    on_head gets the head of the response, then on_body gets every piece of the body with its
    arrival time. An exception in either function ends the exchange.

    ConnectError: no connection within `CONNECT_TIMEOUT_SECONDS`. HttpError: sending failed, or the
    response ended early or is not HTTP. TooLongAnswerError: it has more than `limit_bytes` bytes.
    """
    response = _Exchange(on_head, on_body, limit_bytes)
    connection = await _connected(response, url, clock)
    try:
        sent_ns, sending_ns = await connection.send(
            _request_bytes(method, url, headers or {}, body)
        )
        await response.done
    except OSError as error:
        raise HttpError(f"the request could not be sent: {error}") from error
    finally:
        connection.abort()
    assert response.head  # noqa: S101 (for the type checker: a response that is done has a head)
    return Response(
        head=response.head,
        sent_ns=sent_ns,
        sending_ns=sending_ns,
        kernel_stamped=connection.kernel_stamped,
        no_time=connection.no_time,
    )


async def _connected(response: _Exchange, url: str, clock: Clock) -> Connection:
    try:
        host, port, secure = address_of(url)
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            return await connect(response, host, port, secure=secure, clock=clock)
    except ssl.SSLCertVerificationError as error:
        raise ConnectError(
            f"{_place(url)}: its certificate is not trusted: {error.verify_message}; next: name "
            "the file of its certificate authority in SSL_CERT_FILE"
        ) from error
    except (OSError, TimeoutError, ValueError) as error:
        text = error.strerror if isinstance(error, socket.gaierror) else str(error)
        why = _ERROR_NUMBER.sub(lambda match: os.strerror(int(match[1])), str(text))
        reason = one_line(why) or f"no answer within {CONNECT_TIMEOUT_SECONDS:g} s"
        raise ConnectError(f"{_place(url)}: {reason}") from error


def _place(url: str) -> str:
    return one_line(_USER_INFO.sub("//", url), characters=200)


@lru_cache
def address_of(url: str) -> tuple[str, int, bool]:
    """Return host and port of a URL, and whether it uses TLS; raise ValueError for a wrong URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError("that is no address of a server")
    try:
        parts.hostname.encode("idna")
    except UnicodeError as error:
        raise ValueError(f"no host can have this name: {error.__cause__ or error}") from error
    secure = parts.scheme == "https"
    return parts.hostname, parts.port or (443 if secure else 80), secure


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
    """Return the `Authorization` header for an API key; without a key, return no header.

    A server's answer may repeat the key. So the key is registered here with `hide_secret`, because
    every process that sends the key calls this function first. From then on, messages and files
    have the name of the key's environment variable in its place.
    UserInputError: the key has a character that no header can carry.
    """
    if api_key and not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
        raise UserInputError(
            f"environment variable {API_KEY_VARIABLE}: given a key (not shown) with a line break, "
            "a blank or another character that no HTTP header carries, allowed: printable ASCII; "
            f"next: set it again, from a file for example by {API_KEY_VARIABLE}=$(cat FILE)"
        )
    if not api_key:
        return {}
    hide_secret(API_KEY_VARIABLE, api_key)
    return {"Authorization": f"Bearer {api_key}"}


async def ask(
    url: str,
    *,
    timeout_seconds: float,
    limit_bytes: int,
    api_key: str | None = None,
    body: bytes = b"",
) -> tuple[Head, str]:
    """Send a GET, or a POST if there is a `body` (JSON); return the response's head and text.

    TimeoutError: the response has not ended after `timeout_seconds`. HttpError: see `exchange`.
    """
    pieces: list[bytes] = []
    content_type = {"Content-Type": "application/json"} if body else {}
    async with asyncio.timeout(timeout_seconds):
        response = await exchange(
            "POST" if body else "GET",
            url,
            body=body,
            on_body=lambda data, _: pieces.append(data),
            limit_bytes=limit_bytes,
            headers=bearer(api_key) | content_type,
        )
    return response.head, b"".join(pieces).decode("utf-8", "replace")


_STREAM_TYPE = "text/event-stream"
_WORDS_CHARACTERS = 200


def refusal(head: Head, body: bytes = b"") -> str:
    """Return a line about an answer whose status is not 200, with the start of its body."""
    text = _text_of(head, body)
    location, retry_after = _words(head, "location"), _words(head, "retry-after")
    if 300 <= head.status < 400 and location:
        return (
            f"HTTP {head.status}, a redirect to {location}, which is not followed; next: give the "
            "address that it leads to"
        )
    wait = f" (Retry-After: {retry_after})" if retry_after else ""
    if head.status == 429:
        return (
            f"too many requests: the server limits their rate{wait}; next: a smaller load, or a "
            f"higher limit there{_after(text)}"
        )
    return f"{text}{wait}" if text else f"HTTP {head.status}{wait}"


def why_no_stream(head: Head) -> str:
    """Return why the body of an answer with status 200 is no event stream; empty if it is one.

    A missing content type is accepted. A wrong one is not, as the HTML standard asks of clients.
    """
    if encoding := _encoding(head):
        return (
            f"the answer is compressed ({encoding}), which was not asked for and hides when tokens "
            "come; next: switch compression off in the server or the proxy before it"
        )
    kind = _words(head, "content-type")
    media_type = kind.partition(";")[0].strip().lower()
    if media_type in ("", _STREAM_TYPE):
        return ""
    if media_type == "application/json":
        return (
            "one JSON answer instead of a stream; next: find out why the server, or a proxy before "
            'it, ignores "stream": true'
        )
    return (
        f"the answer is {kind}, not {_STREAM_TYPE}; next: check that the base URL is that of an "
        "OpenAI-compatible server"
    )


def no_stream(head: Head, body: bytes) -> str:
    """Return the text of `why_no_stream`, then the body's beginning if it is not compressed."""
    return why_no_stream(head) + _after(_text_of(head, body))


def _text_of(head: Head, body: bytes) -> str:
    return "" if _encoding(head) else one_line(body.decode("utf-8", "replace"))


def _encoding(head: Head) -> str:
    encoding = _words(head, "content-encoding")
    return "" if encoding.lower() == "identity" else encoding


def _after(text: str) -> str:
    return f"; it says: {text}" if text else ""


def _words(head: Head, name: str) -> str:
    return one_line(head.headers.get(name, ""), characters=_WORDS_CHARACTERS)
