"""Limits the size and the duration of the answers of the Hugging Face hub and its storage.

The hub's client has no such limit: it reads each answer to its end, into memory or onto the disk.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache

import httpx2
from huggingface_hub import set_client_factory
from huggingface_hub.utils._http import default_client_factory

from draftworth.errors import DraftworthError
from draftworth.untrusted import MIB, one_line

# The hub's list of a hundred thousand files has this size. The limit for a smaller file is as high,
# because the answer can be a page about an error instead of the file.
ANSWER_LIMIT_BYTES = 32 * MIB
ANSWER_LIMIT_SECONDS = 600.0
# For a file there is more time: its size at the speed of the slowest connection worth waiting for.
SLOWEST_BYTES_PER_SECOND = MIB / 4


class AnswerError(DraftworthError):
    """An answer is too large, took too long or is compressed; the rest of it was not read."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The limits of an answer: bytes, seconds, and `clock()` at the end of those seconds."""

    size_bytes: int
    seconds: float
    ends_at: float
    clock: Callable[[], float]


_limit: ContextVar[Limit] = ContextVar("limit")


@contextmanager
def limited(size_bytes: int, clock: Callable[[], float]) -> Iterator[None]:
    """Limit the hub's answers to this thread in the `with` block; an answer may raise AnswerError.

    size_bytes: the size of the requested file; the limits of size and time leave room for it.
    clock: returns seconds.
    """
    _install()
    seconds = ANSWER_LIMIT_SECONDS + size_bytes / SLOWEST_BYTES_PER_SECOND
    limit = Limit(
        size_bytes=max(size_bytes, ANSWER_LIMIT_BYTES),
        seconds=seconds,
        ends_at=clock() + seconds,
        clock=clock,
    )
    token = _limit.set(limit)
    try:
        yield
    finally:
        _limit.reset(token)


@cache
def _install() -> None:
    """Replace the hub's client, which the whole process shares, by one with limits."""
    set_client_factory(_client)


def _client() -> httpx2.Client:
    client = default_client_factory()
    before = client.event_hooks["request"]
    client.event_hooks = {"request": [*before, _ask_for_plain], "response": [_limit_answer]}
    return client


def _ask_for_plain(request: httpx2.Request) -> None:
    # A few bytes of a compressed answer can become gigabytes.
    request.headers["Accept-Encoding"] = "identity"


def _limit_answer(response: httpx2.Response) -> None:
    limit, url = _limit.get(None), response.request.url
    if limit is None or not isinstance(response.stream, httpx2.SyncByteStream):
        return
    answer = f"the answer of {url.scheme}://{url.netloc.decode()}"
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise AnswerError(f"{answer} is compressed ({one_line(encoding)}), unasked")
    response.stream = _LimitedStream(response.stream, limit, answer)


class _LimitedStream(httpx2.SyncByteStream):
    def __init__(self, stream: httpx2.SyncByteStream, limit: Limit, answer: str) -> None:
        self._stream, self._limit, self._answer = stream, limit, answer

    def __iter__(self) -> Iterator[bytes]:
        left_bytes = self._limit.size_bytes
        for piece in self._stream:
            left_bytes -= len(piece)
            if left_bytes < 0:
                raise AnswerError(f"{self._answer} has more than {self._limit.size_bytes:,} bytes")
            if self._limit.clock() > self._limit.ends_at:
                raise AnswerError(
                    f"{self._answer} is not at its end after {self._limit.seconds:,.0f} s"
                )
            yield piece

    def close(self) -> None:
        self._stream.close()
