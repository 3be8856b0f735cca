"""A stand-in for the Kubernetes API server: it scales Deployments, over TLS, and can fail."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.certificates import new_authority

NAMESPACE = "draftworth"
TOKEN = "a-token"
_MERGE = "application/merge-patch+json"

# How one request fails: a status and a body; None: it does not fail. `DROPPED` stands for a
# connection that is closed without an answer.
Trouble = tuple[int, bytes] | None
DROPPED: Trouble = (0, b"")


@dataclass(kw_only=True)
class StandInKubernetes:
    """Deployments by name, with their numbers of replicas.

    slow: how many answers still say that a Deployment has a pod after it was stopped.
    trouble: returns how a request fails. It is called with the request's number, from 1.
    requests: the name and the wanted replicas of each request so far, in order.
    folder: the files that a pod with access has mounted. url: the server's address.
    """

    replicas: dict[str, int]
    slow: int = 0
    trouble: Callable[[int], Trouble] = lambda _: None
    requests: list[tuple[str, int]] = field(default_factory=list)
    folder: Path = Path()
    url: str = ""
    _ending: dict[str, int] = field(default_factory=dict)

    def scale(self, name: str, replicas: int) -> dict[str, Any]:
        """Set a Deployment's replicas; return the answer, which has the pods that still exist."""
        if self.replicas[name] and not replicas:
            self._ending[name] = self.slow
        pods = self.replicas[name] if replicas else int(self._ending.get(name, 0) > 0)
        self._ending[name] = max(0, self._ending.get(name, 0) - 1)
        self.replicas[name] = replicas
        metadata = {"name": name, "namespace": NAMESPACE}
        scale = {"spec": {"replicas": replicas}, "status": {"replicas": pods}}
        return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, **scale}


@contextmanager
def stand_in_kubernetes(folder: Path, api: StandInKubernetes) -> Iterator[StandInKubernetes]:
    """Serve the API, and write into `folder` the files that a pod with access has mounted."""
    authority, context = new_authority(folder)
    authority.rename(folder / "ca.crt")
    (folder / "token").write_text(f"{TOKEN}\n")
    (folder / "namespace").write_text(NAMESPACE)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(api))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    api.folder, api.url = folder, f"https://127.0.0.1:{server.server_port}"
    serving = threading.Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    try:
        yield api
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def _handler(api: StandInKubernetes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_PATCH(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == _MERGE
            *folder, name, last = self.path.split("/")
            assert folder == ["", "apis", "apps", "v1", "namespaces", NAMESPACE, "deployments"]
            assert last == "scale"
            patch = json.loads(body)
            # An empty patch changes nothing.
            replicas = patch["spec"]["replicas"] if patch else api.replicas.get(name, 0)
            api.requests.append((name, replicas))
            self._say(*self._answer(name, replicas))

        def _answer(self, name: str, replicas: int) -> tuple[int, bytes]:
            if trouble := api.trouble(len(api.requests)):
                return trouble
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                return 401, status_of("Unauthorized")
            if name not in api.replicas:
                return 404, status_of(f'deployments.apps "{name}" not found')
            return 200, json.dumps(api.scale(name, replicas)).encode()

        def _say(self, status: int, body: bytes) -> None:
            if (status, body) == DROPPED:
                return
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    return Handler


def status_of(message: str) -> bytes:
    """Return the body with which Kubernetes refuses a request."""
    return json.dumps({"kind": "Status", "status": "Failure", "message": message}).encode()
