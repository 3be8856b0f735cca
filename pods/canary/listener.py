"""Answers HTTP requests where a server would, so that a canary can try the way to it.

Its pod has the labels by which the network policies know a server, and runs on a CPU node. It ends
by itself after all tries of the canary.

Exit code: 0, its time is over.
"""

import argparse
import sys
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Timer
from typing import Any

from pods.log import end_at_sigterm, log_line

# The canary's pods, each of which tries for some minutes, and Kubernetes' waits between them end
# within this time.
LISTEN_HOURS = 2


class _Answer(BaseHTTPRequestHandler):
    # The handler closes a connection that has sent no request for this many seconds.
    timeout = 10

    def do_GET(self) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *values: Any) -> None:  # noqa: A002 (the base class's name)
        log_line(f"{self.client_address[0]}: {format % values}")


def main(argv: Sequence[str]) -> int:
    """Answer requests until the time is over, and return the exit code."""
    arguments = _parser().parse_args(argv)
    end_at_sigterm()
    with ThreadingHTTPServer(("", arguments.port), _Answer) as server:
        log_line(f"listening at port {server.server_port}")
        timer = Timer(arguments.seconds, server.shutdown)
        timer.start()
        server.serve_forever()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pods.canary.listener", description=__doc__)
    parser.add_argument("--port", required=True, type=int, help="the port of the servers")
    parser.add_argument(
        "--seconds",
        type=float,
        default=LISTEN_HOURS * 3600,
        help="how long it listens (%(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
