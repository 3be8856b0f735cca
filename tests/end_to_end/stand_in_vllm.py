"""Stands in for vLLM: compiles or loads, then streams completions; with drafts four tokens per
step, or as many as a shorter window yields.

    vllm serve TARGET --port=N [--speculative-config=...]

What it did at its start is in the file that `START_NOTES` names. It listens on loopback, or where
`LISTEN_ON` says.
"""

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.pods.compiled_graphs.stand_in_vllm import TROUBLES, prepare  # noqa: E402
from tests.support.stream_server import DONE, event, usage_event  # noqa: E402

SECONDS_PER_STEP = 0.004
DRAFTED_TOKENS_PER_STEP = 4


class Handler(BaseHTTPRequestHandler):
    """Answers health requests, and streams chat completions of the requested length."""

    tokens_per_step = 1

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        total, wanted = 0, int(request["max_tokens"])
        while total < wanted:
            time.sleep(SECONDS_PER_STEP)
            added = min(self.tokens_per_step, wanted - total)
            total += added
            finish = "length" if total == wanted else None
            self.wfile.write(event("x" * added, tokens=total, finish=finish))
        self.wfile.write(usage_event(total) + DONE)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def speculation() -> list[dict[str, Any]]:
    configs = (a.partition("=")[2] for a in sys.argv if a.startswith("--speculative-config="))
    return [json.loads(config) for config in configs]


def read_models() -> None:
    """Read the configuration of every model on the command line, as vLLM does first."""
    target = sys.argv[2]
    for folder in (target, *(config["model"] for config in speculation())):
        json.loads(Path(folder, "config.json").read_text())


def main() -> None:
    if trouble := os.environ.get("TROUBLE"):
        TROUBLES[trouble]()
    read_models()
    (port,) = (int(a.partition("=")[2]) for a in sys.argv if a.startswith("--port="))
    for config in speculation():
        window = int(config["num_speculative_tokens"])
        Handler.tokens_per_step = min(DRAFTED_TOKENS_PER_STEP, window)
    Path(os.environ["START_NOTES"]).write_text(prepare())
    address = os.environ.get("LISTEN_ON", "127.0.0.1")
    ThreadingHTTPServer((address, port), Handler).serve_forever()


if __name__ == "__main__":
    main()
