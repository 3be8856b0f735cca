"""Stands in for vLLM: compiles graphs slowly, or loads those that exist; then serves.

It has one graph of three files. Like the real engines, it loads the graph from a folder that has
one, and fails if the graph is not complete. Environment variables say how it behaves:
`SECONDS_PER_FILE` is how long compiling a file takes, after `CRASH_AFTER` files the process dies,
and `TROUBLE` names the function below that it runs instead of serving.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

FILES = {"neuron_config.json": b"{}", "model.pt": b"graph" * 2000, "weights/tp0": b"w" * 100}
SECONDS_PER_FILE = float(os.environ.get("SECONDS_PER_FILE", "0"))
CRASH_AFTER = int(os.environ.get("CRASH_AFTER", "99"))
FLOOD_LINES = 40_000


def graphs() -> Path:
    if root := os.environ.get("VLLM_CACHE_ROOT"):
        return Path(root) / "neuron" / "compile_cache" / "0123abcd"
    return Path(os.environ["NEURON_COMPILED_ARTIFACTS"])


def prepare() -> str:
    folder = graphs()
    if (folder / "neuron_config.json").exists():
        graph = {name: (folder / name).read_bytes() for name in FILES}
        assert graph == FILES, "loaded a graph that is not whole"
        return f"loaded {folder}"
    for number, (name, content) in enumerate(FILES.items()):
        if number == CRASH_AFTER:
            sys.stderr.write("crashed\n")
            os._exit(9)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        time.sleep(SECONDS_PER_FILE)
        path.write_bytes(content)
    return f"compiled {folder}"


def serve() -> None:
    from http.server import BaseHTTPRequestHandler, HTTPServer  # slow to load, and rarely needed

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/health" else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

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
    """End, but leave a child process in its own session, which keeps the log's pipe open."""
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    child = subprocess.Popen(sleeper, start_new_session=True)
    Path(os.environ["START_NOTES"]).write_text(f"{child.pid}\n")
    sys.exit(5)


def orphans() -> None:
    """Serve, after leaving grandchildren whose parents have ended and who end soon themselves."""
    for _ in range(3):
        subprocess.run(["sh", "-c", "sleep 0.05 &"], check=True)
    serve()


TROUBLES = {f.__name__: f for f in (crash, hang, flood, daemon, orphans, serve)}


def main() -> None:
    if trouble := os.environ.get("TROUBLE"):
        TROUBLES[trouble]()
    Path(os.environ["START_NOTES"]).write_text(
        f"{prepare()}\n{os.getpid()}\n{os.environ.get('PYTHONPATH', '')}\n{sys.argv[1:]}\n"
    )
    serve()


if __name__ == "__main__":
    main()
