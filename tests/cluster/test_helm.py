"""CDK's handler installs the Neuron driver's chart with the Helm of the pinned layer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api import Api, path_of
from tests.cluster.control_plane import ControlPlane
from tests.cluster.deploying import Handler, handler
from tests.pods.compiled_graphs.pods import eventually
from tests.stacks.synthesis import only, synthesis
from tests.support.helm import unpack_helm

pytestmark = [pytest.mark.synth]

CHART = Path(__file__).with_name("neuron_chart")
RELEASE = "Custom::AWSCDK-EKS-HelmChart"
ACCOUNT = path_of("ServiceAccount", "neuron-dra-driver-sa", "neuron-dra-driver")
DEVICES = path_of("DeviceClass", "neuron.aws.com")
NAMESPACE = path_of("Namespace", "neuron-dra-driver")


def release(**changes: str) -> dict[str, Any]:
    """Return the release's properties in the template, with the stand-in for the chart."""
    properties = only(synthesis().template("qwen3-32b", "cluster"), RELEASE)["Properties"]
    left = {k: v for k, v in properties.items() if k not in ("Repository", "Version", "Chart")}
    return {**left, "Chart": str(CHART), "ClusterName": "test", **changes}


@pytest.fixture
def handle(plane: ControlPlane, api: Api, tmp_path: Path) -> Iterator[Handler]:
    """Yield a function that sends events to the handler, which has the pinned layer's Helm."""
    with handler(plane, synthesis().folder, tmp_path) as send:
        unpack_helm(synthesis().folder, tmp_path / "bin")
        yield send
        api.delete(NAMESPACE)
        eventually(lambda: api.find(NAMESPACE) is None)


def call(send: Handler, request: str, properties: dict[str, Any]) -> str:
    """Send an event, and return the handler's error, or what it logged of a failed deletion."""
    event = {
        "RequestType": request,
        "ResourceType": RELEASE,
        "LogicalResourceId": "NeuronDriver",
        "ResourceProperties": properties,
    }
    error, log = send(event)
    return error or next((line for line in log.splitlines() if "delete error" in line), "")


def test_the_driver_is_installed_updated_and_installed_again(api: Api, handle: Handler) -> None:
    for request in ("Create", "Update"):
        assert call(handle, request, release()) == ""
        assert api.find(ACCOUNT)
        assert api.find(DEVICES)
    assert call(handle, "Delete", release()) == ""
    eventually(lambda: api.find(NAMESPACE) is None)
    assert api.find(DEVICES) is None
    assert call(handle, "Create", release()) == ""
    assert api.find(ACCOUNT)
    assert call(handle, "Delete", release()) == ""


def test_helm_refuses_a_namespace_that_is_missing(handle: Handler) -> None:
    error = call(handle, "Create", release(Namespace="missing"))
    assert 'namespaces "missing" not found' in error.replace("\\", "")
