"""Fixtures that the tests of measuring runs share."""

from collections.abc import Iterator

import pytest

from tests.support.stream_server import StreamServer, plain, stream_server


@pytest.fixture(scope="package")
def healthy() -> Iterator[StreamServer]:
    """Run a server that is ready and has no counters: it answers 200 without a body."""
    with stream_server(lambda _: plain("200 OK", b"")) as server:
        yield server
