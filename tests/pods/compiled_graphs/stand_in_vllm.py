"""Stands in for vLLM: compiles slowly into the folder it is told, or loads from it, then serves.

As the engines do: an artifact folder that holds a graph is loaded whatever the flags say, and what
it holds has to be whole; a cache is looked through entry by entry. Behaviour by environment:
`SECONDS_A_FILE` a compiled file takes, `CRASH_AFTER` so many files the process dies; `LOAD`: what
goes wrong with graphs that are there; `ANSWER`: the status of completions with such graphs, or
`hang`, and the server hangs too.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

FILES = {"neuron_config.json": b"{}", "model.pt": b"graph" * 2000, "weights/tp0": b"w" * 100}
SECONDS_A_FILE = float(os.environ.get("SECONDS_A_FILE", "0"))
CRASH_AFTER = int(os.environ.get("CRASH_AFTER", "99"))


def graphs() -> Path:
    if root := os.environ.get("VLLM_CACHE_ROOT"):
        return Path(root) / "neuron" / "compile_cache" / "0123abcd"
    return Path(os.environ["NEURON_COMPILED_ARTIFACTS"])


def prepare() -> str:
    folder = graphs()
    if (folder / "neuron_config.json").exists():
        load_badly(folder)
        wanted = dict(needed(folder))
        found = {name: (folder / name).read_bytes() for name in wanted}
        assert found == wanted, "loaded a graph that is not whole"
        return f"loaded {folder}"
    if os.environ.get("VLLM_NEURON_DISABLE_WARMUP_COMPILE"):
        sys.exit("RuntimeError: a graph is not in the cache")
    for number, (name, content) in enumerate(FILES.items()):
        if number == CRASH_AFTER:
            os._exit(9)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        time.sleep(SECONDS_A_FILE)
        path.write_bytes(content)
    return f"compiled {folder}"


def needed(folder: Path) -> Iterator[tuple[str, bytes]]:
    """What is loaded: weights of the checkpoint where they were not sharded at compiling."""
    settings = json.loads((folder / "neuron_config.json").read_text()).get("neuron_config", {})
    for name, content in FILES.items():
        sharded = settings.get("save_sharded_checkpoint", True)
        if name != "neuron_config.json" and (sharded or not name.startswith("weights/")):
            yield name, content


def load_badly(folder: Path) -> None:
    match os.environ.get("LOAD"):
        case "crash":
            sys.stderr.write("RuntimeError: nrt_load failed\n")
            sys.exit(7)
        case "hang":
            sys.stderr.write("loading\n")
            time.sleep(600)
        case "without a word":  # as where memory ran out: the container's processes, all at once
            os.kill(os.getppid(), signal.SIGKILL)
            os._exit(9)
        case "add":
            (folder / "trace").write_bytes(b"trace")
        case "compile over":
            (folder / "neuron_config.json").write_bytes(FILES["neuron_config.json"])
            (folder / "model.pt").write_bytes(FILES["model.pt"])


class Handler(BaseHTTPRequestHandler):
    was_loaded = False

    def do_GET(self) -> None:
        models = json.dumps({"data": [{"id": "a-name"}]}).encode()
        body = {"/health": b"", "/v1/models": models}.get(self.path)
        self.answer(404 if body is None else 200, body or b"")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert (asked["model"], asked["temperature"]) == ("a-name", 0)
        choice = {"text": "1", "finish_reason": "length"}
        usage = {"completion_tokens": asked["max_tokens"]}
        if self.was_loaded and os.environ.get("ANSWER") == "hang":
            time.sleep(600)
        status = int(os.environ.get("ANSWER", "200")) if self.was_loaded else 200
        self.answer(status, json.dumps({"choices": [choice], "usage": usage}).encode())

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    port = int(sys.argv[sys.argv.index("--port") + 1])
    did = prepare()
    Handler.was_loaded = did.startswith("loaded")
    Path(os.environ["SAID"]).write_text(
        f"{did}\n{os.getpid()}\n{os.environ.get('PYTHONPATH', '')}\n{sys.argv[1:]}\n"
    )
    HTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main()
