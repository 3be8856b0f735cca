"""The Service of a winner that goes on serving, by a real API server: who may change it, whom it
leads to, and what a later deploy makes of that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from charts.names import LOAD_GENERATOR_SERVICE_ACCOUNT, NAMESPACE
from draftworth.experiment.afterwards import ServeOnDevices
from draftworth.records.live import KeptWinner
from pods.llmperf.kubernetes_servers import NO_SERVER, KubernetesApi, WinnerService
from tests.charts.rendering import render
from tests.cluster.api import Api, Object, path_of
from tests.cluster.conftest import empty
from tests.cluster.control_plane import ControlPlane
from tests.pods.compiled_graphs.pods import eventually
from tests.support.experiments import changed, with_rounds

pytestmark = [pytest.mark.synth]

SERVER, VARIANT = "vllm-qwen3-1-7b-k7", "qwen3-1.7b-k7"
COMPONENT = {"app.kubernetes.io/component": "serving"}


def objects() -> list[Object]:
    """An experiment of one repetition whose winner stays."""
    after = ServeOnDevices(kind="serve", budget_usd=40.0)
    charts = render(changed(with_rounds(), after=after))
    return [item for found in charts.values() for item in found]


@pytest.fixture(scope="module")
def applied(plane: ControlPlane) -> Iterator[Api]:
    plane.api.create(*objects())
    yield plane.api
    empty(plane.api)


@pytest.fixture
def token(applied: Api) -> str:
    path = f"{path_of('ServiceAccount', LOAD_GENERATOR_SERVICE_ACCOUNT)}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(applied.ask("POST", path, request)["status"]["token"])


@pytest.fixture
def service(applied: Api, token: str, tmp_path: Path) -> WinnerService:
    """As the measuring pod has it."""
    (tmp_path / "token").write_text(token)
    (tmp_path / "namespace").write_text(NAMESPACE)
    (tmp_path / "ca.crt").write_bytes(applied.certificate.read_bytes())
    return WinnerService(api=KubernetesApi(url=applied.url, folder=tmp_path))


def kept(*servers: str) -> KeptWinner:
    return KeptWinner(run_id="run", variant=VARIANT, servers=servers, since_unix_s=0.0)


def selector(api: Api) -> Any:
    return api.one("Service", "winner")["spec"].get("selector")


def test_it_leads_to_one_server_to_a_variant_and_nowhere(
    applied: Api, service: WinnerService
) -> None:
    assert selector(applied) is None
    service.select(kept(SERVER))
    one = {**COMPONENT, "app.kubernetes.io/instance": SERVER}
    assert selector(applied) == one
    service.select(kept(SERVER, f"slot0-{SERVER}"))
    assert selector(applied) == {**COMPONENT, "draftworth/variant": VARIANT}
    service.select(kept(SERVER))
    assert selector(applied) == one
    service.select(None)
    assert selector(applied) == {**COMPONENT, "app.kubernetes.io/instance": NO_SERVER}
    assert NO_SERVER not in {item["metadata"]["name"] for item in applied.all("Deployment")}


def test_what_it_selects_are_the_winners_pods(applied: Api, service: WinnerService) -> None:
    service.select(kept(SERVER))
    labels = ",".join(f"{name}={value}" for name, value in selector(applied).items())
    (pod,) = eventually(lambda: applied.all("Pod", labelSelector=labels))
    assert pod["metadata"]["labels"]["draftworth/variant"] == VARIANT
    service.select(None)


def test_another_deploy_leaves_clients_where_they_are(
    plane: ControlPlane, applied: Api, service: WinnerService, tmp_path: Path
) -> None:
    """`kubectl apply` puts back what a manifest gives, and this one gives no selector."""
    (made,) = (o for o in objects() if (o["kind"], o["metadata"]["name"]) == ("Service", "winner"))
    path = tmp_path / "service.json"
    path.write_text(json.dumps(made))
    assert plane.kubectl("apply", "-f", str(path)).returncode == 0
    service.select(kept(SERVER))
    before = selector(applied)
    made["metadata"]["labels"]["changed"] = "yes"
    path.write_text(json.dumps(made))
    assert plane.kubectl("apply", "-f", str(path)).returncode == 0
    assert applied.one("Service", "winner")["metadata"]["labels"]["changed"] == "yes"
    assert selector(applied) == before
    service.select(None)


def test_the_measuring_pod_may_change_no_other_service(applied: Api, token: str) -> None:
    measuring = Api(url=applied.url, token=token, certificate=applied.certificate)
    merge = {"content_type": "application/merge-patch+json"}
    for method, path in (
        ("PATCH", path_of("Service", SERVER)),
        ("GET", path_of("Service", "winner")),
        ("DELETE", path_of("Service", "winner")),
    ):
        more = merge if method == "PATCH" else {}
        body = {"spec": {"selector": None}} if more else None
        answer = measuring.call(method, path, body, **more)
        assert answer.status_code == requests.codes.forbidden, f"{method} {path}: {answer.text}"
