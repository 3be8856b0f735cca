"""A server whose process ends in the middle of a stream when the prompt is `dies`.

It prints its address on standard output.
"""

import os
import threading
import time
from collections.abc import Sequence

from tests.support.stream_server import (
    HEADERS,
    Request,
    Sleep,
    Step,
    Write,
    completion,
    event,
    stream_server,
)

LIFETIME_SECONDS = 60


def answer(request: Request) -> Sequence[Step]:
    if request.json["messages"][0]["content"] != "dies":
        return completion(1, 1)
    threading.Timer(0.2, os._exit, (0,)).start()
    return [Write(HEADERS), Write(event("x", tokens=1)), Sleep(LIFETIME_SECONDS)]


if __name__ == "__main__":
    with stream_server(answer) as server:
        print(server.base_url, flush=True)  # noqa: T201 (the test reads the address)
        time.sleep(LIFETIME_SECONDS)
