"""Stands in for a vLLM that does not do well. What it does is in the variable `TROUBLE`.

It answers at /health once it is healthy, so it may also stand in for one that is slow.
"""

import os
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

FLOOD_LINES = 40_000


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def serve() -> None:
    port = int(sys.argv[sys.argv.index("--port") + 1])
    HTTPServer(("127.0.0.1", port), Handler).serve_forever()


def crash() -> None:
    sys.stderr.write("Traceback (most recent call last):\nRuntimeError: no\n")
    sys.exit(3)


def hang() -> None:
    time.sleep(600)


def flood() -> None:
    sys.stdout.write("".join(f"line {n}\n" for n in range(FLOOD_LINES)))
    sys.exit(4)


def daemon() -> None:
    """Leaves behind a grandchild of a session of its own, which holds the log's pipe."""
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    child = subprocess.Popen(sleeper, start_new_session=True)
    Path(os.environ["SAID"]).write_text(f"{child.pid}\n")
    sys.exit(5)


def orphans() -> None:
    """Its children's children lose their parents and end."""
    for _ in range(3):
        subprocess.run(["sh", "-c", "sleep 0.05 &"], check=True)
    serve()


if __name__ == "__main__":
    {f.__name__: f for f in (crash, hang, flood, daemon, orphans, serve)}[os.environ["TROUBLE"]]()
