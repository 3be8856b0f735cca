"""When bytes are stamped."""

from __future__ import annotations

import asyncio
import itertools

from draftbench.measuring.http import _Exchange

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"


def arrive(exchange: _Exchange, data: bytes) -> None:
    """What asyncio does when bytes are there."""
    exchange.get_buffer(-1)[: len(data)] = data
    exchange.buffer_updated(len(data))


def test_every_socket_that_has_bytes_is_stamped_before_any_byte_is_parsed() -> None:
    """With 64 streams in step, the last one's time must not contain the parsing of 63."""
    ticks = itertools.count()
    log: list[tuple[str, int, int]] = []

    async def run() -> None:
        def exchange(name: str) -> _Exchange:
            return _Exchange(
                lambda data, at: log.append((f"{name}{data.decode()}", at, next(ticks))),
                lambda: next(ticks),
            )

        first, second = exchange("first "), exchange("second ")
        arrive(first, HEAD + b"a")
        arrive(second, HEAD + b"b")
        arrive(first, b"c")
        assert log == []
        await first.done

    asyncio.run(run())
    assert log == [("first a", 0, 3), ("first c", 2, 4), ("second b", 1, 5)]


def test_bytes_that_came_with_the_end_of_the_connection_are_not_lost() -> None:
    received: list[bytes] = []

    async def run() -> None:
        exchange = _Exchange(lambda data, _: received.append(data), lambda: 0)
        arrive(exchange, HEAD + b"ab")
        exchange.connection_lost(None)
        await exchange.done

    asyncio.run(run())
    assert received == [b"ab"]
