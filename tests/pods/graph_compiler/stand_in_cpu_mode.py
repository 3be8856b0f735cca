"""Stands in for `vllm serve` of vLLM Neuron in its CPU mode. Trouble: by the variable `TROUBLE`.

As the engine does: it takes its platform only with a device or in this mode, compiles each graph
into an entry of its cache, warms nothing up, and then waits for requests.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

TROUBLE = os.environ.get("TROUBLE", "")


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


def main() -> None:
    if os.environ.get("VLLM_NEURON_CPU_COMPILE") != "1":
        sys.exit("no Neuron device")
    if any(part.startswith("--speculative-config") for part in sys.argv):
        sys.exit("speculative decoding is not supported with VLLM_NEURON_CPU_COMPILE")
    if TROUBLE == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if TROUBLE == "fails":
        sys.exit("RuntimeError: graph capture")
    cache = Path(os.environ["VLLM_CACHE_ROOT"]) / "neuron" / "compile_cache"
    if TROUBLE != "nothing":
        for name in ("prefill", "decode"):
            (cache / name).mkdir(parents=True)
            (cache / name / "graph.neff").write_text(name)
        (cache / "decode.lock").touch()
        told = {**os.environ, "working folder": os.getcwd()}
        Path(os.environ["SAID"]).write_text(json.dumps(told))
    if TROUBLE == "ends":
        return
    (port,) = (int(part.partition("=")[2]) for part in sys.argv if part.startswith("--port="))
    HTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main()
