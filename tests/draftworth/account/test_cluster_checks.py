"""How a node release and the driver's chart are looked up; `test_checks.py` has other checks."""

import dataclasses
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from draftworth.account.checks import cluster_checks
from draftworth.account.checks.cluster_checks import node_image
from tests.draftworth.account import stubs

pytestmark = [pytest.mark.emulator]


def test_a_pinned_release_is_requested_by_image_name() -> None:
    parameter_names: list[str] = []

    def answer(**parameters: str) -> Any:
        parameter_names.append(parameters["Name"])
        return {"Parameter": {"Value": "1.35.10-20261119"}}

    here: Any = SimpleNamespace(get_parameter=answer)
    node_image(dataclasses.replace(stubs.situation(), clients=lambda *_: here))
    images = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64"
    assert parameter_names == [
        f"{images}/neuron/recommended/release_version",
        f"{images}/standard/recommended/release_version",
        f"{images}/neuron/amazon-eks-node-al2023-x86_64-neuron-1.35-v20260625/image_id",
    ]


class Registry(BaseHTTPRequestHandler):
    """Gives a token to everybody, and says of a manifest what `status` and `token` have."""

    status, token = 200, b'{"token": "anonymous"}'

    def do_GET(self) -> None:
        self.answer(200, self.token)

    def do_HEAD(self) -> None:
        is_known_to_us = self.headers["Authorization"] == "Bearer anonymous"
        ours = self.path == "/v2/neuron/neuron-helm-chart/manifests/1.10.0"
        self.answer(self.status if is_known_to_us and ours else 401)

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Docker-Content-Digest", "sha256:0123")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("answers", "status", "words"),
    [
        ({}, "pass", "1.10.0 by its tag; today it is sha256:0123"),
        ({"status": 404}, "fail", "public.ecr.aws has no neuron/neuron-helm-chart 1.10.0"),
        ({"status": 503}, "warn", "answers 503"),
        ({"token": b"{}"}, "warn", "cannot be asked"),
        ({"token": b"[" * 10_000_000}, "warn", "cannot be asked"),
    ],
)
def test_driver_chart_is_looked_up_where_deploys_pull(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], status: str, words: str
) -> None:
    with HTTPServer(("127.0.0.1", 0), type("Handler", (Registry,), answers)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(
            cluster_checks, "REGISTRY_URL", f"http://127.0.0.1:{server.server_port}"
        )
        result = cluster_checks.neuron_chart(stubs.situation())
        server.shutdown()
    assert result.status == status
    assert words in result.observation
    assert ("-c neuron-chart=FOLDER" in result.next_step) == (status != "pass")
    # Nobody answers any more.
    assert cluster_checks.neuron_chart(stubs.situation()).status == "warn"
