"""What the tests of runs share."""

from collections.abc import Iterator

import pytest

from tests.support.stream_server import StreamServer, plain, stream_server


@pytest.fixture(scope="package")
def healthy() -> Iterator[StreamServer]:
    """A server that is ready, and counts nothing."""
    with stream_server(lambda _: plain("200 OK", b"")) as server:
        yield server
