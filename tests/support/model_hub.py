"""A model hub on this machine, with the statuses of Hugging Face's answers."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Hub(BaseHTTPRequestHandler):
    """Answers each path below `/api/models/` with its status, and any other one with 404.

    statuses: by path. requests: path and `Authorization` of each request.
    """

    statuses: Mapping[str, int] = {}
    requests: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        self.requests.append((self.path, self.headers["Authorization"]))
        status = self.statuses.get(self.path.removeprefix("/api/models/"), 404)
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def hub(statuses: Mapping[str, int]) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """Start a hub with these statuses; yield its address and the list of its requests."""
    requests: list[tuple[str, str | None]] = []
    values: dict[str, Any] = {"statuses": statuses, "requests": requests}
    with HTTPServer(("127.0.0.1", 0), type("Handler", (Hub,), values)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()
